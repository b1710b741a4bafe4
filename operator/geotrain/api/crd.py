"""Writes crds/*.yaml from the models, and their copies: ``python -m geotrain.api.crd [--check]``.

A field, its rule and its explanation are written once, in the model; the CRDs, the chart's copy
of them and the reference pages are made from that. The chart's copy of the scheduler's
configuration and its admission policy for templates are made here too. ``--check`` writes nothing
and fails on any difference.
"""

import argparse
import hashlib
import json
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from geotrain.api import admission, reference
from geotrain.api.labels import GROUP, VERSION
from geotrain.api.schema import Schema, structural
from geotrain.api.v1alpha1 import KINDS
from geotrain.api.v1alpha1.fields import RULES
from geotrain.api.v1alpha1.resource import Column, Resource

DIGEST = f"{GROUP}/digest"
"""Annotation of a CRD: changes with its spec, so that Helm sees whether one is the chart's."""

HEADER = "# Generated from operator/geotrain/api/v1alpha1 by `make crds`; do not edit.\n"
POLICY_HEADER = "# Generated from operator/geotrain/api/admission.py by `make crds`; do not edit.\n"


def definition(kind: type[Resource]) -> dict[str, Any]:
    """The CustomResourceDefinition of a kind."""
    spec = _spec(kind)
    content = json.dumps(spec, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(content.encode()).hexdigest()[:16]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.PLURAL}.{GROUP}", "annotations": {DIGEST: digest}},
        "spec": spec,
    }


def definitions() -> tuple[dict[str, Any], ...]:
    """The CustomResourceDefinitions of all kinds."""
    return tuple(definition(kind) for kind in KINDS)


def _spec(kind: type[Resource]) -> dict[str, Any]:
    name = kind.kind()
    return {
        "group": GROUP,
        "scope": "Namespaced" if kind.NAMESPACED else "Cluster",
        "names": {
            "kind": name,
            "listKind": f"{name}List",
            "plural": kind.PLURAL,
            "singular": name.lower(),
            "shortNames": [kind.SHORT],
            "categories": ["geotrain"],
        },
        "versions": [
            {
                "name": VERSION,
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [_column(c) for c in kind.COLUMNS],
                "schema": {"openAPIV3Schema": root_schema(kind)},
            }
        ],
    }


def root_schema(kind: type[Resource]) -> Schema:
    """The schema of a whole object: spec with defaults, status without, the kind's own rules."""
    written = kind.model_json_schema(by_alias=True)
    spec, status = (
        {**written["properties"][part], "$defs": written["$defs"]} for part in ("spec", "status")
    )
    status.pop("default", None)
    schema: Schema = {
        "type": "object",
        "description": " ".join(written["description"].split()),
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": f"Always {GROUP}/{VERSION}."},
            "kind": {"type": "string", "description": f"Always {kind.kind()}."},
            "metadata": {"type": "object"},
            "spec": structural(spec),
            "status": structural(status, defaults=False),
        },
    }
    if kind.RULES:
        schema[RULES] = list(kind.RULES)
    return schema


def documents() -> dict[str, str]:
    """File name → YAML of every CRD."""
    return {f"{GROUP}_{kind.PLURAL}.yaml": HEADER + _yaml(definition(kind)) for kind in KINDS}


def generated() -> dict[str, dict[str, str]]:
    """Folder below the project's root → file name → text, of all that is made from other files."""
    configuration = files("geotrain") / "roles/extender/scheduler-config.yaml"
    return {
        "crds": documents(),
        "charts/geotrain/charts/crds/crds": documents(),
        "charts/geotrain/files": {
            configuration.name: configuration.read_text(encoding="utf-8"),
            "template-policy.yaml": POLICY_HEADER + _yaml(admission.template_policy()),
        },
        "docs/reference": reference.pages(root_schema),
    }


def drift(root: Path) -> list[str]:
    """What below ``root`` differs from what would be written, a sentence each."""
    problems = []
    for folder, wanted in generated().items():
        found = {path.name for path in (root / folder).glob("*")}
        problems += [f"{folder}/{name} has no source" for name in sorted(found - set(wanted))]
        problems += [f"{folder}/{name} is missing" for name in sorted(set(wanted) - found)]
        for name in sorted(found & set(wanted)):
            if (root / folder / name).read_text(encoding="utf-8") != wanted[name]:
                problems.append(f"{folder}/{name} differs from its source")
    return problems


def write(root: Path) -> None:
    """Write everything, and remove what has no source any more."""
    for folder, wanted in generated().items():
        (root / folder).mkdir(parents=True, exist_ok=True)
        for stale in {path.name for path in (root / folder).glob("*")} - set(wanted):
            (root / folder / stale).unlink()
        for name, text in wanted.items():
            (root / folder / name).write_text(text, encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Write or check; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m geotrain.api.crd",
        description="Write crds/, the chart's copies and docs/reference from their sources.",
    )
    parser.add_argument("root", nargs="?", type=Path, default=Path(), help="the project's folder")
    parser.add_argument("--check", action="store_true", help="only compare; fail on a difference")
    options = parser.parse_args(arguments)
    if not options.check:
        write(options.root)
        return 0
    problems = drift(options.root)
    for problem in problems:
        print(f"{problem}; run make crds", file=sys.stderr)
    return 1 if problems else 0


def _column(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.type,
        "jsonPath": column.path,
        "description": column.description,
        "priority": 1 if column.wide else 0,
    }


class _Dumper(yaml.SafeDumper):
    """Writes repeated parts out in full: anchors are legal YAML and unreadable."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Text of several lines as a block, so that it can be read."""
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def _yaml(document: dict[str, Any]) -> str:
    return str(yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100))


if __name__ == "__main__":
    sys.exit(main())
