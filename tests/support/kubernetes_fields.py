"""The fields of the kinds that the chart renders, in the oldest Kubernetes that it supports.

A field that a version does not know is dropped there without a word, so an object is held against
the oldest version's own description of itself. Fields of stable APIs do not go away, so what the
oldest and the newest version take, those between them take too.

The list is made from the file that Kubernetes publishes with each release::

    PYTHONPATH=tests python -m support.kubernetes_fields api/openapi-spec/swagger.json > \\
        tests/data/kubernetes-1.33-fields.json
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

FIELDS: Final = Path(__file__).parents[1] / "data" / "kubernetes-1.33-fields.json"
SOURCE: Final = "api/openapi-spec/swagger.json of Kubernetes v1.33.13"
KINDS: Final = {
    "v1": "ConfigMap Namespace Pod ResourceQuota Secret Service ServiceAccount",
    "apps/v1": "Deployment DaemonSet",
    "batch/v1": "Job",
    "admissionregistration.k8s.io/v1": (
        "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding"
    ),
    "apiextensions.k8s.io/v1": "CustomResourceDefinition",
    "networking.k8s.io/v1": "NetworkPolicy",
    "policy/v1": "PodDisruptionBudget",
    "rbac.authorization.k8s.io/v1": "ClusterRole ClusterRoleBinding Role RoleBinding",
    "scheduling.k8s.io/v1": "PriorityClass",
}

_ANY: Final = "*"
_PREFIX: Final = "#/definitions/"


def unknown(manifest: Mapping[str, Any]) -> list[str]:
    """The paths in an object that the oldest Kubernetes does not know."""
    written = _written()
    kind = f"{manifest['apiVersion']}/{manifest['kind']}"
    if kind not in written["kinds"]:
        return [f"{kind}, which is no kind there (or none that {Path(__file__).name} lists)"]
    return list(_unknown(manifest, {"ref": written["kinds"][kind]}, ""))


def _unknown(value: Any, node: Any, path: str) -> Iterator[str]:
    if "ref" in node:
        node = _written()["types"][node["ref"]]
    if node == _ANY:
        return
    for key, each in _entries(value):
        below = f"{path}.{key}" if isinstance(key, str) else f"{path}[{key}]"
        fields = node.get("fields")
        if fields is None:
            yield from _unknown(each, node.get("items") or node["values"], below)
        elif key in fields:
            yield from _unknown(each, fields[key], below)
        else:
            yield below


def _entries(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list) else []


@cache
def _written() -> dict[str, Any]:
    return dict(json.loads(FIELDS.read_text()))


def digest(swagger: Mapping[str, Any]) -> dict[str, Any]:
    """Kinds and types with their fields' names, without the rest of the description."""
    definitions = swagger["definitions"]
    kinds: dict[str, str] = {}
    for name, schema in definitions.items():
        for gvk in schema.get("x-kubernetes-group-version-kind", ()):
            api = "/".join(part for part in (gvk["group"], gvk["version"]) if part)
            if gvk["kind"] in KINDS.get(api, "").split():
                kinds[f"{api}/{gvk['kind']}"] = name
    types: dict[str, Any] = {}
    waiting = sorted(kinds.values())
    while waiting:
        name = waiting.pop()
        if name not in types:
            types[name] = _node(definitions[name])
            waiting += sorted(_references(types[name]))
    return {
        "source": SOURCE,
        "kinds": dict(sorted(kinds.items())),
        "types": dict(sorted(types.items())),
    }


def _node(schema: Mapping[str, Any]) -> Any:
    if "$ref" in schema:
        return {"ref": schema["$ref"].removeprefix(_PREFIX)}
    if "properties" in schema:
        # An alpha field is dropped wherever nobody has switched its feature on.
        known = {k: v for k, v in schema["properties"].items() if not _is_alpha(v)}
        return {"fields": {k: _node(v) for k, v in sorted(known.items())}}
    if "items" in schema:
        inner = _node(schema["items"])
        return _ANY if inner == _ANY else {"items": inner}
    if isinstance(schema.get("additionalProperties"), Mapping):
        inner = _node(schema["additionalProperties"])
        return _ANY if inner == _ANY else {"values": inner}
    return _ANY


def _is_alpha(schema: Mapping[str, Any]) -> bool:
    return bool(
        re.search(
            r"\balpha[- ](field|level|feature)", str(schema.get("description", "")), re.IGNORECASE
        )
    )


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, Mapping):
        if isinstance(node.get("ref"), str):
            yield node["ref"]
        for each in node.values():
            yield from _references(each)


if __name__ == "__main__":
    print(json.dumps(digest(json.loads(Path(sys.argv[1]).read_text())), separators=(",", ":")))
