"""Writes pod_fields.json from a real API server: ``python -m support.pod_fields`` (in tests/).

The server is the bare control plane of the tests, which runs the newest supported Kubernetes. What
it publishes of core/v1 PodSpec (OpenAPI v3, Apache-2.0) is kept as names and JSON types alone.
"""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from support.controlplane import ControlPlane

TARGET: Final = Path(__file__).parents[2] / "operator/geotrain/api/pod_template" / "pod_fields.json"
_ROOT: Final = "PodSpec"
_SPECIAL: Final = {"Quantity": "quantity", "IntOrString": "int-or-string"}

Schema = Mapping[str, Any]


def text_of(plane: ControlPlane) -> str:
    """The file as it should be, by what a server says; a type a line."""
    version = json.loads(plane.kubectl("get", "--raw", "/version"))["gitVersion"]
    document = json.loads(plane.kubectl("get", "--raw", "/openapi/v3/api/v1"))
    types = reachable(document["components"]["schemas"])
    lines = ",\n".join(
        f"  {json.dumps(name)}: {json.dumps(fields)}" for name, fields in sorted(types.items())
    )
    minor = ".".join(version.split(".")[:2])
    source = f"Kubernetes {minor}, OpenAPI of core/v1 {_ROOT}: names and JSON types"
    head = f'{{"source": {json.dumps(source)},\n "licence": "Apache-2.0",\n "types": {{\n'
    return f"{head}{lines}\n }}\n}}\n"


def reachable(schemas: Mapping[str, Schema]) -> dict[str, dict[str, str]]:
    """PodSpec and every type that it is made of, by short names."""
    short = {name.rpartition(".")[2]: name for name in schemas}
    found: dict[str, dict[str, str]] = {}
    left = [_ROOT]
    while left:
        name = left.pop()
        if name in found:
            continue
        properties = schemas[short[name]]["properties"]
        found[name] = {key: _kind(value, schemas) for key, value in sorted(properties.items())}
        kinds = (kind.strip("[]{}") for kind in found[name].values())
        left += [kind for kind in kinds if kind[0].isupper()]
    return found


def _kind(schema: Schema, schemas: Mapping[str, Schema]) -> str:
    references = [each.get("$ref", "") for each in (schema, *schema.get("allOf", ()))]
    for reference in filter(None, references):
        full = reference.rpartition("/")[2]
        name = full.rpartition(".")[2]
        target = schemas[full]
        if name in _SPECIAL:
            return _SPECIAL[name]
        return name if "properties" in target else _kind(target, schemas)
    if schema.get("type") == "array":
        return f"[{_kind(schema['items'], schemas)}]"
    if schema.get("type") == "object":
        inner = schema.get("additionalProperties")
        return f"{{{_kind(inner, schemas)}}}" if inner else "any"
    return str(schema["type"])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, ControlPlane(Path(folder)) as plane:
        TARGET.write_text(text_of(plane), encoding="utf-8")
    print(f"wrote {TARGET}")


if __name__ == "__main__":
    main()
