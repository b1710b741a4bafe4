"""metav1.Condition as a value, and the one rule about it: when lastTransitionTime moves.

Pure: the time is an argument. A list of conditions is what a status holds, one a type.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, Self

Status = Literal["True", "False", "Unknown"]

TRUE: Status = "True"
FALSE: Status = "False"
UNKNOWN: Status = "Unknown"


@dataclass(frozen=True, slots=True)
class Condition:
    """One observation. ``last_transition`` is UTC and is set by ``set_condition``."""

    type: str
    status: Status
    reason: str
    message: str = ""
    observed_generation: int = 0
    last_transition: datetime = datetime(1970, 1, 1, tzinfo=UTC)

    @property
    def is_true(self) -> bool:
        """Whether the status is True (neither False nor Unknown)."""
        return self.status == TRUE

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> Self:
        """Read an entry of ``status.conditions``."""
        return cls(
            type=manifest["type"],
            status=manifest["status"],
            reason=manifest["reason"],
            message=manifest.get("message", ""),
            observed_generation=manifest.get("observedGeneration", 0),
            last_transition=parse_time(manifest["lastTransitionTime"]),
        )

    def to_manifest(self) -> dict[str, Any]:
        """The entry as Kubernetes stores it."""
        return {
            "type": self.type,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
            "observedGeneration": self.observed_generation,
            "lastTransitionTime": format_time(self.last_transition),
        }


Conditions = tuple[Condition, ...]


def from_manifests(manifests: Iterable[Mapping[str, Any]] | None) -> Conditions:
    """Read ``status.conditions``."""
    return tuple(Condition.from_manifest(m) for m in manifests or ())


def find(conditions: Conditions, kind: str) -> Condition | None:
    """The condition of a type, if there is one."""
    return next((c for c in conditions if c.type == kind), None)


def is_true(conditions: Conditions, kind: str) -> bool:
    """Whether the condition of that type is there and True."""
    condition = find(conditions, kind)
    return condition is not None and condition.is_true


def set_condition(conditions: Conditions, wanted: Condition, now: datetime) -> Conditions:
    """``conditions`` with ``wanted`` in place of the one of its type, or added at the end.

    lastTransitionTime is ``now`` where the status changed and stays where only reason or message
    did, as the Kubernetes API conventions ask.
    """
    before = find(conditions, wanted.type)
    same = before is not None and before.status == wanted.status
    moved = replace(wanted, last_transition=before.last_transition if before and same else now)
    if before is None:
        return (*conditions, moved)
    return tuple(moved if c.type == wanted.type else c for c in conditions)


def changed(before: Conditions, after: Conditions) -> Conditions:
    """Those of ``after`` whose status or reason is new: the ones worth an event."""
    known = {c.type: (c.status, c.reason) for c in before}
    return tuple(c for c in after if known.get(c.type) != (c.status, c.reason))


def parse_time(text: str | datetime) -> datetime:
    """Read an RFC 3339 time as Kubernetes writes it."""
    return text if isinstance(text, datetime) else datetime.fromisoformat(text)


def format_time(time: datetime) -> str:
    """Write a time as metav1.Time does: UTC, whole seconds."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
