"""What an iteration is made of, by asking the replay what it would be without each part.

    computing      what a rank's GPU is busy with, on average over the ranks
    sync           the longest all-reduce and optimizer step
    wide area      iteration - iteration with links of no delay and no end of rate
    fill and drain what is left

so that the four add up to the iteration. The same is asked of each pair of data centres alone, and
of memory without a bound. Every question is a plan at the very placement, by the code that plans.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import fsum
from typing import Final

from geotrain.model.plan import Placement, Plan
from geotrain.model.topology import Topology, WanLink
from geotrain.model.workload import Workload
from geotrain.planning.placement.choose import at, choose
from geotrain.units import Seconds

_ENDLESS: Final = 1e18
"""bit/s, more than any transfer notices."""

Pair = tuple[str, str]
"""Two data centres, in the order of their names."""


class Part(StrEnum):
    """A part of an iteration."""

    COMPUTE = "Compute"
    WAN = "Wan"
    PIPELINE = "Pipeline"
    SYNC = "Sync"


@dataclass(frozen=True, slots=True)
class Attribution:
    """Seconds of an iteration by part; what each pair of data centres and memory cost of it."""

    iteration: Seconds
    parts: dict[Part, Seconds]
    links: dict[Pair, Seconds] = field(default_factory=dict)
    memory: Seconds = 0.0


def attribution(topology: Topology, workload: Workload, placement: Placement) -> Attribution | None:
    """Take the iteration of a job at a placement apart; None where it does not fit there."""
    fixed = at(workload, placement)
    plan = choose(topology, fixed)
    if not isinstance(plan, Plan):
        return None

    def saved(other: Topology, asked: Workload = fixed) -> Seconds:
        answer = choose(other, asked)
        faster = answer.iteration if isinstance(answer, Plan) else plan.iteration
        return max(0.0, plan.iteration - faster)

    crossed = sorted({_pair(source, target) for source, target in plan.connections})
    wan = saved(_without(topology, lambda _: True)) if crossed else 0.0
    alone = {pair: saved(_without(topology, _between(pair))) for pair in crossed[1:] and crossed}
    busy = fsum(each.end - each.begin for rank in plan.compute for each in rank) / plan.ranks
    sync = max((each.end - each.begin for each in plan.steps), default=0.0)
    return Attribution(
        plan.iteration,
        {
            Part.COMPUTE: busy,
            Part.WAN: wan,
            Part.PIPELINE: max(0.0, plan.iteration - busy - sync - wan),
            Part.SYNC: sync,
        },
        alone or dict.fromkeys(crossed, wan),
        saved(*_boundless(topology, fixed)),
    )


def _boundless(topology: Topology, workload: Workload) -> tuple[Topology, Workload]:
    centers = tuple(replace(center, memory=None) for center in topology.data_centers)
    return replace(topology, data_centers=centers), replace(workload, memory_per_gpu=None)


def _without(topology: Topology, chosen: Callable[[WanLink], bool]) -> Topology:
    """The topology with chosen links that delay nothing."""
    return replace(
        topology,
        links=tuple(_free(link) if chosen(link) else link for link in topology.links),
    )


def _free(link: WanLink) -> WanLink:
    return WanLink(link.source, link.target, _ENDLESS, 0.0)


def _between(pair: Pair) -> Callable[[WanLink], bool]:
    return lambda link: _pair(link.source, link.target) == pair


def _pair(one: str, other: str) -> Pair:
    first, second = sorted((one, other))
    return first, second
