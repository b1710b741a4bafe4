"""Documents as users write them: YAML and JSON as text, read within bounds and in one way only.

A few bytes of YAML can be a billion values, where aliases repeat what repeats others, and one that
contains itself has no end. So the size of a document is counted on its nodes, where an alias is
the node that it names, before any value is made.

A key that stands twice in one mapping is refused. YAML 1.2 (3.2.1.3) and RFC 8259 (4) want keys to
be unique, kubectl refuses others ("key already set"), and most readers silently take the last one,
so a forgotten line higher up would count for nothing.
"""

import json
import reprlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

import yaml

from geotrain.errors import InputError

MOST_CHARACTERS: Final = 2 * 2**20
"""Of YAML, whose densest form is then read in some five seconds: a topology of more than a hundred
data centres, each linked with each. The API server takes 3 MiB in one request."""
MOST_VALUES: Final = 300_000
"""Values of a document, those of an alias counted wherever it stands."""
MOST_LEVELS: Final = 100
"""Levels of a document: what reads it may go down by recursion."""

_TOO_MANY: Final = f"it stands for more than {MOST_VALUES} values"
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class DuplicateKey(InputError):
    """A mapping says a key twice."""


def yaml_documents(text: str, place: str) -> list[Any]:
    """Every document of a text; ``place`` names it in the InputError."""
    _require_size(text, place)
    try:
        loader = _LOADER(text)
        try:
            return list(_documents(loader, place))
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # A ValueError comes from a date or number that looks like one and is none.
        raise InputError(f"{place} is not YAML: {' '.join(str(error).split())}") from error


def json_document(text: str, place: str) -> Any:
    """The value of a JSON text; ``place`` names it in the InputError."""
    try:
        return _json(text, place)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place} is not JSON: {error}") from error


def either(text: str, place: str) -> list[Any]:
    """Every document of a text in JSON or YAML; ``place`` names it in the InputError.

    JSON comes first: it is YAML as well, but YAML takes its ``3e-06`` for text.
    """
    try:
        return [_json(text, place)]
    except (ValueError, RecursionError):
        return yaml_documents(text, place)


def _json(text: str, place: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_object)
    except _Twice as error:
        try:
            yaml_documents(text, place)  # says on which line: nearly all JSON is YAML as well
        except DuplicateKey:
            raise
        except InputError:
            pass
        raise DuplicateKey(f"{place}: the key {error} is given twice; keep one of them") from error


class _Twice(Exception):
    """A key that an object has twice; no ValueError, which means text that is no JSON."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _Twice(reprlib.repr(next(key for key in keys if keys.count(key) > 1)))
    return found


def _require_size(text: str, place: str) -> None:
    if len(text) > MOST_CHARACTERS:
        raise InputError(
            f"{place} cannot be read: it has more than the {MOST_CHARACTERS} characters that YAML"
            " may have; divide it into several files"
        )


def _documents(loader: Any, place: str) -> Iterator[Any]:
    while loader.check_node():
        root = loader.get_node()
        nodes, fault = _measured(root)
        if fault:
            raise InputError(f"{place} cannot be read: {fault}")
        for node in nodes:
            if isinstance(node, yaml.MappingNode):
                _require_unique(loader, node, place)
        yield loader.construct_document(root)


def _require_unique(loader: Any, mapping: yaml.MappingNode, place: str) -> None:
    lines: dict[str, int] = {}
    for key, _ in mapping.value:
        if isinstance(key, yaml.ScalarNode):  # no other key can be one of an object: below
            text, line = _text(loader, key), key.start_mark.line + 1
            if text in lines:
                raise DuplicateKey(
                    f"{place} line {line}: the key {reprlib.repr(text)} is given twice, first on"
                    f" line {lines[text]}; keep one of them"
                )
            lines[text] = line


def _text(loader: Any, key: yaml.ScalarNode) -> str:
    """A key as in JSON, which Kubernetes makes of YAML: 1 and "1" are one, yes and on too."""
    if key.tag.endswith((":str", ":merge")):
        return str(key.value)
    value = loader.construct_object(key)
    return json.dumps(value) if isinstance(value, bool | None) else str(value)


def _measured(root: yaml.Node) -> tuple[Iterable[yaml.Node], str]:
    """The nodes of a document, each once, and what is too much about it, or ''."""
    measured: dict[yaml.Node, tuple[int, int]] = {}  # values and levels of what is done
    begun: set[yaml.Node] = set()
    left = [root]
    while left:
        node = left[-1]
        inner = list(_inner(node))
        if node in begun:
            left.pop()
            parts = [measured[each] for each in inner]
            values = 1 + sum(values for values, _ in parts)
            levels = 1 + max((levels for _, levels in parts), default=0)
            if values > MOST_VALUES:
                return (), _TOO_MANY
            if levels > MOST_LEVELS:
                return (), f"it is more than {MOST_LEVELS} levels deep"
            measured[node] = values, levels
            begun.discard(node)
        elif node in measured:
            left.pop()
        else:
            begun.add(node)
            fresh = [each for each in inner if each not in measured]
            if len(left) + len(fresh) > MOST_VALUES:
                return (), _TOO_MANY
            if not begun.isdisjoint(fresh):
                return (), "a part of it contains itself"
            left += fresh
    return measured, ""


def _inner(node: yaml.Node) -> Iterable[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [each for pair in node.value for each in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else ()
