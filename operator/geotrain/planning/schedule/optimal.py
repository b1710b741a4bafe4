"""``Optimal``: the least makespan with its proof, for small cases, by constraint programming.

The problem is that of ``shop`` in whole ticks, with no order decided in advance except that
micro-batches follow each other:

* an action begins after what it needs has arrived, and W after its I;
* actions of a device do not overlap, nor do messages of a link;
* a device never holds more than its cap, from the start of F to the end of W (or B). What takes
  no time at all holds nothing here, so with such stages the bound may be below every order.

Times become ticks by their greatest common divisor. Where that would make more than ``MOST_TICKS``
of an iteration they are rounded down, so that the bound stays a bound. The answer is replayed
exactly, and is never worse than ``Greedy``'s, from which the solver starts.

The solver is CP-SAT of OR-Tools (Perron and Didier, developers.google.com/optimization), an extra:
``pip install geotrain[optimal]``. It runs on one core with a fixed seed and a budget of its own
deterministic time, so the same input gives the same answer.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from geotrain.errors import InputError
from geotrain.model.plan import Order
from geotrain.planning.schedule.costs import Costs
from geotrain.planning.schedule.greedy import greedy
from geotrain.planning.schedule.shop import (
    BACKWARD,
    KINDS,
    WEIGHT,
    Rows,
    Shop,
    Sweep,
    bounds,
    order_of,
    rows_of,
    shop,
    sweep,
    within_memory,
)
from geotrain.units import Seconds

MOST_TICKS = 10**9
"""Ticks of an iteration beyond which times are rounded."""

MOST_ACTIONS = 2_000
"""Actions beyond which there is no hope of a proof."""

EFFORT = 30.0
"""The solver's deterministic time, of the order of seconds."""

_PER_SECOND = 10**12


@dataclass(frozen=True, slots=True)
class Ticks:
    """The problem in whole ticks. Every list is of numbers of things that begin.

    ``lengths[i]`` is how long thing i takes: first the actions, micro-batches of code 0, then those
    of code 1, …, then messages, which occupy their link so long. ``after``: (i, j, gap) says that
    j begins at least ``gap`` after i begins. ``alone``: sets of things that do not overlap.
    ``held``: for each device its cap and by stage its (F, W) pairs in turn, held from the one's
    begin to the other's end. ``ends``: (i, gap): the iteration ends at least ``gap`` after i
    begins. ``latest`` is when it ends at the latest.
    """

    actions: int
    lengths: tuple[int, ...]
    after: tuple[tuple[int, int, int], ...]
    alone: tuple[tuple[int, ...], ...]
    held: tuple[tuple[int, tuple[tuple[tuple[int, int], ...], ...]], ...]
    ends: tuple[tuple[int, int], ...]
    latest: int


@dataclass(frozen=True, slots=True)
class Solution:
    """What a solver says: when each thing begins, and what no solution can be shorter than.

    ``begins`` is None where it found nothing better than what it was given.
    """

    begins: tuple[int, ...] | None
    bound: int


Solve = Callable[[Ticks, Sequence[int], float], Solution]
"""Of a problem, a solution to start from, and the effort."""


@dataclass(frozen=True, slots=True)
class Optimum:
    """The best order found. ``bound``: no order is shorter; ``is_proven``: they are equal."""

    order: Order
    makespan: Seconds
    bound: Seconds

    @property
    def is_proven(self) -> bool:
        """Whether nothing is shorter, but for the rounding of times to ticks."""
        return self.makespan <= self.bound * (1 + 1e-6)


def optimal(
    costs: Costs,
    micro_batches: int,
    caps: Sequence[int],
    *,
    split: bool = True,
    effort: float = EFFORT,
    solve: Solve | None = None,
) -> Optimum:
    """The least makespan, as ``greedy`` measures it, or the best found with ``effort``.

    Raises InputError where the case is too large or cannot run, or OR-Tools is not installed.
    """
    stages, kinds = len(costs.stages), 3 if split else 2
    if stages * micro_batches * kinds > MOST_ACTIONS:
        raise InputError(
            f"{stages * micro_batches * kinds} actions are too many for a proof, at most "
            f"{MOST_ACTIONS}; use greedy"
        )
    start = greedy(costs, micro_batches, caps, split=split)
    place = shop(costs, micro_batches, caps, split=split)
    best = sweep(place, rows_of(start, place))
    assert best is not None, "greedy's order runs"
    least = bounds(place)[0]
    if best.makespan <= least + place.rounding:
        return Optimum(start, best.makespan, best.makespan)
    tick = _tick(place, best.makespan)
    problem = ticks(place, best, tick)
    found = (solve or _cp_sat())(problem, begins_of(best, tick), effort)
    if found.begins is not None:
        better = _replayed(place, problem, found.begins)
        best = min((each for each in (better, best) if each), key=lambda each: each.makespan)
    bound = min(best.makespan, max(least, found.bound * tick))
    return Optimum(order_of(place, best.rows), best.makespan, bound)


def _cp_sat() -> Solve:
    try:
        from geotrain.planning.schedule.optimal_solver import cp_sat
    except ImportError as error:
        raise InputError(
            "the optimum needs OR-Tools, which is not installed: pip install geotrain[optimal]"
        ) from error
    return cp_sat


def _tick(place: Shop, makespan: Seconds) -> Seconds:
    times = [round(time * _PER_SECOND) for time in (*place.seconds, *place.after)]
    times += [round(time * _PER_SECOND) for hop in place.hops for time in hop]
    divisor = reduce(math.gcd, times) or _PER_SECOND
    return max(divisor / _PER_SECOND, makespan / MOST_TICKS)


def _whole(time: Seconds, tick: Seconds) -> int:
    """So many ticks, rounded down unless it is nothing but a float's last digits."""
    return math.floor(time / tick + 1e-3)


def ticks(place: Shop, best: Sweep, tick: Seconds) -> Ticks:
    """The problem of a shop in which ``best`` is the best so far."""
    count = place.micro_batches
    codes = _codes(place)
    first = {code: count * turn for turn, code in enumerate(codes)}
    takes = [_whole(time, tick) for time in place.seconds]
    lengths = [takes[code] for code in codes for _ in range(count)]
    after = [pair for code in codes for pair in _in_turn(first[code], count, takes[code])]
    for code in codes if place.split else ():
        if code % KINDS == BACKWARD:
            after += _one_by_one(first[code], first[code + 1], count, takes[code])
    links: dict[int, list[int]] = {}
    for code in _senders(place):
        spacing, arrives = (_whole(time, tick) for time in place.hops[code])
        sent = len(lengths)
        lengths += [spacing] * count
        links.setdefault(place.links[code], []).extend(range(sent, sent + count))
        after += _in_turn(sent, count, spacing)
        after += _one_by_one(first[code], sent, count, takes[code])
        after += _one_by_one(sent, first[place.targets[code]], count, arrives)
    held = []
    for device, cap in enumerate(place.caps):
        starts = [KINDS * stage for stage in place.members[device]]
        pairs = [(first[code], first[code + _release(place)]) for code in starts]
        held.append((cap, tuple(tuple((f + k, w + k) for k in range(count)) for f, w in pairs)))
    devices = [
        tuple(
            first[code] + k for code in codes if place.devices[code] == device for k in range(count)
        )
        for device in range(len(place.caps))
    ]
    return Ticks(
        actions=count * len(codes),
        lengths=tuple(lengths),
        after=tuple(after),
        alone=(*devices, *map(tuple, links.values())),
        held=tuple(held),
        ends=tuple(
            (first[code] + count - 1, takes[code] + _whole(place.after[place.devices[code]], tick))
            for code in codes
        ),
        latest=math.ceil(best.makespan / tick) + 1,
    )


def _release(place: Shop) -> int:
    return WEIGHT if place.split else BACKWARD


def _codes(place: Shop) -> list[int]:
    return [c for c in range(len(place.seconds)) if place.split or c % KINDS != WEIGHT]


def _senders(place: Shop) -> list[int]:
    return [code for code in _codes(place) if place.targets[code] >= 0]


def _in_turn(first: int, count: int, length: int) -> Iterator[tuple[int, int, int]]:
    """Micro-batches follow each other."""
    return ((k - 1, k, length) for k in range(first + 1, first + count))


def _one_by_one(one: int, other: int, count: int, gap: int) -> Iterator[tuple[int, int, int]]:
    """The k-th of the one before the k-th of the other."""
    return ((one + k, other + k, gap) for k in range(count))


def begins_of(found: Sweep, tick: Seconds) -> tuple[int, ...]:
    """When everything begins in a replay: the actions, then the messages."""
    place, begins = found.shop, []
    steps: dict[int, list[int]] = {code: [] for code in _codes(place)}
    for step, code in enumerate(found.steps[2]):
        steps[code].append(step)
    for code in _codes(place):
        begins += [found.ends[step] - place.seconds[code] for step in steps[code]]
    for code in _senders(place):
        begins += [found.sent[step] - place.hops[code][1] for step in steps[code]]
    return tuple(_whole(begin, tick) for begin in begins)


def _replayed(place: Shop, problem: Ticks, begins: Sequence[int]) -> Sweep | None:
    """An exact replay of the order in which a solution begins its actions."""
    codes = _codes(place)
    rows: Rows = []
    for device in problem.alone[: len(place.caps)]:
        # What takes no time comes before what begins at once and takes some; among equals the
        # micro-batch that is further on, whose W makes room.
        in_turn = sorted(
            (begins[i], begins[i] + problem.lengths[i], i % place.micro_batches, i) for i in device
        )
        rows.append([codes[i // place.micro_batches] for *_, i in in_turn])
    return sweep(place, rows) if within_memory(place, rows) else None
