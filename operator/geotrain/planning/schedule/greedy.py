"""``Greedy``: the best of many list schedules and of the field's patterns, then improved.

All by exact replay:

1. **Patterns.** GPipe, 1F1B, Atlas and GeoPipe within memory, and whatever orders the caller names.
   None of them is better than the answer in makespan, nor in span where one order has both and
   its makespan is within one per cent of the least found.
2. **Lists.** Rules of ``lists``, forwards and backwards in time, in an order in which
   each adds most to those before it; as many as the size of the pipeline allows.
3. **Beams.** Where few actions make an iteration many schedules grow side by side (``beam``).
4. **Search.** The best few are improved along their critical path (``swaps``).

Two measures: the *makespan* is from the first action to the last anywhere; the *span* is the
longest that one device takes from its own first action to its last. The span bounds the period of
iterations that follow each other without a barrier, and gives the bubble ratio of zero-bubble
schedules (Qi et al., arXiv 2401.10241). With room in memory one schedule has the least of both.

Budgets count replayed actions, never time, so equal input gives an equal order.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import fsum, inf

from geotrain.model.plan import Order
from geotrain.planning.schedule.beam import beam
from geotrain.planning.schedule.costs import Costs
from geotrain.planning.schedule.geopipe import forwards_in
from geotrain.planning.schedule.lists import Rule, list_schedule
from geotrain.planning.schedule.shop import (
    BACKWARD,
    FORWARD,
    KINDS,
    Rows,
    Shop,
    bounds,
    depth_rows,
    order_of,
    rows_of,
    shop,
    sweep,
    within_memory,
)
from geotrain.planning.schedule.swaps import Goal, improve
from geotrain.units import Seconds

RULES = (
    Rule(mirrored=True, eager=True),
    Rule(filler=0.5),
    Rule(filler=1.0, pending=3, relieve=False),
    Rule(mirrored=True, filler=1.0),
    Rule(),
    Rule(filler=1.0, relieve=False),
    Rule(mirrored=True, filler=0.5, eager=True),
    Rule(pending=3, relieve=False),
    Rule(filler=0.5, pending=3, eager=True, relieve=False),
    Rule(mirrored=True, pending=6),
    Rule(pending=2, relieve=False),
    Rule(eager=True, relieve=False),
    Rule(mirrored=True, pending=3, eager=True),
    Rule(pending=4),
    Rule(pending=1),
    Rule(pending=2, eager=True),
    Rule(filler=0.5, eager=True, relieve=False),
    Rule(mirrored=True, pending=1),
)
"""Chosen on random pipelines, those of arXiv 2401.10241 and 2510.12064: always the one next that
brings the mean nearest to the best of all combinations of the settings."""

WHOLE_RULES = (
    Rule(mirrored=True, eager=True),
    Rule(),
    Rule(mirrored=True),
    Rule(eager=True),
)
"""Where the backward is whole there is no W to fill with."""

LISTED = 100_000
"""Actions that all lists together may schedule; at least four lists are tried."""

LONG = 100_000
"""Actions of an iteration beyond which one list is tried only."""

SEARCHED = 200_000
"""Actions that the search may replay by default: some 0.3 s."""

GROWN = 10_000
"""Actions that a beam may add by default, in each direction of time: some 0.3 s."""

_WORTH_THE_SPAN = 1.01
"""A span that no better schedule has is worth so much of the makespan."""

_FEWEST_LISTS = 4
_STARTS = 3
_FEWEST_REPLAYS = 100
GROWN_FOLDED = 3 * GROWN
"""The same where ranks run several stages, which leaves more that could be next."""

_DIRECTIONS = 2
_BEAMS = 6
_NARROWEST = 32
"""States of a beam without which it is not worth its time."""

Score = tuple[Seconds, Seconds]
"""Makespan and span."""


@dataclass(frozen=True, slots=True)
class _Found:
    score: Score
    rows: Rows


def greedy(
    costs: Costs,
    micro_batches: int,
    caps: Sequence[int],
    *,
    split: bool = True,
    searched: int = SEARCHED,
    others: Iterable[Order] = (),
) -> Order:
    """The order with the least makespan found, and of those the least span.

    ``caps[d]`` micro-batches at most, once for each stage, are held on device d, from the start of
    F to the end of W (or B). ``split`` runs input and weight gradients apart. ``searched`` is the
    budget of the search in actions, 0 for none. ``others`` are compute orders that the answer must
    not be worse than, read only where it is not at its bound; those beyond memory, and with a split
    backward where ``split`` is false, do not count.

    Raises InputError where a device cannot hold one micro-batch of each of its stages.
    """
    place = shop(costs, micro_batches, caps, split=split)
    least = bounds(place)
    named = list(_replayed(place, _patterns(place)))
    found = [*named, *_replayed(place, _listed(place))]
    if not any(_reaches(place, each, least) for each in found):
        named += _replayed(place, _fitting(place, others))
    limits = (min(each.score[0] for each in named), min(each.score[1] for each in named))
    goal = Goal(place, limits)
    ranked = sorted([*found, *named], key=lambda each: goal.key(each.score))
    if searched:
        ranked = _grown(goal, ranked, least) + ranked
    replays = searched // place.actions
    best = _searched(goal, ranked, replays, least)
    shortest = min(each.score[0] for each in ranked)
    if best.score[0] > shortest * _WORTH_THE_SPAN:
        best = _searched(Goal(place, (limits[0], inf)), ranked, replays, least)
    return order_of(place, best.rows)


def _replayed(place: Shop, many: Iterable[Rows]) -> Iterator[_Found]:
    for rows in many:
        found = sweep(place, rows)
        if found is not None:
            yield _Found(found.score, rows)


def _reaches(place: Shop, found: _Found, least: Score) -> bool:
    """Whether nothing can be better in either measure."""
    near = place.rounding
    return all(score <= bound + near for score, bound in zip(found.score, least, strict=True))


def _listed(place: Shop) -> Iterator[Rows]:
    rules = list(RULES if place.split else WHOLE_RULES)
    if len(place.caps) < place.stages:
        # With several stages a device, what is left free for later ones matters.
        rules = [each for one in rules for each in (replace(one, strict=True), one)]
    count = max(_FEWEST_LISTS, LISTED // place.actions) if place.actions <= LONG else 1
    return (list_schedule(place, rule).rows for rule in rules[:count])


def _grown(goal: Goal, ranked: list[_Found], least: Score) -> list[_Found]:
    """What beams find that is shorter than the best so far, in both directions of time in turn."""
    place, best = goal.shop, ranked[0].score[0]
    is_folded = len(place.caps) < place.stages
    width = (GROWN_FOLDED if is_folded else GROWN) // place.actions
    turn = misses = 0
    if width < _NARROWEST:
        return []
    found: list[_Found] = []
    while turn < _BEAMS and misses < _DIRECTIONS and best > least[0] + place.rounding:
        limit = best - place.rounding
        rows = beam(place, width, mirrored=bool(turn % _DIRECTIONS), limit=limit)[:_STARTS]
        better = list(_replayed(place, rows))
        misses = 0 if better else misses + 1
        best = min([best, *(each.score[0] for each in better)])
        found += better
        turn += 1
    return sorted(found, key=lambda each: goal.key(each.score))[:_STARTS]


def _patterns(place: Shop) -> Iterator[Rows]:
    """The cheap ones that the answer is measured against; the first is there for any layout."""
    yield list_schedule(place, Rule(pending=1)).rows
    if place.layout == tuple(range(place.stages)):
        yield from (depth_rows(place, depths) for depths in _depths(place))


def _fitting(place: Shop, others: Iterable[Order]) -> Iterator[Rows]:
    for order in others:
        rows = rows_of(order, place)
        if sum(map(len, rows)) == place.actions and within_memory(place, rows):
            yield rows


def _depths(place: Shop) -> Iterator[tuple[int, ...]]:
    """1F1B, GeoPipe's extra warm-up and all that memory holds (GPipe where that is enough)."""
    straight = range(place.stages, 0, -1)
    wanted = [
        list(straight),
        [more + depth for more, depth in zip(_extra(place), straight, strict=True)],
    ]
    wanted.append([place.micro_batches] * place.stages)
    for depths in wanted:
        capped = (min(depth, cap) for depth, cap in zip(depths, place.caps, strict=True))
        yield tuple(accumulate(capped, min))


def _extra(place: Shop) -> list[int]:
    """By stage: forwards more than 1F1B that cover the round trips of all boundaries behind it."""
    extra = [0]
    for stage in range(place.stages - 2, -1, -1):
        code = KINDS * stage
        there, back = place.hops[code + FORWARD][1], place.hops[code + KINDS + BACKWARD][1]
        work = fsum(place.seconds[code : code + (KINDS if place.split else KINDS - 1)])
        extra.append(extra[-1] + forwards_in(there + back, work))
    return extra[::-1]


def _searched(goal: Goal, ranked: list[_Found], replays: int, least: Score) -> _Found:
    """The best of the starts once improved, first in makespan, then in span."""
    best = min(ranked, key=lambda each: goal.key(each.score))
    if replays < _FEWEST_REPLAYS:
        return best
    starts = {goal.key(start.score): start for start in reversed(ranked)}
    found = sweep(goal.shop, best.rows)
    assert found is not None, "it was replayed before"
    for turn, key in enumerate(sorted(starts)[:_STARTS]):
        if found.score[0] <= least[0] + goal.shop.rounding:
            break
        start = sweep(goal.shop, starts[key].rows)
        assert start is not None, "it was replayed before"
        given = replays // (_STARTS + 1 - turn)
        better, left = improve(goal, start, given, False, least[0])
        replays -= given - left
        found = min(found, better, key=lambda each: goal.key(each.score))
    last, _ = improve(goal, found, replays, True, least[1])
    return _Found(last.score, last.rows)
