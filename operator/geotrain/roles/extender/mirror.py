"""The cluster's nodes and pods as the extender last saw them, kept by two watches.

A mirror is trusted only while both watches stand. When one breaks it is not, until a new list has
replaced what was known: an old picture could send a pod to a node that is gone or full.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from geotrain.api.facts import node_from_manifest, pod_from_manifest
from geotrain.api.objects import NODES, PODS, ApiResource, Change, Object
from geotrain.errors import ClusterError
from geotrain.fitting import Occupancy
from geotrain.roles.extender.ports import Cluster, Sleep
from geotrain.units import Seconds

PAUSE: Final[Seconds] = 1.0  # after a watch that ended, so that a server in trouble gets air
_log = logging.getLogger(__name__)

_Key: TypeAlias = tuple[str, str]


@dataclass(slots=True)
class _Kind:
    """One kind of objects: how they enter and leave the occupancy, and which are in it."""

    resource: ApiResource
    put: Callable[[Object], None]
    drop: Callable[[_Key], None]
    known: set[_Key] = field(default_factory=set)
    seen: set[_Key] = field(default_factory=set)  # since the list began
    synced: bool = False


class Mirror:
    """``occupancy`` is valid while ``synced``. Run ``follow`` as a task; cancel it to stop."""

    def __init__(self, cluster: Cluster, *, sleep: Sleep = asyncio.sleep) -> None:
        self._cluster = cluster
        self._sleep = sleep
        self.occupancy = there = Occupancy()
        self._kinds = (
            _Kind(
                NODES,
                lambda manifest: there.put_node(node_from_manifest(manifest)),
                lambda key: there.drop_node(key[1]),
            ),
            _Kind(
                PODS, lambda manifest: there.put_pod(pod_from_manifest(manifest)), there.drop_pod
            ),
        )

    @property
    def synced(self) -> bool:
        """Whether both lists are complete and both watches stand."""
        return all(kind.synced for kind in self._kinds)

    async def follow(self) -> None:
        """Keep the occupancy up to date, for ever."""
        async with asyncio.TaskGroup() as tasks:
            for kind in self._kinds:
                tasks.create_task(self._follow(kind))

    async def _follow(self, kind: _Kind) -> None:
        while True:
            kind.seen.clear()
            changes = self._cluster.watch(kind.resource)
            try:
                await _take_in(kind, changes)
            except ClusterError as error:
                _log.warning("the watch of %s broke: %s", kind.resource, error)
            finally:
                kind.synced = False
                if isinstance(changes, AsyncGenerator):
                    await changes.aclose()
            await self._sleep(PAUSE)


async def _take_in(kind: _Kind, changes: AsyncIterator[Change]) -> None:
    """One list and the changes after it; returns where a second list has been taken.

    A watch lists again by itself when its version has expired. Which objects vanished in between
    can only be told from a list before which nothing was seen, so the caller starts over.
    """
    async for change in changes:
        if change.type != "SYNCED":
            _apply(kind, change)
        elif kind.synced:
            return
        else:
            for gone in kind.known - kind.seen:
                _forget(kind, gone)
            kind.synced = True


def _apply(kind: _Kind, change: Change) -> None:
    metadata: dict[str, Any] = change.object["metadata"]
    key = (metadata.get("namespace", ""), metadata["name"])
    if change.type == "DELETED":
        _forget(kind, key)
        return
    try:
        kind.put(change.object)
    except ValueError as error:
        _log.error("%s %s cannot be read and is left out: %s", kind.resource, "/".join(key), error)
        _forget(kind, key)
        return
    kind.known.add(key)
    kind.seen.add(key)


def _forget(kind: _Kind, key: _Key) -> None:
    kind.drop(key)
    kind.known.discard(key)
    kind.seen.discard(key)
