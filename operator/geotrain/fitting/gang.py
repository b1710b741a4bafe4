"""Does a whole gang fit into one cluster now? The controller asks before it lifts the gates.

It is the same arithmetic by which the extender filters. Room that training pods of other jobs
were already promised (their gates are lifted, but they have no node yet) counts as taken. Prefill
counts as room: it leaves when the gang comes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from geotrain.fitting.facts import NodeFacts, PodFacts, PodKey
from geotrain.fitting.misfit import reasons
from geotrain.fitting.occupancy import Occupancy
from geotrain.fitting.victims import victims
from geotrain.fitting.whatif import WhatIf
from geotrain.model.decision import Reason


@dataclass(frozen=True, slots=True)
class Fits:
    """Where each pod of the gang could go, and the prefill pods that would have to leave."""

    assignment: Mapping[PodKey, str]
    victims: tuple[PodKey, ...]


@dataclass(frozen=True, slots=True)
class Misfit:
    """Which data centre lacks what, with figures; the gravest reason first."""

    reasons: tuple[Reason, ...]


def gang_fits(
    nodes: Iterable[NodeFacts], pods: Iterable[PodFacts], gang: Sequence[PodFacts]
) -> Fits | Misfit:
    """Whether the gang fits the cluster of ``nodes`` on which ``pods`` (all pods) are.

    Pods of the gang that are bound already stay where they are. The others may or may not be
    among ``pods``: the answer is the same before and after they are created.
    """
    return fits(Occupancy(nodes, pods), gang)


def fits(occupancy: Occupancy, gang: Sequence[PodFacts]) -> Fits | Misfit:
    """As ``gang_fits``, over an occupancy that is already built."""
    bound, wanted = _split(occupancy, gang)
    whatif = with_promised(occupancy, {pod.key for pod in gang})
    before = whatif.copy()
    if whatif.put(wanted):
        return Misfit(reasons(occupancy, before, wanted))
    assignment = {pod.key: whatif.assignment[pod.key] for pod in wanted}
    return Fits({**bound, **assignment}, _victims(occupancy, whatif, set(assignment.values())))


def with_promised(occupancy: Occupancy, besides: set[PodKey]) -> WhatIf:
    """A what-if in which admitted training pods without a node have taken the room they need."""
    whatif = WhatIf(occupancy)
    promised = [p for p in occupancy.waiting() if not p.gated and p.key not in besides]
    for pod in promised:
        if pod.nominated in occupancy.nodes:
            whatif.put_on(pod, pod.nominated)
    whatif.put(pod for pod in promised if pod.nominated not in occupancy.nodes)
    return whatif


def _split(
    occupancy: Occupancy, gang: Sequence[PodFacts]
) -> tuple[dict[PodKey, str], list[PodFacts]]:
    """The gang's pods that have a node, and those that need one."""
    bound: dict[PodKey, str] = {}
    wanted: list[PodFacts] = []
    for pod in gang:
        seen = occupancy.pod(pod.key)
        if seen is not None and seen.node and not (seen.ended or seen.terminating):
            bound[pod.key] = seen.node
        else:
            wanted.append(pod)
    return bound, wanted


def _victims(occupancy: Occupancy, whatif: WhatIf, nodes: set[str]) -> tuple[PodKey, ...]:
    """The prefill pods that leave the nodes to which the gang goes."""
    leaving = (victims(occupancy, node, whatif.taken[node]) or () for node in sorted(nodes))
    return tuple(pod.key for pods in leaving for pod in pods if not pod.terminating)
