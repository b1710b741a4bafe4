"""Writes crds/*.yaml from the models: ``python -m geotrain.api.crd [--check] [DIRECTORY]``.

The YAML is generated, so that a field, its rule and its explanation are written once. ``--check``
writes nothing and fails if a file differs from what the models say.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml

from geotrain.api.labels import GROUP, VERSION
from geotrain.api.schema import Schema, structural
from geotrain.api.v1alpha1 import KINDS
from geotrain.api.v1alpha1.fields import RULES
from geotrain.api.v1alpha1.resource import Column, Resource

HEADER = "# Generated from operator/geotrain/api/v1alpha1 by `make crds`; do not edit.\n"


def definition(kind: type[Resource]) -> dict[str, Any]:
    """The CustomResourceDefinition of a kind."""
    name = kind.kind()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.PLURAL}.{GROUP}"},
        "spec": {
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
        },
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
    return {
        f"{GROUP}_{kind.PLURAL}.yaml": HEADER + _yaml(definition(kind))
        for kind in KINDS
    }  # fmt: skip


def drift(directory: Path) -> list[str]:
    """What in ``directory`` differs from the models, a sentence each."""
    wanted = documents()
    found = {p.name for p in directory.glob("*.yaml")}
    problems = [f"{directory / name} belongs to no kind" for name in sorted(found - set(wanted))]
    for name, text in wanted.items():
        path = directory / name
        if not path.exists():
            problems.append(f"{path} is missing")
        elif path.read_text(encoding="utf-8") != text:
            problems.append(f"{path} differs from the models")
    return problems


def write(directory: Path) -> None:
    """Write every CRD and remove those of kinds that are no more."""
    directory.mkdir(parents=True, exist_ok=True)
    wanted = documents()
    for stale in {p.name for p in directory.glob("*.yaml")} - set(wanted):
        (directory / stale).unlink()
    for name, text in wanted.items():
        (directory / name).write_text(text, encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Write or check the CRDs; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m geotrain.api.crd", description=__doc__)
    parser.add_argument("directories", nargs="*", type=Path, default=[Path("crds")])
    parser.add_argument("--check", action="store_true", help="only compare; fail on a difference")
    options = parser.parse_args(arguments)
    problems: list[str] = []
    for directory in options.directories:
        if options.check:
            problems += drift(directory)
        else:
            write(directory)
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


def _yaml(document: dict[str, Any]) -> str:
    return str(yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100))


if __name__ == "__main__":
    sys.exit(main())
