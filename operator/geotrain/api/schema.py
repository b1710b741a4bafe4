"""pydantic's JSON schema, translated to the structural schema of a CustomResourceDefinition.

The two differ (apiextensions.k8s.io/v1 JSONSchemaProps against JSON Schema 2020-12):

    $defs, $ref              inlined; a description beside a $ref wins over the target's
    title                    dropped
    anyOf [X, null]          X; absent means None. No ``nullable``: an explicit null is refused
    const, enum              enum
    exclusiveMinimum: n      minimum: n with exclusiveMinimum: true; the maximum alike
    additionalProperties     false dropped (pruning, and strict validation, say it);
                             true becomes x-kubernetes-preserve-unknown-fields
    pattern with a message   a CEL rule that shows the message instead of the expression
    int-or-string            the anyOf branches are dropped; the field's CEL rule checks the value

Everything else that is not known here raises ``UnknownConstruct``: silence would mean a rule that
pydantic checks and the API server does not.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from geotrain.api.v1alpha1.fields import INT_OR_STRING, PATTERN_MESSAGE, RULES

Schema = dict[str, Any]

_COPIED: Final = frozenset(
    {
        "description",
        "enum",
        "format",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "type",
        INT_OR_STRING,
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
    }
)
_FIRST: Final = ("description", "type", "format", "default", "enum", "required", "properties")
_DROPPED: Final = frozenset({"title", "$defs"})


class UnknownConstruct(ValueError):
    """pydantic wrote something that has no known counterpart in a structural schema."""


def structural(schema: Mapping[str, Any], defaults: bool = True) -> Schema:
    """Translate a whole document. ``defaults`` of False leaves defaults out (for a status)."""
    return _Translator(schema.get("$defs", {}), defaults).translate(dict(schema), "")


class _Translator:
    """Translates one document, whose ``$defs`` it holds."""

    def __init__(self, definitions: Mapping[str, Any], defaults: bool) -> None:
        self._definitions = definitions
        self._defaults = defaults
        self._special: dict[str, Callable[[Any, str], Schema]] = {
            "additionalProperties": self._additional_properties,
            "const": lambda value, _: {"enum": [value]},
            "default": self._default,
            "exclusiveMaximum": lambda value, _: {"maximum": value, "exclusiveMaximum": True},
            "exclusiveMinimum": lambda value, _: {"minimum": value, "exclusiveMinimum": True},
            "items": lambda value, path: {"items": self.translate(value, f"{path}[]")},
            "pattern": lambda value, _: {"pattern": value},
            "properties": self._properties,
            "required": lambda value, _: {"required": sorted(value)},
            RULES: lambda value, _: {RULES: [_rule(entry) for entry in value]},
        }

    def translate(self, schema: Mapping[str, Any], path: str) -> Schema:
        """Translate one node; ``path`` is for messages."""
        node = self._flatten(schema, path)
        result: Schema = {}
        for key, value in node.items():
            if key in self._special:
                result |= self._special[key](value, path)
            elif key in _COPIED:
                result[key] = _unwrapped(value)
            elif key not in _DROPPED and key != PATTERN_MESSAGE:
                raise UnknownConstruct(f"{path or 'the schema'}: {key} is not translated yet")
        return _ordered(_explained(result, node.get(PATTERN_MESSAGE)))

    def _flatten(self, schema: Mapping[str, Any], path: str) -> Schema:
        """Resolve ``$ref`` and ``anyOf`` until the node describes itself."""
        node = dict(schema)
        while "$ref" in node or "anyOf" in node:
            if "$ref" in node:
                name = node.pop("$ref").removeprefix("#/$defs/")
                node = {**self._definitions[name], **node}
            else:
                node = self._without_any_of(node, path)
        return node

    def _without_any_of(self, node: Schema, path: str) -> Schema:
        branches = [b for b in node.pop("anyOf") if b != {"type": "null"}]
        if node.get("default", ...) is None:
            del node["default"]
        if node.get(INT_OR_STRING):
            return node
        if len(branches) != 1:
            raise UnknownConstruct(f"{path}: a union of {len(branches)} types is not structural")
        return {**branches[0], **node}

    def _properties(self, value: Mapping[str, Any], path: str) -> Schema:
        return {
            "properties": {
                name: self.translate(schema, f"{path}.{name}") for name, schema in value.items()
            }
        }

    def _additional_properties(self, value: Any, path: str) -> Schema:
        if isinstance(value, bool):
            return {"x-kubernetes-preserve-unknown-fields": True} if value else {}
        return {"additionalProperties": self.translate(value, f"{path}{{}}")}

    def _default(self, value: Any, _: str) -> Schema:
        return {"default": _without_nulls(value)} if self._defaults else {}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    return value


def _unwrapped(value: Any) -> Any:
    """Docstrings are wrapped in the source; kubectl explain wraps on its own."""
    return " ".join(value.split()) if isinstance(value, str) else value


def _rule(entry: Mapping[str, str]) -> dict[str, str]:
    return {"rule": entry["rule"], "message": entry["message"]}


def _ordered(schema: Schema) -> Schema:
    """What a reader looks for first comes first, whatever order pydantic gives."""
    first: Schema = {key: schema[key] for key in _FIRST if key in schema}
    return {**first, **{key: schema[key] for key in sorted(schema.keys() - first.keys())}}


def _explained(schema: Schema, message: str | None) -> Schema:
    """Turn a pattern that has a message into the first CEL rule."""
    if message is None:
        return schema
    pattern = json.dumps(schema.pop("pattern"), ensure_ascii=False)
    shown = {"rule": f"self.matches({pattern})", "message": message}
    return {**schema, RULES: [shown, *schema.get(RULES, [])]}
