"""Carrying out a decision: children first, then one status write, then events.

It stops at the first fault; the next decision starts from what is then observed. What is already
as wanted is not written again. Answers go into the mirrors at once.

Nothing of anybody else's is written over: a child is first created, and what has its name already
is changed only if it is ours by its labels and still the very version that was looked at.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from geotrain.api import events, labels
from geotrain.api.conditions import format_time
from geotrain.api.objects import (
    BANDWIDTH_SCHEDULES,
    EVENTS,
    PODS,
    ApiResource,
    Object,
    Patch,
    resource_of,
)
from geotrain.errors import ClusterError, Conflict, Gone, Invalid, NameTaken, NotFound
from geotrain.roles.controller.decision import HUB, Decision, Manifest, Reference
from geotrain.roles.controller.differences import difference
from geotrain.roles.controller.mirror import Mirror
from geotrain.roles.controller.ownership import Need, Taken, owner, whose
from geotrain.roles.controller.ports import Clock, Cluster
from geotrain.units import Seconds

_REPEAT: Final[Seconds] = 60.0  # the same sentence about the same object is not told sooner
_LOOKS: Final = 3  # at an object that others write too, before it is left for the next reconcile
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Target:
    """A cluster to write to, and its mirror where it has one."""

    cluster: Cluster
    mirror: Mirror | None = None

    def put(self, resource: ApiResource, manifest: Object) -> None:
        """Tell the mirror what the API answered."""
        if self.mirror is not None and owner(manifest):
            self.mirror.put(resource, manifest)

    def known(self, resource: ApiResource, wanted: Manifest) -> Object | None:
        """The mirror's object of the same namespace and name."""
        return None if self.mirror is None else self.mirror.find(resource, _place(wanted))

    async def look(self, resource: ApiResource, wanted: Manifest) -> Object | None:
        """The object of the same namespace and name as the API has it now, None without one."""
        place = _place(wanted)
        found = await self.cluster.find(resource, *place)
        if found is not None:
            self.put(resource, found)
        elif self.mirror is not None:
            self.mirror.drop(resource, *place)
        return found

    def refuse(self, name: str, wanted: Manifest, found: Object) -> NameTaken:
        """Remember somebody else's object that has the name of one that is wanted."""
        if self.mirror is not None:
            self.mirror.note(resource_of(found["apiVersion"], found["kind"]), found)
        return NameTaken(Taken(Need.of(name, wanted), whose(found)).sentence)


FindTarget = Callable[[str], Target]
"""The cluster of a data centre, or of HUB. Raises Unreachable when it has none now."""


class Applier:
    """Carries out decisions; remembers only which events it told last, to tell none twice."""

    def __init__(self, find: FindTarget, clock: Clock) -> None:
        self._find = find
        self._clock = clock
        self._told: dict[str, dict[tuple[str, str, str], Seconds]] = {}
        self._numbers = 0

    async def apply(self, resource: ApiResource, subject: Manifest, decision: Decision) -> None:
        """Do what was decided about ``subject``, an object on the hub."""
        hub = self._find(HUB).cluster
        if decision.finalizer:
            await _hold(hub, resource, subject)
        await _all(self._delete(reference, decision.grace) for reference in decision.deletions)
        for same in _in_order(decision.children):
            await _all(self._put(name, manifest) for name, manifest in same)
        await _all(self._lift(reference) for reference in decision.ungate)
        await _all(self._annotate(pod, notes) for pod, notes in decision.annotate.items())
        if decision.status is not None:
            await self._write_status(hub, resource, subject, decision.status)
        for event in decision.events:
            await self._tell(hub, subject, event)
        if decision.finalizer is False:
            await _release(hub, resource, subject)
            self._told.pop(subject["metadata"]["uid"], None)
        if decision.remove:
            await _gone(hub, resource, subject)

    async def delete(self, references: Iterable[Reference]) -> None:
        """Delete objects whose owner is gone."""
        await _all(self._delete(reference, None) for reference in references)

    async def _put(self, name: str, wanted: Manifest) -> None:
        """Make or change a child; pods are only created, because their spec cannot change.

        Raises NameTaken where somebody else's object has its name.
        """
        target = self._find(name)
        resource = resource_of(wanted["apiVersion"], wanted["kind"])
        seen = target.known(resource, wanted)
        for _ in range(_LOOKS):
            if seen is not None and owner(seen) != (owner(wanted) or None):
                raise target.refuse(name, wanted, seen)
            try:
                await _make_or_change(target, resource, seen, wanted)
                return
            except Conflict:  # made, changed or deleted since it was looked at
                seen = await target.look(resource, wanted)
        raise Conflict(f"{resource} {wanted['metadata']['name']} is being written by others")

    async def _delete(self, reference: Reference, grace: Seconds | None) -> None:
        target = self._find(reference.data_center)
        resource = resource_of(reference.api_version, reference.kind)
        place = reference.namespace, reference.name
        if resource == BANDWIDTH_SCHEDULES:
            await _give_back(target, reference)
        try:
            await target.cluster.delete(resource, *place, uid=reference.uid, grace=grace)
        except (NotFound, Conflict):  # it is gone, or a namesake has taken its place
            if target.mirror is not None:
                target.mirror.drop(resource, *place)

    async def _lift(self, reference: Reference) -> None:
        try:
            await self._patch_pod(reference, _lift(reference))
        except (NotFound, Invalid) as error:
            # Gone, a namesake's, or lifted before: the next look will tell.
            _log.debug("gate of %s: %s", reference.name, error)

    async def _annotate(self, pod: Reference, notes: Mapping[str, str]) -> None:
        try:
            await self._patch_pod(pod, {"metadata": {"uid": pod.uid, "annotations": dict(notes)}})
        except (NotFound, Invalid) as error:  # gone, or a namesake has taken its place
            _log.debug("annotations of %s: %s", pod.name, error)

    async def _patch_pod(self, pod: Reference, patch: Patch) -> None:
        target = self._find(pod.data_center)
        target.put(PODS, await target.cluster.patch(PODS, pod.namespace, pod.name, patch))

    async def _write_status(
        self, hub: Cluster, resource: ApiResource, subject: Manifest, status: Mapping[str, Any]
    ) -> None:
        meta = subject["metadata"]
        patch = _status_patch(subject, status)
        try:
            await hub.patch(
                resource, meta.get("namespace", ""), meta["name"], patch, subresource="status"
            )
        except (NotFound, Invalid):
            if await _exists(hub, resource, meta):
                raise
            _log.debug("%s %s went while it was reconciled", resource, meta["name"])

    async def _tell(self, hub: Cluster, subject: Manifest, event: events.Event) -> None:
        """Post an event. A lost one is a pity and no fault."""
        now = self._clock.now()
        told = self._told.setdefault(event.subject, {})
        if now - told.get(event.dedupe_key, -_REPEAT) < _REPEAT:
            return
        self._numbers += 1
        name = f"{subject['metadata']['name']}.{int(now * 1e6):x}{self._numbers % 4096:03x}"
        try:
            await hub.create(EVENTS, event_manifest(subject, event, name, now))
            told[event.dedupe_key] = now
        except ClusterError as error:
            _log.info("event %s of %s is lost: %s", event.reason, event.subject, error)


def _lift(pod: Reference) -> Patch:
    """Take the gate off the very pod that is meant."""
    gate = "/spec/schedulingGates/0"
    return [
        {"op": "test", "path": "/metadata/uid", "value": pod.uid},
        {"op": "test", "path": f"{gate}/name", "value": labels.SCHEDULING_GATE},
        {"op": "remove", "path": gate},
    ]


def _status_patch(subject: Manifest, status: Mapping[str, Any]) -> Patch:
    """Set whole fields of a status, None to remove one, but only of the very object that is meant.

    In a merge patch of a status the API server ignores the uid, and so a job that was deleted and
    made anew would begin with what was found out about the old one.
    """
    same = {"op": "test", "path": "/metadata/uid", "value": subject["metadata"]["uid"]}
    held = subject.get("status")
    if not held:
        given = {name: value for name, value in status.items() if value is not None}
        return [same, {"op": "add", "path": "/status", "value": given}]
    return [
        same,
        *(
            {"op": "remove", "path": f"/status/{name}"}
            if value is None
            else {"op": "add", "path": f"/status/{name}", "value": value}
            for name, value in status.items()
            if value is not None or name in held
        ),
    ]


async def _exists(hub: Cluster, resource: ApiResource, meta: Mapping[str, Any]) -> bool:
    """Whether an object is still there; a namesake that came later is another one."""
    try:
        found = await hub.get(resource, meta.get("namespace", ""), meta["name"])
    except NotFound:
        return False
    return bool(found["metadata"]["uid"] == meta["uid"])


def event_manifest(subject: Manifest, event: events.Event, name: str, now: Seconds) -> Manifest:
    """A core/v1 Event about an object; cluster-scoped ones have theirs in ``default``."""
    meta = subject["metadata"]
    namespace = meta.get("namespace") or "default"
    time = format_time(datetime.fromtimestamp(now, UTC))
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {
            "apiVersion": subject["apiVersion"],
            "kind": subject["kind"],
            "name": meta["name"],
            "namespace": meta.get("namespace", ""),
            "uid": meta["uid"],
        },
        "type": event.type,
        "reason": event.reason,
        "message": event.message,
        "source": {"component": labels.FIELD_MANAGER},
        "reportingComponent": f"{labels.GROUP}/controller",
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    }


def _in_order(
    children: Mapping[str, tuple[Manifest, ...]],
) -> Iterable[list[tuple[str, Manifest]]]:
    """The hub's first (the plan's inputs must survive us), then surroundings, then pods."""
    hub = [(HUB, each) for each in children.get(HUB, ())]
    others = [(name, each) for name, found in children.items() if name for each in found]
    yield hub
    yield [pair for pair in others if pair[1]["kind"] != "Pod"]
    yield [pair for pair in others if pair[1]["kind"] == "Pod"]


async def _all(calls: Iterable[Any]) -> None:
    """Make calls side by side, wait for all, then raise the first fault; none is left behind."""
    for result in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result


async def _make_or_change(
    target: Target, resource: ApiResource, seen: Object | None, wanted: Manifest
) -> None:
    """Create what is not there, change of ours what differs. Raises Conflict where ``seen`` is old.

    The resource version holds for one version of one object: after any change by others, by a
    person who takes our labels off as by one who puts a namesake there, nothing is written.
    """
    if seen is None:
        target.put(resource, await target.cluster.create(resource, wanted))
        return
    changes = None if resource == PODS else difference(seen, wanted)
    if changes is None:
        target.put(resource, seen)
        return
    meta = seen["metadata"]
    same = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    patch = {**changes, "metadata": {**changes.get("metadata", {}), **same}}
    try:
        changed = await target.cluster.patch(resource, *_place(wanted), patch)
    except NotFound as error:
        raise Conflict(str(error)) from error
    target.put(resource, changed)


async def _give_back(target: Target, reference: Reference) -> None:
    """Take our finalizer off a schedule, by which its reservation was held until now."""
    place = reference.namespace, reference.name
    seen = None if target.mirror is None else target.mirror.find(BANDWIDTH_SCHEDULES, place)
    if seen is not None and seen["metadata"]["uid"] == reference.uid and is_held(seen):
        await _release(target.cluster, BANDWIDTH_SCHEDULES, seen)


def is_held(subject: Manifest) -> bool:
    """Whether an object waits for our word before it goes."""
    return labels.FINALIZER in (subject["metadata"].get("finalizers") or ())


async def _hold(hub: Cluster, resource: ApiResource, subject: Manifest) -> None:
    held = list(subject["metadata"].get("finalizers") or ())
    await _set_finalizers(hub, resource, subject, [*held, labels.FINALIZER])


async def _release(hub: Cluster, resource: ApiResource, subject: Manifest) -> None:
    held = [f for f in subject["metadata"].get("finalizers") or () if f != labels.FINALIZER]
    try:
        await _set_finalizers(hub, resource, subject, held)
    except NotFound:
        _log.debug("%s is gone", subject["metadata"]["name"])


async def _set_finalizers(
    hub: Cluster, resource: ApiResource, subject: Manifest, finalizers: list[str]
) -> None:
    """The resource version makes sure that nobody else's finalizer is lost."""
    meta = subject["metadata"]
    patch = {"metadata": {"finalizers": finalizers, "resourceVersion": meta["resourceVersion"]}}
    try:
        await hub.patch(resource, meta.get("namespace", ""), meta["name"], patch)
    except Gone as error:
        raise Conflict(str(error)) from error


async def _gone(hub: Cluster, resource: ApiResource, subject: Manifest) -> None:
    meta = subject["metadata"]
    try:
        await hub.delete(resource, meta.get("namespace", ""), meta["name"], uid=meta["uid"])
    except (NotFound, Conflict):
        _log.debug("%s %s is gone", resource, meta["name"])


def _place(manifest: Manifest) -> tuple[str, str]:
    return manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"]
