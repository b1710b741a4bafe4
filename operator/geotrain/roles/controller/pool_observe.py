"""Gathers the facts for one reconcile of a pool: the pool's share of ``observe``."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from geotrain.api import convert, labels
from geotrain.api.objects import CONFIG_MAPS, TRAINING_JOBS, Object
from geotrain.api.pod_template import pool_problems
from geotrain.api.reasons import Reason
from geotrain.api.v1alpha1 import DataCenter, GeoTrainingJob, PrefillPool
from geotrain.errors import ClusterError, InputError, NotFound, Unreachable
from geotrain.prefill.profile import PrefillProfile
from geotrain.roles.controller import pool_children, pool_slots, pools
from geotrain.roles.controller.members import Members
from geotrain.roles.controller.observe import Observer, read_all
from geotrain.roles.controller.observed import Member, Observed, PlanFault, RankPod
from geotrain.roles.controller.ownership import Taken
from geotrain.roles.controller.pool_observed import PoolObserved
from geotrain.roles.controller.ports import Clock, Cluster
from geotrain.units import Seconds

_PATIENCE: Final[Seconds] = 2.0  # a router that needs longer is asked again next time

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class PoolObserver:
    """Sees pools; ``image`` is what their routers run."""

    hub: Cluster
    members: Members
    observer: Observer
    clock: Clock
    image: str
    _asked: dict[str, tuple[Seconds, Mapping[str, Any] | None]] = field(default_factory=dict)

    async def pool(self, manifest: Object) -> PoolObserved:
        """What is to be seen of a pool. Raises InputError when it cannot be read."""
        pool = PrefillPool.from_manifest(manifest)
        centers = await self.observer.data_centers()
        jobs = read_all(GeoTrainingJob, await self.hub.list(TRAINING_JOBS, pool.namespace))
        job = pool_slots.bound_job(pool, jobs)
        hub = self._on_hub(pool)
        hub_uids = {each["metadata"]["uid"] for each in hub}
        members = await self.observer.seen(centers, pool)
        observed = PoolObserved(
            pool=pool,
            members={name: _without(member, hub_uids) for name, member in members.items()},
            hub=hub,
            job=job,
            ranks=await self._ranks(job, centers),
            profile=await self._profile(pool, centers),
            has_finalizer=labels.FINALIZER in (manifest["metadata"].get("finalizers") or ()),
            router_image=self.image,
        )
        return replace(
            observed, stats=await self._stats(observed), taken=await self._taken(observed)
        )

    def forget(self, uid: str) -> None:
        """Drop what is known of a pool that is gone."""
        self._asked.pop(uid, None)

    def _on_hub(self, pool: PrefillPool) -> tuple[Object, ...]:
        """The router and what belongs to it; a hub that is a member has workers besides."""
        site = self.members.hub_site
        if site is None or not site.mirror.synced:
            raise Unreachable("the hub has not answered yet")
        return tuple(
            each
            for each in site.mirror.owned(pool.metadata.uid)
            if each["metadata"].get("labels", {}).get(labels.ROLE) == labels.ROLE_ROUTER
            or _belongs_to(each, pool)
        )

    async def _taken(self, observed: PoolObserved) -> tuple[Taken, ...]:
        pool = observed.pool
        if pool.metadata.deletion_timestamp is not None:
            return ()
        slots = pools.places(observed, observed.job)
        return await self.observer.taken(pool_children.needs(pool, slots), pool.metadata.uid)

    async def _ranks(
        self, job: GeoTrainingJob | None, centers: Sequence[DataCenter]
    ) -> Sequence[RankPod]:
        if job is None:
            return ()
        members = await self.observer.seen(centers, job)
        return Observed(job=job, members=members).pods

    async def _profile(
        self, pool: PrefillPool, centers: Sequence[DataCenter]
    ) -> PrefillProfile | PlanFault:
        if problems := pool_problems(pool):
            return PlanFault(Reason.INVALID_SPEC, "; ".join(problems))
        reference = pool.spec.profile_ref
        if reference is None:
            known = [c.spec.accelerator for c in centers if c.spec.accelerator]
            try:
                return convert.estimated_prefill_profile(pool, known)
            except InputError as error:
                return PlanFault(Reason.UNKNOWN_ACCELERATOR, str(error))
        place = f"ConfigMap {pool.namespace}/{reference.name}"
        try:
            found = await self.hub.get(CONFIG_MAPS, pool.namespace, reference.name)
        except NotFound:
            return PlanFault(Reason.PROFILE_MISSING, f"{place} does not exist")
        text = (found.get("data") or {}).get(reference.key)
        if text is None:
            return PlanFault(Reason.PROFILE_MISSING, f"{place} has no key {reference.key!r}")
        where = f"{place}, key {reference.key!r}"
        try:
            return convert.prefill_profile(convert.document(text, where))
        except InputError as error:
            return PlanFault(Reason.PROFILE_INVALID, f"{where}: {error}")

    async def _stats(self, observed: PoolObserved) -> Mapping[str, Any] | None:
        """Ask the router, at most every ``pools.PERIOD``; between, what it said last holds."""
        uid, now = observed.pool.metadata.uid, self.clock.now()
        ready = [pod for pod in observed.routers if pod.ready and not pod.terminating]
        if not ready:
            self.forget(uid)
            return None
        asked, known = self._asked.get(uid, (0.0, None))
        if now - asked < pools.PERIOD:
            return known
        said = await self._ask(observed.pool.namespace, ready[0])
        self._asked[uid] = now, said
        return said

    async def _ask(self, namespace: str, pod: RankPod) -> Mapping[str, Any] | None:
        try:
            async with asyncio.timeout(_PATIENCE):
                return await self.hub.pod_proxy_get(
                    namespace, pod.name, labels.PORT_ROUTER, "stats"
                )
        except (ClusterError, TimeoutError) as error:
            _log.debug("no counts from %s/%s: %s", namespace, pod.name, error)
            return None


def _belongs_to(manifest: Object, pool: PrefillPool) -> bool:
    owners = manifest["metadata"].get("ownerReferences") or ()
    return any(owner["uid"] == pool.metadata.uid for owner in owners)


def _without(member: Member, uids: set[str]) -> Member:
    """A member that is the hub shows the hub's own objects too; they are not the member's."""
    kept = tuple(each for each in member.owned if each["metadata"]["uid"] not in uids)
    return replace(member, owned=kept)
