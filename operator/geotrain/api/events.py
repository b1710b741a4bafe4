"""Kubernetes Events as values.

Builders are pure; whoever posts the events drops repeats by ``dedupe_key``.
"""

from dataclasses import dataclass
from typing import Literal

from geotrain.api.conditions import FALSE, Condition, Conditions, changed
from geotrain.api.reasons import ConditionType, Reason

EventType = Literal["Normal", "Warning"]

MESSAGE_LIMIT = 1024
"""core/v1 Event refuses longer messages."""

_GOOD_WHEN_FALSE = frozenset({ConditionType.FAILED, ConditionType.SUSPENDED})
# Waiting is what these say on the way to True; only the listed reasons deserve a warning.
_WARNINGS = frozenset(
    {
        Reason.NO_FEASIBLE_PLACEMENT,
        Reason.LINK_MISSING,
        Reason.PROFILE_MISSING,
        Reason.PROFILE_INVALID,
        Reason.INVALID_PARALLELISM,
        Reason.NOT_ENOUGH_MEMORY,
        Reason.UNKNOWN_DATA_CENTER,
        Reason.NO_DATA_CENTERS,
        Reason.UNKNOWN_ACCELERATOR,
        Reason.INVALID_SPEC,
        Reason.RESERVE_TIMEOUT,
        Reason.MEMBER_UNREACHABLE,
        Reason.MEMBER_REFUSED,
        Reason.NAME_TAKEN,
        Reason.POD_SECURITY_REFUSED,
        Reason.GANG_RESTARTING,
        Reason.WINDOWS_MISSED,
        Reason.NOT_INTERCEPTED,
        Reason.NOT_SHAPED,
        Reason.NO_SIGNAL,
        Reason.NAMESPACE_NOT_ENABLED,
        Reason.MAX_RESTARTS_EXCEEDED,
        Reason.DEADLINE_EXCEEDED,
        Reason.UNREACHABLE,
        Reason.CREDENTIALS_MISSING,
        Reason.CREDENTIALS_INVALID,
        Reason.FORBIDDEN,
        Reason.SCHEDULER_MISSING,
        Reason.SCHEDULER_NOT_READY,
        Reason.PRIORITY_CLASSES_MISSING,
        Reason.OVERLAPPING_LINK,
        Reason.JOB_MISSING,
        Reason.NO_SUCH_STAGE,
        Reason.ROUTER_NOT_READY,
        Reason.TRAINING_STRETCHED,
        Reason.POD_FAILED,
    }
)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to an object; ``subject`` is its uid."""

    subject: str
    type: EventType
    reason: str
    message: str

    @property
    def dedupe_key(self) -> tuple[str, str, str]:
        """Equal for events that tell the same thing of the same object."""
        return self.subject, self.reason, self.message


def event(subject: str, reason: Reason, message: str) -> Event:
    """An event; whether it is a warning follows from the reason."""
    kind: EventType = "Warning" if reason in _WARNINGS else "Normal"
    return Event(subject, kind, reason, _shortened(message))


def for_changes(subject: str, before: Conditions, after: Conditions) -> tuple[Event, ...]:
    """An event for every condition whose status or reason changed and that says something."""
    return tuple(_for_condition(subject, c) for c in changed(before, after) if _is_news(c, before))


def _for_condition(subject: str, condition: Condition) -> Event:
    kind: EventType = "Warning" if condition.reason in _WARNINGS else "Normal"
    message = condition.message or f"{condition.type} is {condition.status}"
    return Event(subject, kind, condition.reason, _shortened(message))


def _is_news(condition: Condition, before: Conditions) -> bool:
    """Whether it tells something: that a new object is not failed or suspended does not."""
    first = all(c.type != condition.type for c in before)
    return not (first and condition.status == FALSE and condition.type in _GOOD_WHEN_FALSE)


def _shortened(message: str) -> str:
    return message if len(message) <= MESSAGE_LIMIT else f"{message[: MESSAGE_LIMIT - 1]}…"
