"""Look, decide, act: the one loop through which every kind goes, whatever woke it.

Changes come from kopf (the hub's resources) and from the members' watches, which kopf does not
know. Both only name what changed; a queue makes one reconcile of many changes.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from geotrain.api import labels
from geotrain.api.objects import (
    BANDWIDTH_SCHEDULES,
    DATA_CENTERS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PODS,
    PREFILL_POOLS,
    PRIORITY_CLASSES,
    TRAINING_JOBS,
    WAN_LINKS,
    ApiResource,
    Change,
    Object,
)
from geotrain.api.reasons import Reason
from geotrain.api.v1alpha1 import DataCenter, WanLink
from geotrain.errors import (
    ClusterError,
    Forbidden,
    InputError,
    Invalid,
    NameTaken,
    NotFound,
    Unauthorized,
    Unreachable,
)
from geotrain.roles.controller import datacenters, links, pools, reconcile, renewal
from geotrain.roles.controller.apply import Applier, Target
from geotrain.roles.controller.decision import HUB, Decision, Reference
from geotrain.roles.controller.members import LOCAL, Members, OpenCluster, Site
from geotrain.roles.controller.observe import Observer, read_all
from geotrain.roles.controller.observed import Observed
from geotrain.roles.controller.ownership import owner
from geotrain.roles.controller.planner import Planner
from geotrain.roles.controller.pool_observe import PoolObserver
from geotrain.roles.controller.ports import Clock, Cluster
from geotrain.roles.controller.reports import Reports
from geotrain.roles.controller.workqueue import WorkQueue
from geotrain.settings import ControllerSettings
from geotrain.units import Seconds

_SOON: Final[Seconds] = 0.2  # changes that come together make one reconcile
_ROOM_CAME: Final[Seconds] = 0.5

_log = logging.getLogger(__name__)


class Key(NamedTuple):
    """An object on the hub."""

    resource: ApiResource
    namespace: str
    name: str

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.resource.kind} {place}"


class Controller:
    """Reconciles every resource of the hub until cancelled."""

    def __init__(
        self,
        hub: Cluster,
        open_cluster: OpenCluster,
        clock: Clock,
        settings: ControllerSettings,
        namespace: str,
    ) -> None:
        self._hub = hub
        self._clock = clock
        self._settings = settings
        self._namespace = namespace
        self.members = Members(hub, open_cluster, self._member_changed, clock)
        self.observer = Observer(
            hub, self.members, Planner(), settings.sidecar_image, settings.settle_timeout
        )
        self._pools = PoolObserver(hub, self.members, self.observer, clock, settings.sidecar_image)
        self.queue: WorkQueue[Key] = WorkQueue(self.look)
        self._applier = Applier(self._target, clock)
        self._reports = Reports(self.members, clock)
        self._admission = asyncio.Lock()
        self._known: dict[ApiResource, set[Key]] = defaultdict(set)
        self._waiting: set[Key] = set()
        self._reconciles: dict[ApiResource, Callable[[Key, Object], Awaitable[Seconds | None]]] = {
            TRAINING_JOBS: self._job,
            DATA_CENTERS: self._data_center,
            WAN_LINKS: self._link,
            PREFILL_POOLS: self._pool,
        }

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            await self.members.open_hub()
            await self.members.settle(self._settings.settle_timeout)
            await self.queue.run(self._settings.workers)
        finally:
            await self.members.close()

    def hub_changed(self, resource: ApiResource, change: str, manifest: Object) -> None:
        """A resource of the hub is there, was changed or (DELETED) is gone."""
        meta = manifest["metadata"]
        key = Key(resource, meta.get("namespace", ""), meta["name"])
        if change == "DELETED":
            self._known[resource].discard(key)
        else:
            self._known[resource].add(key)
        self.queue.add(key)
        if resource in (DATA_CENTERS, WAN_LINKS):
            self._add_all(WAN_LINKS)
            self._wake_waiting()
        if resource == TRAINING_JOBS:
            self._add_all(PREFILL_POOLS)

    def _add_all(self, resource: ApiResource) -> None:
        for key in self._known[resource]:
            self.queue.add_after(key, _SOON)

    def _add_namespace(self, name: str) -> None:
        """Look again at all of a namespace: a member may have opened it, or shut it."""
        for kind in (TRAINING_JOBS, PREFILL_POOLS):
            for key in self._known[kind]:
                if key.namespace == name:
                    self.queue.add_after(key, _SOON)

    def _wake_waiting(self) -> None:
        for key in self._waiting:
            self.queue.add_after(key, _ROOM_CAME)

    def _member_changed(self, resource: ApiResource, change: Change) -> None:
        meta = change.object["metadata"]
        tags = meta.get("labels") or {}
        if resource == BANDWIDTH_SCHEDULES:
            self._add_all(WAN_LINKS)
        for label, kind in ((labels.POOL, PREFILL_POOLS), (labels.JOB, TRAINING_JOBS)):
            key = Key(kind, meta.get("namespace", ""), tags.get(label, ""))
            # A schedule waits for our word, also where its job went without it.
            held = resource == BANDWIDTH_SCHEDULES and kind == TRAINING_JOBS
            if (held and key.name) or key in self._known[kind]:
                self.queue.add_after(key, _SOON)
        if resource == NAMESPACES:
            self._add_namespace(meta["name"])
        if resource == NODES or (resource == PODS and _gives_room(change)):
            self._wake_waiting()

    async def look(self, key: Key) -> Seconds | None:
        """Reconcile one object; returns after how long to look again, None to wait for a change."""
        try:
            return await self._look(key)
        except NameTaken as error:  # by what was not followed; known now, and told of at once
            _log.info("%s: %s", key, error)
            return await self._look(key)

    async def _look(self, key: Key) -> Seconds | None:
        try:
            manifest = await self._hub.get(key.resource, key.namespace, key.name)
        except NotFound:
            await self._forget(key)
            return None
        return await self._reconciles[key.resource](key, manifest)

    async def _forget(self, key: Key) -> None:
        self._known[key.resource].discard(key)
        self._waiting.discard(key)
        if key.resource == DATA_CENTERS:
            await self.members.forget(key.name)
        elif key.resource == TRAINING_JOBS:
            await self._sweep_schedules(key)

    async def _sweep_schedules(self, key: Key, uid: str = "") -> None:
        """Let go what jobs of that name reserved that are gone; ``uid`` is of the present one.

        The garbage collector has marked it for deletion, since it is owned by its job.
        """
        site = self.members.hub_site
        if site is None:
            return
        await self._applier.delete(
            Reference.of(HUB, each)
            for each in site.mirror.objects(BANDWIDTH_SCHEDULES)
            if owner(each) not in ("", uid)
            and "deletionTimestamp" in each["metadata"]
            and each["metadata"]["namespace"] == key.namespace
            and each["metadata"]["labels"][labels.JOB] == key.name
        )

    async def _job(self, key: Key, manifest: Object) -> Seconds | None:
        try:
            observed = await self._observe(manifest)
        except InputError as error:
            decision = reconcile.unreadable(manifest, error, self._clock.now())
            await self._applier.apply(TRAINING_JOBS, manifest, decision)
            return decision.requeue_after
        if any(taken.need.kind == BANDWIDTH_SCHEDULES.kind for taken in observed.taken):
            await self._sweep_schedules(key, observed.job.metadata.uid)
        decision = reconcile.decide(observed, self._clock.now())
        if decision.ungate:
            # Two gangs that look at the same room at the same time would both go.
            async with self._admission:
                observed = await self._observe(manifest)
                decision = reconcile.decide(observed, self._clock.now())
                return await self._apply_job(key, manifest, observed, decision)
        return await self._apply_job(key, manifest, observed, decision)

    async def _observe(self, manifest: Object) -> Observed:
        observed = await self.observer.job(manifest)
        return observed.with_reports(await self._reports.of(observed))

    async def _apply_job(
        self, key: Key, manifest: Object, observed: Observed, decision: Decision
    ) -> Seconds | None:
        reserve_time = decision.status.get("reserveTime") if decision.status else None
        waits = observed.job.status.reserve_time is None and reserve_time is None
        (self._waiting.add if waits else self._waiting.discard)(key)
        try:
            await self._applier.apply(TRAINING_JOBS, manifest, decision)
        except (Invalid, Forbidden) as error:
            _log.warning("%s: %s", key, error)
            decision = reconcile.refused(observed, error, self._clock.now())
            await self._applier.apply(TRAINING_JOBS, manifest, decision)
        return decision.requeue_after

    async def _data_center(self, key: Key, manifest: Object) -> Seconds | None:
        center = DataCenter.from_manifest(manifest)
        site = await self.members.ensure(center)
        await self.members.renew(center)
        contact = await self._contact(center, site)
        decision = datacenters.decide(center, contact, self._clock.now())
        await self._applier.apply(DATA_CENTERS, manifest, decision)
        return self._settings.contact_period

    async def _contact(self, center: DataCenter, site: Site | None) -> datacenters.Contact:
        if site is None:
            problem = self.members.problem(center.name)
            assert problem is not None, "a cluster is opened or there is a problem"
            login = self.members.login(center.name)
            return datacenters.Contact(problem.reason, problem.message, login=login)
        try:
            scheduler = await _scheduler(site.cluster, self._namespace)
            classes = await site.cluster.list(PRIORITY_CLASSES)
            version = await site.cluster.version()
            async with asyncio.timeout(self._settings.settle_timeout):
                await site.mirror.settled()
            if site.mirror.fault is not None:
                raise site.mirror.fault
            orphans = await self._orphans(site)
            others = await self._networks(center)
        except Unauthorized:
            verdict = renewal.refusal(site.login, center.name, self._clock.now())
            return datacenters.Contact(*verdict, login=site.login)
        except Forbidden as error:
            return datacenters.Contact(Reason.FORBIDDEN, str(error), login=site.login)
        except (ClusterError, TimeoutError) as error:
            said = str(error) or "it is slow to answer"
            return datacenters.Contact(Reason.UNREACHABLE, said, login=site.login)
        return datacenters.Contact(
            kubernetes=version,
            login=site.login,
            renewal_fault=site.renewal_fault,
            cluster_uid=site.uid,
            other_networks=others,
            scheduler=scheduler,
            priorities=frozenset(each["metadata"]["name"] for each in classes),
            orphans=orphans,
            nodes=tuple(site.mirror.nodes()),
            occupancy=site.mirror.occupancy,
        )

    async def _networks(self, center: DataCenter) -> dict[str, tuple[str, ...]]:
        """The pod networks of the other data centres."""
        centers = read_all(DataCenter, await self._hub.list(DATA_CENTERS))
        return {
            each.name: each.spec.network.pod_cidrs or each.status.pod_cidrs
            for each in centers
            if each.name != center.name
        }

    async def _orphans(self, site: Site) -> tuple[Object, ...]:
        """Objects of jobs and pools that the hub does not know.

        What is in the cluster is looked at first: whoever is missing from the hub's lists after
        that is gone, for a job comes before its objects.
        """
        owners = site.mirror.owners()
        if not owners:
            return ()
        known: set[str] = set()
        for resource in (TRAINING_JOBS, PREFILL_POOLS):
            known |= {each["metadata"]["uid"] for each in await self._hub.list(resource)}
        gone = [uid for uid in owners if uid not in known]
        return tuple(each for uid in gone for each in site.mirror.owned(uid))

    async def _link(self, _: Key, manifest: Object) -> Seconds | None:
        link = WanLink.from_manifest(manifest)
        decision = links.decide(
            link,
            (each["metadata"]["name"] for each in await self._hub.list(DATA_CENTERS)),
            read_all(WanLink, await self._hub.list(WAN_LINKS)),
            self.observer.schedules(),
            self._clock.now(),
        )
        await self._applier.apply(WAN_LINKS, manifest, decision)
        return decision.requeue_after

    async def _pool(self, key: Key, manifest: Object) -> Seconds | None:
        observed = await self._pools.pool(manifest)
        decision = pools.decide(observed, self._clock.now())
        try:
            await self._applier.apply(PREFILL_POOLS, manifest, decision)
        except (Invalid, Forbidden) as error:
            _log.warning("%s: %s", key, error)
            decision = pools.refused(observed, error, self._clock.now())
            await self._applier.apply(PREFILL_POOLS, manifest, decision)
        return decision.requeue_after

    def _target(self, name: str) -> Target:
        site = self.members.hub_site if name == HUB else self.members.site(name)
        if site is None:
            raise Unreachable(f"{name or LOCAL} has no cluster now")
        return Target(site.cluster, site.mirror)


async def _scheduler(cluster: Cluster, namespace: str) -> Object | None:
    try:
        return await cluster.get(DEPLOYMENTS, namespace, labels.SCHEDULER_NAME)
    except NotFound:
        return None


def _gives_room(change: Change) -> bool:
    phase = (change.object.get("status") or {}).get("phase")
    return change.type == "DELETED" or phase in ("Succeeded", "Failed")
