"""What a reconcile wants done: one value, made by a pure function and carried out by ``apply``.

Every kind's reconcile has the same form, ``decide(observed, now) -> Decision``. Children are
plain manifests (dicts as one would write them in YAML), keyed by the data centre whose cluster
they belong to; ``HUB`` is the key of the cluster that holds the custom resources::

    Decision(
        children={"dc-west": (service, pod), HUB: (bandwidth_schedule,)},
        deletions=(Reference("dc-east", "v1", "Pod", "team-a", "gpt-r3", uid="…"),),
        ungate=(Reference("dc-west", "v1", "Pod", "team-a", "gpt-r0"),),
        status={"conditions": [...], "plan": {...}},
        events=events.for_changes(uid, conditions_before, conditions_after),
        requeue_after=5.0,
    )

``apply`` works through it in this order, and stops at the first fault: the finalizer if it is to
be added, deletions, children, gates, annotations, one status patch, events, the finalizer if it is
to be removed. Whatever was not carried out is decided again from what is then observed, so each
part must be safe to repeat. An empty decision means that everything is as it should be.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from geotrain.api.events import Event
from geotrain.units import Seconds

Manifest: TypeAlias = dict[str, Any]
"""A Kubernetes object as in JSON."""

HUB: Final = ""
"""The key of the hub among children; data centres have names, so none is empty."""


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """One object in one cluster; with ``uid`` a deletion spares a namesake that came later."""

    data_center: str
    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""

    @classmethod
    def of(cls, data_center: str, manifest: Manifest) -> "Reference":
        """Point at an observed object."""
        meta = manifest["metadata"]
        return cls(
            data_center,
            manifest["apiVersion"],
            manifest["kind"],
            meta.get("namespace", ""),
            meta["name"],
            meta.get("uid", ""),
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """The next step.

    ``children`` are made or changed until they hold what is wanted (pods are only ever created:
    their spec cannot change; what is not the owner's is never changed). ``deletions`` are removed;
    ``grace`` is the pods' grace period, None for their own. ``ungate`` lifts the scheduling gate of
    pods. ``annotate`` sets annotations of pods, which makes a kubelet look at a pod, and refresh
    what is mounted there, at once instead of within a minute. ``status`` is merged into the status
    (a key whose value is None goes away); None leaves the status alone. ``finalizer`` is True to
    hold the object until it is cleaned up, False to let it go, None for no change. ``remove``
    deletes the reconciled object itself. ``requeue_after`` asks to be called again even if nothing
    changes; None waits for a change.
    """

    children: Mapping[str, tuple[Manifest, ...]] = field(default_factory=dict)
    deletions: tuple[Reference, ...] = ()
    grace: Seconds | None = None
    ungate: tuple[Reference, ...] = ()
    annotate: Mapping[Reference, Mapping[str, str]] = field(default_factory=dict)
    status: Mapping[str, Any] | None = None
    events: tuple[Event, ...] = ()
    finalizer: bool | None = None
    remove: bool = False
    requeue_after: Seconds | None = None
