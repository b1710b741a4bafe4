"""Local search on rows: swap two neighbours on the critical path, and never back at once.

Only a change on the chain of actions that makes the schedule as long as it is can shorten it, and
of that chain only two neighbours on one device can change places (Van Laarhoven, Aarts and Lenstra,
Job Shop Scheduling by Simulated Annealing, 1992). What a swap would lead to is estimated from the
longest chains before and after the two, which takes a few additions; the best is made, also where
it is worse, replayed exactly, and the way back forbidden for a while (Taillard, Parallel Taboo
Search Techniques for the Job Shop Scheduling Problem, 1994). The budget counts replays, not time,
so the same input gives the same rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from geotrain.planning.schedule.greedy_shop import (
    BACKWARD,
    FORWARD,
    KINDS,
    WEIGHT,
    Place,
    Shop,
    Sweep,
    sweep,
)
from geotrain.units import Seconds

_TENURE = 8
_VARIATION = 5
"""A swap is forbidden for 8 to 12 steps: a fixed tenure runs in circles of its own length."""

_REPLAYS_A_STEP = 2
"""A replay, and the chains, which take as long."""

_NO_CHAIN = float("-inf")

Key = tuple[int, int, int, int]
"""Above its limit: the first measure, the second; then both as they are. Less is better."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What is better: nothing above the limits, then the first measure, then the second.

    The limits are the least makespan and span of the schedules that must not be better. The
    makespan comes first, or the span.
    """

    shop: Shop
    limits: tuple[Seconds, Seconds]
    span_first: bool

    def key(self, found: Sweep) -> Key:
        """Of a replay; whole multiples of ``rounding``, so that equal sums are equal."""
        first = int(self.span_first)
        scores = [round(score / self.shop.rounding) for score in found.score]
        above = [
            max(0, score - round(limit / self.shop.rounding))
            for score, limit in zip(scores, self.limits, strict=True)
        ]
        return above[first], above[1 - first], scores[first], scores[1 - first]


def improve(
    goal: Goal, start: Sweep, replays: int, by_span: bool, enough: Seconds
) -> tuple[Sweep, int]:
    """The best schedule met in so many replays, or the first whose measure is ``enough``.

    And how many replays are left. ``by_span`` follows the device that takes longest, else the one
    that ends last.
    """
    search = _Search(goal, start, by_span, replays)
    while search.left > 0 and not search.is_enough(enough) and search.step():
        pass
    return search.best, search.left


_Swap = tuple[int, int, int, int]
"""Two codes and how many of each came before."""


class _Search:
    def __init__(self, goal: Goal, start: Sweep, by_span: bool, replays: int) -> None:
        self.goal, self.by_span, self.left = goal, by_span, replays
        self.now = self.best = start
        self.best_key = goal.key(start)
        self.forbidden: dict[_Swap, int] = {}
        self.steps = 0

    def is_enough(self, enough: Seconds) -> bool:
        return self.best.score[self.by_span] <= enough + self.goal.shop.rounding

    def step(self) -> bool:
        """Make the most promising swap that is allowed; False where there is none."""
        self.steps += 1
        chains, least = _Chains(self.now, self.by_span), self.best.score[self.by_span]
        swaps = sorted(
            (chains.estimate(device, index), device, index)
            for device, index in _neighbours(self.now, self.by_span)
        )
        for length, device, index in swaps:
            swap = _swap(self.now.rows[device], index)
            is_promising = length < least - self.goal.shop.rounding
            if is_promising or self.forbidden.get(swap, 0) <= self.steps:
                return self._make(device, index)
        return False

    def _make(self, device: int, index: int) -> bool:
        rows = list(self.now.rows)
        row = rows[device] = list(rows[device])
        row[index], row[index + 1] = row[index + 1], row[index]
        self.forbidden[_swap(row, index)] = self.steps + _TENURE + self.steps % _VARIATION
        found = sweep(self.goal.shop, rows)
        self.left -= _REPLAYS_A_STEP
        if found is None:
            self.forbidden[_swap(self.now.rows[device], index)] = self.steps + self.left
            return True
        self.now = found
        key = self.goal.key(found)
        if key < self.best_key:
            self.best, self.best_key = found, key
        return True


def _neighbours(found: Sweep, by_span: bool) -> Iterator[Place]:
    """The first of each two neighbours on the critical path that may change places."""
    for (device, index), after in pairwise(found.critical(by_span)):
        if after == (device, index + 1) and _may_swap(
            found.shop, found.rows[device], index, device
        ):
            yield device, index


def _may_swap(shop: Shop, row: list[int], index: int, device: int) -> bool:
    """Whether an action may come after the next one: they differ, it is not needed, and fits."""
    early, late = row[index], row[index + 1]
    release = WEIGHT if shop.split else BACKWARD
    if late == shop.targets[early] or (late % KINDS == WEIGHT and early == late - 1):
        before = row[:index]
        return before.count(early) > before.count(late)
    if late % KINDS == FORWARD and early % KINDS == release:
        kinds = [code % KINDS for code in row[:index]]
        return kinds.count(FORWARD) - kinds.count(release) < shop.caps[device]
    return early != late


def _swap(row: list[int], index: int) -> _Swap:
    early, late = row[index], row[index + 1]
    before = row[:index]
    return early, before.count(early), late, before.count(late)


class _Chains:
    """The longest chains from the end of each action to the end of the iteration.

    ``rest`` is the chain through the next action on the device, ``messages`` that through the
    action's message. By span each device's end counts from the device's begin.
    """

    def __init__(self, found: Sweep, by_span: bool) -> None:
        self.found = found
        self.rest = [[0.0] * len(row) for row in found.rows]
        self.messages = [[0.0] * len(row) for row in found.rows]
        shop = found.shop
        rest = [
            after - (found.begin(device) if by_span else 0.0)
            for device, after in enumerate(shop.after)
        ]
        through = [[0.0] * shop.micro_batches for _ in shop.seconds]
        left = [shop.micro_batches] * len(shop.seconds)
        waiting = [_NO_CHAIN] * len(shop.seconds)
        for device, begin, end in reversed(found.runs):
            row, after = found.rows[device], rest[device]
            for index in range(end - 1, begin - 1, -1):
                code, message = row[index], _NO_CHAIN
                left[code] -= 1
                target = shop.targets[code]
                if target >= 0:
                    spacing, takes = shop.hops[code]
                    link = shop.links[code]
                    message = max(takes + through[target][left[code]], spacing + waiting[link])
                    waiting[link] = message
                self.rest[device][index], self.messages[device][index] = after, message
                after = shop.seconds[code] + max(after, message)
                through[code][left[code]] = after
            rest[device] = after

    def estimate(self, device: int, index: int) -> Seconds:
        """The longest chain through an action and the next one, once they are swapped."""
        found, row = self.found, self.found.rows[device]
        early, late = row[index], row[index + 1]
        before = row[:index]
        seconds, arrived = found.shop.seconds, found.arrived
        free = found.ends[device][index - 1] if index else 0.0
        first = max(free, arrived[late][before.count(late)]) + seconds[late]
        second = max(first, arrived[early][before.count(early)]) + seconds[early]
        messages = self.messages[device]
        rest = max(self.rest[device][index + 1], messages[index])
        return max(second + rest, first + messages[index + 1])
