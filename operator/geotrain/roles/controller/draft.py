"""A decision in the making: conditions are set one after another, and told of once, at the end."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from geotrain.api import conditions, events
from geotrain.api.conditions import Condition, Conditions
from geotrain.api.reasons import ConditionType, Reason
from geotrain.api.v1alpha1.resource import Metadata
from geotrain.api.v1alpha1.resource import Status as AnyStatus
from geotrain.roles.controller.decision import Decision, Manifest, Reference
from geotrain.units import Seconds


@dataclass
class Draft:
    """Collects what is to be done for one object; ``decision`` is the result.

    ``fields`` are further fields of the status, each given whole. Those that are equal to what
    the status holds are left out, so that nothing is written where nothing changed.
    """

    metadata: Metadata
    status: AnyStatus
    now: Seconds
    children: dict[str, tuple[Manifest, ...]] = field(default_factory=dict)
    deletions: list[Reference] = field(default_factory=list)
    ungate: list[Reference] = field(default_factory=list)
    annotate: dict[Reference, Mapping[str, str]] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)
    told: list[events.Event] = field(default_factory=list)
    finalizer: bool | None = None
    requeue_after: Seconds | None = None

    def __post_init__(self) -> None:
        held = self.status.model_dump(mode="json", by_alias=True, exclude_none=True)
        self.held: Mapping[str, Any] = held
        self.before: Conditions = conditions.from_manifests(held["conditions"])
        self.conditions: Conditions = self.before

    @property
    def time(self) -> datetime:
        """Now, as conditions have it."""
        return datetime.fromtimestamp(self.now, UTC)

    def set(
        self, kind: ConditionType, status: conditions.Status, reason: Reason, message: str = ""
    ) -> None:
        """Say what is observed of one aspect."""
        wanted = Condition(kind, status, reason, message, self.metadata.generation)
        self.conditions = conditions.set_condition(self.conditions, wanted, self.time)

    def tell(self, reason: Reason, message: str) -> None:
        """Post an event that belongs to no condition."""
        self.told.append(events.event(self.metadata.uid, reason, message))

    def again(self, after: Seconds) -> None:
        """Come back after at most so long."""
        self.requeue_after = after if self.requeue_after is None else min(self.requeue_after, after)

    def reason(self, kind: ConditionType) -> str:
        """The reason of a condition as it now stands, '' without one."""
        found = conditions.find(self.conditions, kind)
        return found.reason if found else ""

    def since(self, kind: ConditionType) -> Seconds:
        """How long a condition has had its status; 0 without one."""
        found = conditions.find(self.conditions, kind)
        return self.now - found.last_transition.timestamp() if found else 0.0

    def decision(self) -> Decision:
        """What was collected."""
        return Decision(
            children=self.children,
            deletions=tuple(self.deletions),
            ungate=tuple(self.ungate),
            annotate=self.annotate,
            status=self._status(),
            events=(
                *self.told,
                *events.for_changes(self.metadata.uid, self.before, self.conditions),
            ),
            finalizer=self.finalizer,
            requeue_after=self.requeue_after,
        )

    def _status(self) -> dict[str, Any] | None:
        changed = {
            name: value for name, value in self.fields.items() if self.held.get(name) != value
        }
        if self.conditions != self.before:
            changed["conditions"] = [each.to_manifest() for each in self.conditions]
        if self.held.get("observedGeneration") != self.metadata.generation:
            changed["observedGeneration"] = self.metadata.generation
        return changed or None
