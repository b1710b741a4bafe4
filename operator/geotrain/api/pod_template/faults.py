"""A fault in a template, and the walk over its containers that every check needs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Part: TypeAlias = Mapping[str, Any]
"""A part of a manifest as in JSON."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong at a path, and what would be right."""

    path: str
    sentence: str

    def below(self, prefix: str) -> "Fault":
        """The same, seen from further out."""
        return Fault(f"{prefix}{self.path}", self.sentence)

    def __str__(self) -> str:
        return f"{self.path}: {self.sentence}"


def containers(spec: Part) -> Iterator[tuple[str, Part]]:
    """Every container of a pod with its path, those of the initialisation after the others."""
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        yield from entries(spec, kind)


def entries(holder: Part, key: str, path: str = "") -> Iterator[tuple[str, Part]]:
    """The objects of a list with their paths; what is no object is the business of ``fields``."""
    found = holder.get(key)
    for index, each in enumerate(found if isinstance(found, list | tuple) else ()):
        if isinstance(each, Mapping):
            yield f"{path}{key}[{index}]", each


def part(holder: Part, *keys: str) -> Part:
    """An inner object, empty where it or anything above it is missing or of another type."""
    for key in keys:
        inner = holder.get(key)
        if not isinstance(inner, Mapping):
            return {}
        holder = inner
    return holder


def texts(holder: Part, key: str) -> list[str]:
    """The texts of a list."""
    found = holder.get(key)
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []
