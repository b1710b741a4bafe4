"""Asking the sidecars of running gangs what they measured, through the API servers' pod proxy."""

import asyncio
import logging
from typing import Final

from geotrain.api import labels
from geotrain.api.objects import Object
from geotrain.errors import ClusterError
from geotrain.roles.controller import measurement
from geotrain.roles.controller.members import Members
from geotrain.roles.controller.observed import Observed, RankPod, Report
from geotrain.roles.controller.ports import Clock
from geotrain.roles.controller.roll import call
from geotrain.units import Seconds

_PATIENCE: Final[Seconds] = 2.0  # a sidecar that needs longer is asked again next time

_log = logging.getLogger(__name__)


class Reports:
    """The latest reports by job, asked for at most every ``measurement.PERIOD``."""

    def __init__(self, members: Members, clock: Clock) -> None:
        self._members = members
        self._clock = clock
        self._asked: dict[str, Seconds] = {}
        self._known: dict[str, dict[int, Report]] = {}

    async def of(self, observed: Observed) -> dict[int, Report]:
        """What the sidecars of a job say, its gang being the one that is observed."""
        uid = observed.job.metadata.uid
        pods = _worth_asking(observed)
        if not pods:
            self.forget(uid)
            return {}
        now = self._clock.now()
        if now - self._asked.get(uid, -measurement.PERIOD) >= measurement.PERIOD:
            self._asked[uid] = now
            answers = await asyncio.gather(*(self._ask(pod) for pod in pods))
            known = self._known.setdefault(uid, {})
            for pod, answer in zip(pods, answers, strict=True):
                if answer is not None:
                    known[pod.rank] = Report(now, answer)
        return dict(self._known.get(uid, {}))

    def forget(self, uid: str) -> None:
        """Drop what is known of a job that does not run."""
        self._asked.pop(uid, None)
        self._known.pop(uid, None)

    async def _ask(self, pod: RankPod) -> Object | None:
        site = self._members.site(pod.data_center)
        if site is None:
            return None
        namespace = pod.manifest["metadata"]["namespace"]
        try:
            async with asyncio.timeout(_PATIENCE):
                return await site.cluster.pod_proxy_get(
                    namespace, pod.name, labels.PORT_STATUS, "status"
                )
        except (ClusterError, TimeoutError) as error:
            _log.debug("no report from %s/%s: %s", namespace, pod.name, error)
            return None


def _worth_asking(observed: Observed) -> list[RankPod]:
    planned = observed.planned
    if planned is None or observed.job.spec.network.enforcement == "None":
        return []
    roll = call(observed, planned, observed.job.status.attempt or 0)
    wanted = (roll.current.get(rank) for rank in measurement.asked(planned.plan))
    running = [pod for pod in wanted if pod is not None and pod.phase == "Running"]
    return running if not (roll.missing or roll.idle) else []
