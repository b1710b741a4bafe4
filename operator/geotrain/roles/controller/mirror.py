"""What one cluster holds, followed by watches: what a reconcile sees without asking.

Pods and nodes of everybody are counted (that is what "free" means), but only objects that geotrain
made are kept whole. After a write the answer is put in here at once, so that a decision never
sees the cluster as it was before the controller's own last step; a watch that still tells the
older version is ignored.

Services and the like are followed only where they have our label. Somebody else's that was found in
the way of one of ours is remembered as a *namesake*, until it is looked for and gone.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

from geotrain.api import labels
from geotrain.api.facts import node_from_manifest, pod_from_manifest
from geotrain.api.objects import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    NAMESPACES,
    NETWORK_POLICIES,
    NODES,
    PODS,
    SERVICES,
    ApiResource,
    Change,
    Object,
)
from geotrain.errors import ClusterError
from geotrain.fitting import Occupancy
from geotrain.roles.controller.ownership import owner
from geotrain.roles.controller.ports import Cluster
from geotrain.units import Seconds

_OURS: Final = f"{labels.MANAGED_BY}={labels.MANAGED_BY_VALUE}"
_FOLLOWED: Final = {
    NODES: "",
    NAMESPACES: "",
    PODS: "",
    SERVICES: _OURS,
    ENDPOINT_SLICES: _OURS,
    NETWORK_POLICIES: _OURS,
    CONFIG_MAPS: _OURS,
    DEPLOYMENTS: _OURS,
}
_FIRST_PAUSE: Final[Seconds] = 0.5
_LONGEST_PAUSE: Final[Seconds] = 15.0

Place = tuple[str, str]
"""Namespace and name."""
Listener = Callable[[ApiResource, Change], None]
"""Told of every change, after the mirror has taken it in."""

_log = logging.getLogger(__name__)


class Mirror:
    """The objects of one cluster. ``run`` keeps it up to date until it is cancelled.

    ``fault`` is why the cluster cannot be followed now, None while it can. ``synced`` tells
    whether every kind has been listed once; until then absence means nothing.
    """

    def __init__(
        self, cluster: Cluster, listener: Listener, extra: Iterable[ApiResource] = ()
    ) -> None:
        self.cluster = cluster
        self._followed = {**_FOLLOWED, **dict.fromkeys(extra, "")}
        self.occupancy = Occupancy()
        self._faults: dict[ApiResource, ClusterError] = {}
        self._listener = listener
        self._objects: dict[ApiResource, dict[Place, Object]] = defaultdict(dict)
        self._owned: dict[str, dict[tuple[ApiResource, Place], Object]] = defaultdict(dict)
        self._namesakes: dict[tuple[ApiResource, Place], Object] = {}
        self._unsynced = set(self._followed)
        self._settled = asyncio.Event()

    @property
    def synced(self) -> bool:
        """Whether everything that exists is known."""
        return not self._unsynced

    @property
    def fault(self) -> ClusterError | None:
        """Why the cluster cannot be followed, None while it can."""
        return next(iter(self._faults.values()), None)

    async def settled(self) -> None:
        """Return once the first lists are in, or one of them failed."""
        await self._settled.wait()

    async def run(self) -> None:
        """Follow all kinds until cancelled."""
        async with asyncio.TaskGroup() as group:
            for resource, selector in self._followed.items():
                group.create_task(self._follow(resource, selector))

    def objects(self, resource: ApiResource) -> tuple[Object, ...]:
        """All known objects of a kind, by name."""
        found = self._objects[resource]
        return tuple(found[place] for place in sorted(found))

    def nodes(self) -> Iterable[Object]:
        """All nodes."""
        return self._objects[NODES].values()

    def namespace(self, name: str) -> Object | None:
        """A namespace, None where there is none of that name."""
        return self._objects[NAMESPACES].get(("", name))

    def owned(self, uid: str) -> tuple[Object, ...]:
        """What geotrain made for the job or pool of that uid, in a stable order."""
        found = self._owned.get(uid, {})
        return tuple(found[key] for key in sorted(found, key=str))

    def find(self, resource: ApiResource, place: Place) -> Object | None:
        """The object of a namespace and name, if it is known."""
        return self._objects[resource].get(place)

    def note(self, resource: ApiResource, manifest: Object) -> None:
        """Remember whose an object is that was found in the way; of the rest nothing is kept."""
        kept = {key: manifest[key] for key in ("apiVersion", "kind")}
        meta = {key: manifest["metadata"][key] for key in ("namespace", "name")}
        tags = manifest["metadata"].get("labels") or {}
        self._namesakes[resource, _place(manifest)] = {**kept, "metadata": {**meta, "labels": tags}}

    def namesake(self, resource: ApiResource, place: Place) -> Object | None:
        """Somebody else's object that was found in the way, as far as ``note`` kept it."""
        return self._namesakes.get((resource, place))

    def clear(self, resource: ApiResource, place: Place) -> None:
        """Forget a namesake that is gone."""
        self._namesakes.pop((resource, place), None)

    def owners(self) -> tuple[str, ...]:
        """The uids of all jobs and pools that have something here."""
        return tuple(uid for uid, objects in self._owned.items() if objects)

    def put(self, resource: ApiResource, manifest: Object) -> None:
        """Take in an object, unless a newer version is known."""
        place = _place(manifest)
        known = self._objects[resource].get(place)
        if known is not None and _version(known) >= _version(manifest):
            return
        self._drop(resource, place)
        self._objects[resource][place] = manifest
        self.clear(resource, place)
        if uid := owner(manifest):
            self._owned[uid][resource, place] = manifest
        self._count(resource, manifest)

    def drop(self, resource: ApiResource, namespace: str, name: str) -> None:
        """Forget an object that is gone."""
        self._drop(resource, (namespace, name))

    def _drop(self, resource: ApiResource, place: Place) -> None:
        known = self._objects[resource].pop(place, None)
        if known is None:
            return
        if uid := owner(known):
            self._owned[uid].pop((resource, place), None)
            if not self._owned[uid]:
                del self._owned[uid]
        if resource == PODS:
            self.occupancy.drop_pod(place)
        elif resource == NODES:
            self.occupancy.drop_node(place[1])

    def _count(self, resource: ApiResource, manifest: Object) -> None:
        try:
            if resource == PODS:
                self.occupancy.put_pod(pod_from_manifest(manifest))
            elif resource == NODES:
                self.occupancy.put_node(node_from_manifest(manifest))
        except ValueError as error:  # a quantity that the API server lets through and we do not
            _log.warning("%s %s is not counted: %s", resource, "/".join(_place(manifest)), error)

    async def _follow(self, resource: ApiResource, selector: str) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                async for change in self.cluster.watch(resource, selector=selector):
                    self._take(resource, change)
                    pause = _FIRST_PAUSE
            except ClusterError as error:
                self._fail(resource, error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _take(self, resource: ApiResource, change: Change) -> None:
        if change.type == "SYNCED":
            self._sync(resource, change.places)
            return
        if change.type == "DELETED":
            self._drop(resource, _place(change.object))
        else:
            self.put(resource, _slim(resource, change.object))
        self._listener(resource, change)

    def _sync(self, resource: ApiResource, places: frozenset[Place]) -> None:
        for place in self._objects[resource].keys() - places:
            gone = self._objects[resource][place]
            self._drop(resource, place)
            self._listener(resource, Change("DELETED", gone))
        self._unsynced.discard(resource)
        if self._faults.pop(resource, None) and not self._faults:
            _log.info("%r answers again", self.cluster)
        if self.synced:
            self._settled.set()

    def _fail(self, resource: ApiResource, error: ClusterError) -> None:
        if not self._faults:
            _log.warning("%s of %r cannot be followed: %s", resource, self.cluster, error)
        self._faults[resource] = error
        self._settled.set()


def _place(manifest: Object) -> Place:
    return manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"]


def _version(manifest: Object) -> int:
    """Versions of one cluster are ordered (KEP-5504)."""
    return int(manifest["metadata"].get("resourceVersion") or 0)


def _slim(resource: ApiResource, manifest: Object) -> Object:
    """Drop what nobody reads of the many objects that are not ours."""
    meta = manifest["metadata"]
    meta.pop("managedFields", None)
    if resource != PODS or owner(manifest):
        return manifest
    kept = {k: v for k, v in meta.items() if k != "annotations"}
    spec, status = manifest["spec"], manifest.get("status", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": kept,
        "spec": {k: v for k, v in spec.items() if k not in ("volumes", "serviceAccountName")},
        "status": {"phase": status.get("phase", "Pending")},
    }
