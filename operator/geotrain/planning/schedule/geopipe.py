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
from geotrain.planning.schedule.compiled import PLAIN
from geotrain.planning.schedule.compiled_patterns import Patterns
from geotrain.planning.schedule.costs import Costs, Hop, StageCosts
from geotrain.planning.schedule.orders import atlas_depths, warm_up, with_depths
from geotrain.planning.schedule.zero_bubble import zero_bubble
from geotrain.units import Seconds

_ROUNDING = 1e-9
_FEMTOSECOND = 1e-15
_NEVER = float("inf")
_MOST_TRIED = 200

TRIED = 4_000_000
"""Actions that all patterns tried together may have: at most some four seconds."""

_MOST_APART = 3
_MOST = 1e6  # beyond any number of micro-batches


def geopipe(costs: Costs, caps: Sequence[int], micro_batches: int) -> Order:
    """1F1B with GeoPipe's warm-up; ``caps[s]`` micro-batches are in flight at stage s at most."""
    return with_depths(fitted_depths(costs, caps, micro_batches), micro_batches)


def fitted_depths(costs: Costs, caps: Sequence[int], micro_batches: int) -> tuple[int, ...]:
    """The rule's warm-up; or 1F1B where that is faster; or, where memory cuts it off, what is best.

    Cut off, two stages on both sides of a boundary hold equally many, and each micro-batch waits
    for a round trip: longer than with 1F1B. So what memory holds is divided anew (``_divided``).
    """
    rule, plain = depths(costs, caps), atlas_depths(caps, (0,) * len(caps))
    if micro_batches < 1 or min(caps) < 1 or not any(extra_forwards(costs).values()):
        return rule
    asked = depths(costs, (micro_batches,) * len(caps))
    trials = _Trials(costs, micro_batches)
    if all(depth >= want for depth, want in zip(rule, asked, strict=True)):
        return min((rule, plain), key=trials.end)
    return _divided(costs, caps, trials, [plain, rule])


class _Trials:
    """When iterations of patterns end, each replayed once, as long as there is budget."""

    def __init__(self, costs: Costs, micro_batches: int) -> None:
        self.patterns, self.micro_batches = Patterns(PLAIN, costs, 1), micro_batches
        self.left = max(2, min(_MOST_TRIED, TRIED // (2 * len(costs.stages) * micro_batches)))
        self.unit = max(_ROUNDING * max(map(_work, costs.stages)), _FEMTOSECOND)
        self.ends: dict[tuple[int, ...], int] = {}

    def end(self, depths: tuple[int, ...]) -> float:
        """In small whole units, so that equal sums are equal; never without budget."""
        if depths not in self.ends and self.left:
            self.left -= 1
            self.ends[depths] = round(self.patterns.end(depths, self.micro_batches) / self.unit)
        return self.ends.get(depths, _NEVER)


def _divided(
    costs: Costs, caps: Sequence[int], trials: _Trials, known: list[tuple[int, ...]]
) -> tuple[int, ...]:
    """The best of what memory holds: the rule's extras or fewer, the same at all boundaries.

    From the best of these the extras of single boundaries go up and down as long as that helps.
    Each is tried in two ways: 1F1B and the extras as far as memory holds them, and all that memory
    holds at the first stage, then one less a stage and the extras less.
    """
    for depths in known:
        trials.end(depths)

    def end(extras: dict[int, int]) -> tuple[float, tuple[int, ...]]:
        ways = atlas_depths(caps, warm_up(len(caps), extras)), _fallen(caps, extras)
        return min((trials.end(depths), depths) for depths in ways)

    wanted = extra_forwards(costs)
    least = [{b: min(extra, most) for b, extra in wanted.items()} for most in _steps(wanted)]
    best = min(least, key=end)
    better = min(_changed(best), key=end)
    while end(better) < end(best):
        best, better = better, min(_changed(better), key=end)
    return min(trials.ends, key=lambda depths: (trials.ends[depths], sum(depths), depths))


def _steps(wanted: dict[int, int]) -> list[int]:
    """The rule's extras, and fewer: a half, a quarter, …, none."""
    most = min(max(wanted.values(), default=0), round(_MOST))
    return [most >> shift for shift in range(most.bit_length() + 1)]


def _changed(extras: dict[int, int]) -> Iterator[dict[int, int]]:
    """One more or less at one boundary."""
    for boundary, extra in extras.items():
        for step in (-1, 1):
            yield extras | {boundary: max(0, extra + step)}


def _fallen(caps: Sequence[int], extras: dict[int, int]) -> tuple[int, ...]:
    """All that memory holds at the first stage, then one less a stage and the extras less."""
    depths, depth = [], max(caps)
    for stage, cap in enumerate(caps):
        depth = min(cap, depth)
        depths.append(depth)
        depth = max(1, depth - 1 - extras.get(stage, 0))
    return tuple(depths)


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
    work = max(map(_work, costs.stages))
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
    work = max(map(_work, costs.stages))
    ways = fsum(_way(hop) for hop in costs.hops)
    return (micro_batches + len(costs.stages) - 1) * work + ways


def _work(stage: StageCosts) -> Seconds:
    return stage.forward + stage.backward


def _way(hop: Hop) -> Seconds:
    return hop.occupancy + hop.delay
