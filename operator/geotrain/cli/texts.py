"""Files as text and as YAML, within bounds.

A few bytes of YAML can be a billion values, where aliases repeat what repeats others, and one that
contains itself has no end. So the size of a document is counted on its nodes, where an alias is
the node that it names, before any value is made.
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from geotrain.errors import InputError

MOST_VALUES: Final = 1_000_000
"""Values of a document, those of an alias counted wherever it stands."""
MOST_LEVELS: Final = 100
"""Levels of a document: what reads it may go down by recursion."""

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load(path: Path) -> list[Any]:
    """Every document of a file; ``-`` is standard input. Raises InputError with the cause."""
    return documents_of(text_of(path), path)


def documents_of(text: str, path: Path) -> list[Any]:
    """Every document of a text; ``path`` names it in the InputError."""
    try:
        loader = _LOADER(text)
        try:
            return list(_documents(loader, path))
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # A ValueError comes from a date or number that looks like one and is none.
        raise InputError(f"{path} is not YAML: {' '.join(str(error).split())}") from error


def text_of(path: Path) -> str:
    """A file's text, of standard input for ``-``, without the mark that editors put before UTF-8.

    Raises InputError that names the file.
    """
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
        return text.removeprefix("\ufeff")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {_cause(error)}") from error


def _cause(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else "it is not UTF-8 text"


def _documents(loader: Any, path: Path) -> Iterator[Any]:
    while loader.check_node():
        node = loader.get_node()
        fault = _fault(node)
        if fault:
            raise InputError(f"{path} cannot be read: {fault}")
        yield loader.construct_document(node)


def _fault(root: yaml.Node) -> str:
    """What is too much about a document, or ''."""
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
                return f"its aliases stand for more than {MOST_VALUES} values"
            if levels > MOST_LEVELS:
                return f"it is more than {MOST_LEVELS} levels deep"
            measured[node] = values, levels
            begun.discard(node)
        elif node in measured:
            left.pop()
        else:
            begun.add(node)
            fresh = [each for each in inner if each not in measured]
            if not begun.isdisjoint(fresh):
                return "a part of it contains itself"
            left += fresh
    return ""


def _inner(node: yaml.Node) -> Iterable[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [each for pair in node.value for each in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else ()
