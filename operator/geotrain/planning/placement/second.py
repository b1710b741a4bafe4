"""From which bandwidth on a second data centre would pay, where one is best.

All links are made faster by one factor, with what a pod pair reaches of them; round trips stay.
The factor is found by bisection over replays: is there then a placement over two data centres that
beats the best one of today? Within two per cent, for 1F1B and the warm-up of GeoPipe's rule, or the
one pattern that the policy names; None where the factor would exceed a thousand.
"""

from dataclasses import dataclass, replace
from math import sqrt

from geotrain.model.plan import Placement
from geotrain.model.topology import MessageRates, Topology, WanLink
from geotrain.model.workload import Workload
from geotrain.planning.placement import trials
from geotrain.planning.placement.bounds import bound
from geotrain.planning.placement.costing import Costing, Score
from geotrain.planning.placement.runner import Runner
from geotrain.planning.schedule.compiled import Engine
from geotrain.units import BitsPerSecond, format_rate

MOST_TIMES_FASTER = 1000.0
_WITHIN = 1.02


@dataclass(frozen=True, slots=True)
class Threshold:
    """The placement that would win, and the rate of its path from which on it would."""

    placement: Placement
    link: WanLink
    rate: BitsPerSecond

    @property
    def sentence(self) -> str:
        """For a person."""
        (first, _), (second, _) = self.placement.segments
        what = "a pod pair" if self.link.per_pod_capacity is not None else "the link"
        return (
            f"one data centre is best; {second} as a second would pay, with "
            f"{self.placement.data} replicas, from {format_rate(self.rate)}bit/s {what} between "
            f"{first} and {second} on, which has {format_rate(self.link.pod_rate)}bit/s"
        )


def threshold(
    topology: Topology,
    workload: Workload,
    placements: tuple[Placement, ...],
    least: Score,
    engine: Engine,
) -> Threshold | None:
    """What a second data centre needs to beat ``least``; ``placements`` are all candidates."""
    pairs = [placement for placement in placements if len(placement.segments) == 2]
    slow, fast = 1.0, MOST_TIMES_FASTER
    winner = _winner(_faster(topology, fast), workload, pairs, least, engine)
    if winner is None:
        return None
    while fast / slow > _WITHIN:
        middle = sqrt(slow * fast)
        found = _winner(_faster(topology, middle), workload, pairs, least, engine)
        if found is None:
            slow = middle
        else:
            fast, winner = middle, found
    (first, _), (second, _) = winner.segments
    link = topology.link(first, second)
    assert link is not None, "candidates cross linked data centres only"
    return Threshold(winner, link, link.pod_rate * fast)


def _faster(topology: Topology, factor: float) -> Topology:
    return replace(
        topology,
        links=tuple(
            replace(
                link,
                capacity=link.capacity * factor,
                per_pod_capacity=link.per_pod_capacity and link.per_pod_capacity * factor,
                message_rates=link.message_rates and _faster_messages(link.message_rates, factor),
            )
            for link in topology.links
        ),
    )


def _faster_messages(points: MessageRates, factor: float) -> MessageRates:
    return MessageRates(points.sizes, tuple(rate * factor for rate in points.rates))


def _winner(
    topology: Topology,
    workload: Workload,
    placements: list[Placement],
    least: Score,
    engine: Engine,
) -> Placement | None:
    """Of the placements that beat ``least`` the best one."""
    costing, best = Costing(topology, workload), least
    winner = None
    for placement in placements:
        costs = costing.costs(placement)
        micro_batches = workload.micro_batches(placement.data)
        room = trials.caps(costs, workload, micro_batches)
        if min(room) < 1 or costing.score(placement, bound(costs, micro_batches)) >= best:
            continue
        runner = Runner(engine, costs, placement.data)
        for _, depths in trials.few(costs, workload, micro_batches, room):
            found = costing.score(placement, runner.pattern(depths, micro_batches, exact=False))
            if found < best and runner.has_turns:
                found = costing.score(placement, runner.pattern(depths, micro_batches, exact=True))
            if found < best:
                best, winner = found, placement
    return winner
