"""Which CustomResourceDefinitions are to be written before an upgrade. Pure.

One that is missing or older is; one that is newer is left, for an older release that comes back
would take fields away from objects that have them.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from geotrain.api.served import is_newer

Definition = Mapping[str, Any]


def to_apply(own: Iterable[Definition], served: Mapping[str, Definition]) -> tuple[Definition, ...]:
    """Those of ``own`` that are to be applied; ``served`` are those that are there, by name."""
    return tuple(each for each in own if not _is_kept(each, served.get(_name(each))))


def said(own: Iterable[Definition], served: Mapping[str, Definition]) -> tuple[str, ...]:
    """What is done with each, a line each."""
    return tuple(f"{_name(each)}: {_deed(each, served.get(_name(each)))}" for each in own)


def is_established(definition: Definition) -> bool:
    """Whether the API server serves it."""
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def _is_kept(own: Definition, served: Definition | None) -> bool:
    return served is not None and is_newer(served, own)


def _deed(own: Definition, served: Definition | None) -> str:
    if served is None:
        return "is installed"
    return "is newer, and stays" if _is_kept(own, served) else "is brought up to date"


def _name(definition: Definition) -> str:
    return str(definition["metadata"]["name"])
