"""Which layers make a stage: consecutive, the slowest stage as fast as can be, then most even.

First the least possible time of the slowest stage (bisection over the sums of consecutive
layers), then, among the splits that keep it, the least sum of squared stage times by dynamic
programming; among equals more layers go to later stages, which hold fewer micro-batches. Times
are rounded to picoseconds and added as integers, so equal layers tie exactly. Of a model whose
layers are equal but for the last, whatever that takes, the split is written down at once.
"""

from bisect import bisect_left
from functools import lru_cache
from itertools import accumulate, combinations

from geotrain.model.workload import LayerCosts

_PER_SECOND = 10**12

_Split = tuple[int, tuple[int, ...]]


@lru_cache(maxsize=64)
def balanced_layers(layers: tuple[LayerCosts, ...], stages: int) -> tuple[int, ...]:
    """How many consecutive layers each stage gets. Raises ValueError with too few layers."""
    if stages < 1 or len(layers) < stages:
        raise ValueError(f"{len(layers)} layers cannot make {stages} stages")
    # One more picosecond each, so that layers without a time are still counted.
    times = [round((layer.forward + layer.backward) * _PER_SECOND) + 1 for layer in layers]
    if len(set(times[:-1])) == 1:
        return _of_equals(len(times), times[0], times[-1], stages)
    sums = [0, *accumulate(times)]
    slowest = _least_slowest(sums, stages)
    splits: dict[int, _Split] = {0: (0, ())}
    for stage in range(1, stages + 1):
        ends = range(stage, len(sums) - (stages - stage))
        splits = {end: best for end in ends if (best := _last_stage(sums, splits, end, slowest))}
    return splits[len(layers)][1]


@lru_cache(maxsize=4096)
def _of_equals(count: int, each: int, last: int, stages: int) -> tuple[int, ...]:
    """The same for layers that take ``each``, but for the last: the vocabulary's output is there.

    What the last stage does not take the others share as evenly as can be, later ones first.
    """
    if stages == 1:
        return (count,)
    options = []
    for end in range(1, count - stages + 2):
        few, more = divmod(count - end, stages - 1)
        final = (end - 1) * each + last
        squares = more * (few + 1) ** 2 + (stages - 1 - more) * few**2
        slowest = max((few + (more > 0)) * each, final)
        options.append((slowest, squares * each**2 + final**2, end))
    least = min(options)[:2]
    return min(
        (few,) * (stages - 1 - more) + (few + 1,) * more + (end,)
        for *worth, end in options
        if tuple(worth) == least
        for few, more in (divmod(count - end, stages - 1),)
    )


@lru_cache(maxsize=256)
def balanced_over(rows: tuple[tuple[LayerCosts, ...], ...]) -> tuple[int, ...]:
    """The same where ``rows[s]`` are the layers' costs on the devices of stage s.

    Stages of faster devices get more layers. Raises ValueError with too few layers.
    """
    if all(row == rows[0] for row in rows):
        return balanced_layers(rows[0], len(rows))
    if len(rows[0]) < len(rows):
        raise ValueError(f"{len(rows[0])} layers cannot make {len(rows)} stages")
    sums = [
        [0, *accumulate(round((each.forward + each.backward) * _PER_SECOND) + 1 for each in row)]
        for row in rows
    ]
    slowest = _even(sums, None)[0]
    return _even(sums, slowest)[1]


def _even(sums: list[list[int]], slowest: int | None) -> _Split:
    """The split with the least slowest stage; given that, the one with the least squares.

    Layers are dealt stage by stage: ``best[n]`` is the best way to deal the first n.
    """
    count, stages = len(sums[0]) - 1, len(sums)
    best: dict[int, _Split] = {0: (0, ())}
    for stage, row in enumerate(sums, 1):
        dealt: dict[int, _Split] = {}
        for end in range(stage, count - (stages - stage) + 1):
            options = []
            for begin, (value, before) in best.items():
                time = row[end] - row[begin]
                if begin < end and (slowest is None or time <= slowest):
                    worth = max(value, time) if slowest is None else value + time**2
                    options.append((worth, (*before, end - begin)))
            if options:
                dealt[end] = min(options)
        best = dealt
    return best[count]


def _last_stage(
    sums: list[int], before: dict[int, _Split], end: int, slowest: int
) -> _Split | None:
    """The most even split of the first ``end`` layers: a split ``before`` and one stage more."""
    first = bisect_left(sums, sums[end] - slowest)
    options = [
        (before[begin][0] + (sums[end] - sums[begin]) ** 2, (*before[begin][1], end - begin))
        for begin in range(first, end)
        if begin in before
    ]
    return min(options, default=None)


def _least_slowest(sums: list[int], stages: int) -> int:
    """The least time within which some split keeps every stage."""
    candidates = sorted({later - earlier for earlier, later in combinations(sums, 2)})
    return candidates[
        bisect_left(candidates, True, key=lambda limit: _stages_within(sums, limit) <= stages)
    ]


def _stages_within(sums: list[int], limit: int) -> int:
    """How many stages it takes at least when none may exceed ``limit``."""
    count, begin = 0, 0
    while begin < len(sums) - 1:
        # One beyond the last layer that still fits; no progress means one layer is too slow.
        end = bisect_left(sums, sums[begin] + limit + 1) - 1
        if end == begin:
            return len(sums)
        count, begin = count + 1, end
    return count
