"""What is to be changed of an object so that it holds what is wanted. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from geotrain.api import labels

Manifest = Mapping[str, Any]

_OURS = f"{labels.GROUP}/"


def difference(seen: Manifest, wanted: Manifest) -> dict[str, Any] | None:
    """A JSON merge patch that makes ``seen`` hold all of ``wanted``; None where it does.

    What others added besides stays, but for what only we may say: keys of ``data``, and labels and
    annotations under our own prefix. Finalizers are given at creation and never looked at again.
    """
    changes = _over(seen, wanted)
    meta = changes.get("metadata", {})
    meta.pop("finalizers", None)
    gone: dict[str, Any] = {
        key: _beyond(seen["metadata"], wanted["metadata"], key, _OURS)
        for key in ("labels", "annotations")
    }
    for key, nothing in gone.items():
        if nothing:
            meta[key] = {**meta.get(key, {}), **nothing}
    changes["metadata"] = meta
    if "data" in wanted:
        changes["data"] = {**changes.get("data", {}), **_beyond(seen, wanted, "data", "")}
    return {key: value for key, value in changes.items() if value != {}} or None


def contains(observed: Any, wanted: Any) -> bool:
    """Whether all that is wanted is there; what others added besides does not matter.

    Lists are compared whole, so that an added rule or endpoint is noticed. What is wanted empty is
    there where nothing is, for API servers leave out what is empty.
    """
    if wanted in ([], {}) and observed is None:
        return True
    if isinstance(wanted, Mapping):
        return isinstance(observed, Mapping) and all(
            (key in observed or value in ([], {})) and contains(observed.get(key), value)
            for key, value in wanted.items()
        )
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        return (
            isinstance(observed, Sequence)
            and not isinstance(observed, str)
            and len(observed) == len(wanted)
            and all(map(contains, observed, wanted))
        )
    return bool(observed == wanted)


def _over(seen: Manifest, wanted: Manifest) -> dict[str, Any]:
    """The parts of ``wanted`` that ``seen`` does not hold; a list is given whole."""
    changes: dict[str, Any] = {}
    for key, value in wanted.items():
        held = seen.get(key)
        if isinstance(value, Mapping) and isinstance(held, Mapping):
            if inner := _over(held, value):
                changes[key] = inner
        elif not contains({key: held} if key in seen else {}, {key: value}):
            changes[key] = value
    return changes


def _beyond(seen: Manifest, wanted: Manifest, part: str, prefix: str) -> dict[str, None]:
    """What ``seen`` holds under ``prefix`` and ``wanted`` does not; None removes a key."""
    kept = wanted.get(part) or {}
    held = seen.get(part) or {}
    return {key: None for key in held if key.startswith(prefix) and key not in kept}
