"""Letting go of a hub or a member before Helm deletes what runs there."""

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from geotrain.api import labels
from geotrain.api.objects import (
    CLUSTER_ROLE_BINDINGS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    NETWORK_POLICIES,
    PODS,
    PREFILL_POOLS,
    SERVICES,
    TRAINING_JOBS,
    ApiResource,
    Object,
)
from geotrain.errors import Conflict, GeotrainError, NotFound, Refused
from geotrain.roles.hook import uninstall
from geotrain.roles.hook.ports import Clock, Cluster
from geotrain.units import Seconds

CONTROLLER: Final = "geotrain-controller"
MEMBER: Final = "geotrain-member"

_PAUSE: Final[Seconds] = 1.0
_OURS: Final = f"{labels.MANAGED_BY}={labels.MANAGED_BY_VALUE}"
_PODS: Final = f"{_OURS},{labels.ROLE} in ({labels.ROLE_TRAINER},{labels.ROLE_PREFILL})"
_CONTROLLER_PODS: Final = "app.kubernetes.io/name=geotrain,app.kubernetes.io/component=controller"
_CHILDREN: Final = (PODS, SERVICES, ENDPOINT_SLICES, NETWORK_POLICIES, CONFIG_MAPS)


@dataclass(frozen=True, slots=True)
class Wishes:
    """How to leave. ``drains``: end what runs instead of refusing, and wait up to ``timeout``.

    ``keep`` is the command by which a person who is refused stays with geotrain.
    """

    timeout: Seconds
    drains: bool
    keep: str


class Farewell:
    """One cluster that geotrain is to leave."""

    def __init__(self, cluster: Cluster, clock: Clock, wishes: Wishes) -> None:
        self._cluster = cluster
        self._clock = clock
        self._timeout = wishes.timeout
        self._drains = wishes.drains
        self._keep = wishes.keep

    async def hub(self, namespace: str) -> None:
        """End or refuse live jobs, stop the controller, take all finalizers off.

        The jobs and pools themselves stay. Raises Refused; then the controller runs as before.
        """
        await self._end_jobs()
        await self._scale(namespace, 0)
        try:
            await self._let_go(namespace)
        except GeotrainError:
            await self._scale(namespace, 1)
            raise

    async def _let_go(self, namespace: str) -> None:
        """Take the finalizers off; a controller that still runs would put them on again."""
        if left := await self._until(lambda: self._cluster.list(PODS, namespace, _CONTROLLER_PODS)):
            raise Refused(uninstall.controller_remains(left, self._timeout))
        if live := uninstall.live_jobs(await self._listed(TRAINING_JOBS)):
            raise Refused(uninstall.jobs_refused(live, self._keep))  # it came in the last moment
        for resource in (PREFILL_POOLS, TRAINING_JOBS):
            for each in filter(uninstall.is_held, await self._listed(resource)):
                await self._release(resource, each)
        await self._delete_all(DEPLOYMENTS, f"{_OURS},{labels.ROLE}={labels.ROLE_ROUTER}")

    async def member(self) -> None:
        """End or refuse live pods. Raises Refused."""
        if self._drains:
            # First, or the hub would make anew what goes.
            with contextlib.suppress(NotFound):
                await self._cluster.delete(CLUSTER_ROLE_BINDINGS, "", MEMBER)
            for resource in _CHILDREN:
                for owner in (labels.JOB, labels.POOL):
                    await self._delete_all(resource, f"{_OURS},{owner}")
        pods = await self._pods()
        staying = [pod for pod in pods if not uninstall.is_leaving(pod)]
        if staying and not self._drains:
            raise Refused(uninstall.pods_refused(staying, self._keep))
        if left := await self._until(self._pods):
            raise Refused(uninstall.pods_remain(left, self._timeout))

    async def _end_jobs(self) -> None:
        live = await self._live()
        staying = [job for job in live if not uninstall.is_leaving(job)]
        if staying and not self._drains:
            raise Refused(uninstall.jobs_refused(staying, self._keep))
        for job in staying:
            await self._suspend(job)
        if left := await self._until(self._live):
            raise Refused(uninstall.jobs_remain(left, self._timeout))

    async def _live(self) -> Sequence[Object]:
        live = uninstall.live_jobs(await self._listed(TRAINING_JOBS))
        return [dict(job) for job in live]

    async def _pods(self) -> Sequence[Object]:
        return [dict(pod) for pod in uninstall.live_pods(await self._cluster.list(PODS, "", _PODS))]

    async def _listed(self, resource: ApiResource) -> Sequence[Object]:
        """All of a kind; none where somebody has deleted the kind."""
        try:
            return await self._cluster.list(resource)
        except NotFound:
            return ()

    async def _suspend(self, job: Object) -> None:
        meta = job["metadata"]
        with contextlib.suppress(NotFound):
            await self._cluster.patch(
                TRAINING_JOBS, meta["namespace"], meta["name"], {"spec": {"suspend": True}}
            )

    async def _scale(self, namespace: str, replicas: int) -> None:
        with contextlib.suppress(NotFound):
            await self._cluster.patch(
                DEPLOYMENTS,
                namespace,
                CONTROLLER,
                {"spec": {"replicas": replicas}},
                subresource="scale",
            )

    async def _release(self, resource: ApiResource, subject: Object) -> None:
        meta = subject["metadata"]
        patch = uninstall.without_finalizer(subject)
        with contextlib.suppress(NotFound):
            await self._cluster.patch(resource, meta["namespace"], meta["name"], patch)

    async def _delete_all(self, resource: ApiResource, selector: str) -> None:
        for each in await self._cluster.list(resource, "", selector):
            meta = each["metadata"]
            with contextlib.suppress(NotFound, Conflict):
                await self._cluster.delete(
                    resource, meta["namespace"], meta["name"], uid=meta["uid"]
                )

    async def _until(self, look: Callable[[], Awaitable[Sequence[Object]]]) -> Sequence[Object]:
        """Look until nothing is found; gives what is left after the time-out."""
        end = self._clock.now() + self._timeout
        while (found := await look()) and self._clock.now() < end:
            await self._clock.sleep(_PAUSE)
        return found
