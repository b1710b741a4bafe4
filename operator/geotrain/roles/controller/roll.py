"""Roll call: which pods of a gang are there, and which pods are there that should not be."""

from collections.abc import Mapping
from dataclasses import dataclass

from geotrain.roles.controller.inputs import Planned
from geotrain.roles.controller.observed import Observed, RankPod


@dataclass(frozen=True, slots=True)
class Roll:
    """The pods of the present gang by rank.

    ``stale`` are pods of other revisions, attempts or places; ``missing`` are ranks without one.
    """

    current: Mapping[int, RankPod]
    stale: tuple[RankPod, ...]
    missing: tuple[int, ...]

    @property
    def leaving(self) -> tuple[RankPod, ...]:
        """Pods of the present gang that are being deleted."""
        return tuple(pod for pod in self.current.values() if pod.terminating)

    @property
    def failed(self) -> tuple[RankPod, ...]:
        """Pods of the present gang that failed."""
        return tuple(pod for pod in self.current.values() if pod.phase == "Failed")

    @property
    def gated(self) -> tuple[RankPod, ...]:
        """Pods that our gate still holds back."""
        return tuple(p for p in self.current.values() if p.gated and not p.terminating)

    @property
    def admitted(self) -> tuple[RankPod, ...]:
        """Pods whose gate was lifted and that are not going away."""
        return tuple(p for p in self.current.values() if not (p.gated or p.terminating))

    @property
    def idle(self) -> tuple[RankPod, ...]:
        """Pods that neither run nor have ended."""
        return tuple(p for p in self.current.values() if p.phase not in ("Running", "Succeeded"))

    @property
    def complete(self) -> bool:
        """Whether every rank ended with success."""
        succeeded = all(pod.phase == "Succeeded" for pod in self.current.values())
        return succeeded and not self.missing

    @property
    def addresses(self) -> dict[int, str]:
        """The IPs of the ranks that have one."""
        return {
            rank: pod.address
            for rank, pod in self.current.items()
            if pod.address and not pod.terminating
        }


def call(observed: Observed, planned: Planned, attempt: int) -> Roll:
    """Sort the job's pods by whether they belong to the present gang."""
    current: dict[int, RankPod] = {}
    stale: list[RankPod] = []
    for pod in observed.pods:
        if _belongs(observed, planned, attempt, pod) and pod.rank not in current:
            current[pod.rank] = pod
        else:
            stale.append(pod)
    missing = tuple(rank for rank in range(planned.plan.ranks) if rank not in current)
    return Roll(current, tuple(stale), missing)


def _belongs(observed: Observed, planned: Planned, attempt: int, pod: RankPod) -> bool:
    if (pod.revision, pod.attempt) != (planned.revision, attempt):
        return False
    if not 0 <= pod.rank < planned.plan.ranks:
        return False
    home = observed.members.get(planned.plan.data_center_of(pod.rank))
    return home is not None and home.cluster == observed.members[pod.data_center].cluster
