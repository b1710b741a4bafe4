"""Walks over the CRDs' schemas: their rules, their limits, and values that keep or break them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

Schema = dict[str, Any]
Case = tuple[dict[str, Any], str, Any, str]
"""A good manifest, the path of a field, a value for it, and what the API server says to that."""

FOLDER = Path(__file__).parents[2] / "crds"


def crds() -> dict[str, Schema]:
    """Every CustomResourceDefinition of the project, by kind."""
    documents = (
        yaml.load(path.read_text(), yaml.CSafeLoader) for path in sorted(FOLDER.glob("*.yaml"))
    )
    return {crd["spec"]["names"]["kind"]: crd for crd in documents}


def root(crd: Schema) -> Schema:
    """The schema of whole objects."""
    schema: Schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def part(crd: Schema, name: str) -> Schema:
    """The schema of ``spec`` or ``status``."""
    schema: Schema = root(crd)["properties"][name]
    return schema


def rules(schema: Schema) -> Iterator[dict[str, str]]:
    """All CEL rules of a schema and what is below it."""
    yield from schema.get("x-kubernetes-validations", [])
    for _, child in _children("", schema):
        yield from rules(child)


def objects(path: str, schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Every object with named fields, by the path that ``kubectl explain`` takes."""
    inner = schema.get("items", schema)
    if "properties" in inner:
        yield path, inner
        for name, child in inner["properties"].items():
            yield from objects(f"{path}.{name}", child)


def sample(schema: Schema) -> Any:
    """A value with every field set; it keeps types and enums, not rules."""
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("x-kubernetes-int-or-string"):
        return 1
    kind = schema["type"]
    if kind == "object":
        return {name: sample(child) for name, child in schema.get("properties", {}).items()}
    if kind == "array":
        return [sample(schema["items"])]
    if kind == "string":
        return "2026-01-01T00:00:00Z" if schema.get("format") == "date-time" else "word"
    return {"integer": 1, "number": 0.5, "boolean": True}[kind]


def limits(manifest: dict[str, Any], path: str, schema: Schema) -> Iterator[Case]:
    """A case for every limit of a schema: lengths, numbers, enums, required fields."""
    for value, message in (*_beyond_size(schema), *_beyond_number(schema)):
        yield manifest, path, value, message
    for name in schema.get("required", []):
        whole = sample(schema)
        del whole[name]
        yield manifest, path, whole, f"{name}: Required value"
    for below, child in _children(path, schema):
        yield from limits(manifest, below, child)


def _children(path: str, schema: Schema) -> Iterator[tuple[str, Schema]]:
    for name, child in schema.get("properties", {}).items():
        yield f"{path}.{name}", child
    if "items" in schema:
        yield f"{path}.0", schema["items"]


def _beyond_size(schema: Schema) -> Iterator[tuple[Any, str]]:
    if "enum" in schema:
        yield "no such", "supported values: " + ", ".join(f'"{v}"' for v in schema["enum"])
    if least := schema.get("minLength"):
        yield "", f"should be at least {least} chars long"
    if most := schema.get("maxLength"):
        yield "a" * (most + 1), f"may not be more than {most} bytes"
    if least := schema.get("minItems"):
        yield [], f"should have at least {least} items"
    if most := schema.get("maxItems"):
        yield [sample(schema["items"])] * (most + 1), f"must have at most {most} items"
    if least := schema.get("minProperties"):
        yield {}, f"should have at least {least} properties"
    if most := schema.get("maxProperties"):
        yield {f"k{i}": "v" for i in range(most + 1)}, f"must have at most {most} items"


def _beyond_number(schema: Schema) -> Iterator[tuple[Any, str]]:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and schema.get("exclusiveMinimum"):
        yield least, f"should be greater than {least}"
    elif least is not None:
        yield least - 1, f"should be greater than or equal to {least}"
    if most is not None:
        written = f"{most:g}" if isinstance(most, float) else str(most)  # as Go prints it
        yield most + 1, f"should be less than or equal to {written}"
