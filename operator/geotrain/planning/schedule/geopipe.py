"""GeoPipe: further forwards in flight before each boundary that crosses the wide area.

A message to and fro takes 2 (L + S) over a boundary of latency L and transfer S, during which the
stages before it run forwards instead of waiting: ``ceil(2 (L + S) / (F + B))`` more each, added up
over the boundaries behind a stage and bounded by memory. With S at most what a micro-batch works,
and memory for the warm-up, an iteration takes the least that any order can::

    M (F + B) + (P - 1)(F + B) + 2 x the sum of (L + S)

With the backward split the same warm-up leaves weight gradients to fill the drain.

Source: GeoPipe over lossless DC-OTN (arXiv 2510.12064).
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import ceil, fsum

from geotrain.model.plan import Order
from geotrain.planning.schedule.costs import Costs, Hop
from geotrain.planning.schedule.orders import atlas_depths, warm_up, with_depths
from geotrain.planning.schedule.zero_bubble import zero_bubble
from geotrain.units import Seconds

_ROUNDING = 1e-9
_MOST_APART = 3
_MOST = 1e6  # beyond any number of micro-batches


def geopipe(costs: Costs, caps: Sequence[int], micro_batches: int) -> Order:
    """1F1B with GeoPipe's warm-up; ``caps[s]`` micro-batches are in flight at stage s at most."""
    return with_depths(depths(costs, caps), micro_batches)


def geopipe_split(costs: Costs, caps: Sequence[int] | None, micro_batches: int) -> Order:
    """The backward split, within ``caps``; None: every stage holds what GeoPipe's first one does.

    Tries GeoPipe's warm-up, and one forward more and less at each boundary.
    """
    stages, wanted = len(costs.stages), extra_forwards(costs)
    if caps is None:
        caps = (depths(costs, (micro_batches,) * stages)[0],) * stages
    tried = (
        tuple(stages - s + more for s, more in enumerate(warm_up(stages, extras)))
        for extras in _around(wanted)
    )
    return zero_bubble(costs, caps, micro_batches, tried)


def _around(wanted: dict[int, int]) -> Iterator[dict[int, int]]:
    """The extras of each boundary as they are, one less and one more; of many, all alike."""
    steps = (-1, 0, 1)
    if len(wanted) <= _MOST_APART:
        changes: Iterable[tuple[int, ...]] = product(steps, repeat=len(wanted))
    else:
        changes = ((step,) * len(wanted) for step in steps)
    for change in changes:
        pairs = zip(wanted.items(), change, strict=True)
        yield {boundary: max(0, extra + step) for (boundary, extra), step in pairs}


def depths(costs: Costs, caps: Sequence[int]) -> tuple[int, ...]:
    """Micro-batches in flight at each stage."""
    return atlas_depths(caps, warm_up(len(costs.stages), extra_forwards(costs)))


def extra_forwards(costs: Costs) -> dict[int, int]:
    """By the stage before it, the further forwards that each boundary of the wide area asks for."""
    work = max(stage.forward + stage.backward for stage in costs.stages)
    ways = zip(costs.forward, costs.backward, strict=True)
    return {
        boundary: forwards_in(_way(there) + _way(back), work)
        for boundary, (there, back) in enumerate(ways)
        if there.crosses_wan
    }


def forwards_in(way: Seconds, work: Seconds) -> int:
    """How often a stage runs F and B while messages are on their way; never where it takes none."""
    return ceil(min(way / work, _MOST) - _ROUNDING) if work else 0


def bound(costs: Costs, micro_batches: int) -> Seconds:
    """The least time of an iteration of equal stages in which no message waits for another."""
    stage = max(costs.stages, key=lambda each: each.forward + each.backward)
    work = stage.forward + stage.backward
    ways = fsum(_way(hop) for hop in costs.hops)
    return (micro_batches + len(costs.stages) - 1) * work + ways


def _way(hop: Hop) -> Seconds:
    return hop.occupancy + hop.delay
