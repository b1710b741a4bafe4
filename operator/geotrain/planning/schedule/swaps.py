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

from geotrain.planning.schedule.shop import BACKWARD, FORWARD, KINDS, WEIGHT, Shop, Sweep, sweep
from geotrain.units import Seconds

_TENURE = 8
_VARIATION = 5
"""A swap is forbidden for 8 to 12 steps: a fixed tenure runs in circles of its own length."""

_REPLAYS_A_STEP = 2
"""A replay, and the chains, which take as long."""

_NO_CHAIN = float("-inf")

Key = tuple[int, int, int, int]
"""By how much makespan and span are above their limits; then both as they are. Less is better."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What is better: nothing above the limits, then the makespan, then the span.

    The limits are the least makespan and span of the schedules that must not be better.
    """

    shop: Shop
    limits: tuple[Seconds, Seconds]

    def key(self, score: tuple[Seconds, Seconds]) -> Key:
        """Of makespan and span; whole multiples of ``rounding``, so that equal sums are equal."""
        unit = self.shop.rounding
        makespan, span = (round(each / unit) for each in score)
        longest, widest = (
            round(min(limit, each) / unit) for limit, each in zip(self.limits, score, strict=True)
        )
        return makespan - longest, span - widest, makespan, span


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
        self.best_key = goal.key(start.score)
        self.forbidden: dict[_Swap, int] = {}
        self.steps = 0

    def is_enough(self, enough: Seconds) -> bool:
        return self.best.score[self.by_span] <= enough + self.goal.shop.rounding

    def step(self) -> bool:
        """Make the most promising swap that is allowed; False where there is none."""
        self.steps += 1
        now, least = self.now, self.best.score[self.by_span]
        chains = _Chains(now, self.by_span)
        swaps = sorted(
            (chains.estimate(early, late), now.shop.devices[now.steps[2][early]], early, late)
            for early, late in _neighbours(now, self.by_span)
        )
        for length, _, early, late in swaps:
            is_promising = length < least - self.goal.shop.rounding
            if is_promising or self.forbidden.get(_swap(now, early, late), 0) <= self.steps:
                self._make(early, late)
                return True
        return False

    def _make(self, early: int, late: int) -> None:
        now, rows = self.now, list(self.now.rows)
        device = now.shop.devices[now.steps[2][early]]
        index = now.at[device].index(early)
        row = rows[device] = list(rows[device])
        row[index], row[index + 1] = row[index + 1], row[index]
        back = self.steps + _TENURE + self.steps % _VARIATION
        self.forbidden[_swap(now, late, early)] = back
        found = sweep(self.goal.shop, rows)
        self.left -= _REPLAYS_A_STEP
        if found is None:
            self.forbidden[_swap(now, early, late)] = self.steps + self.left
            return
        self.now = found
        key = self.goal.key(found.score)
        if key < self.best_key:
            self.best, self.best_key = found, key


def _neighbours(found: Sweep, by_span: bool) -> Iterator[tuple[int, int]]:
    """Two steps that follow each other on the critical path and may change places."""
    befores = found.steps[0]
    for early, late in pairwise(found.critical(by_span)):
        if befores[late] == early and _may_swap(found, early, late):
            yield early, late


def _may_swap(found: Sweep, early: int, late: int) -> bool:
    """Whether an action may come after the next one: they differ, it is not needed, and fits."""
    shop, codes = found.shop, found.steps[2]
    one, other = codes[early], codes[late]
    release = WEIGHT if shop.split else BACKWARD
    if other == shop.targets[one] or (other % KINDS == WEIGHT and one == other - 1):
        return found.numbers[early] > found.numbers[late]
    if other % KINDS == FORWARD and one % KINDS == release:
        device = shop.devices[one]
        before = found.rows[device][: found.at[device].index(early)]
        kinds = [code % KINDS for code in before]
        return kinds.count(FORWARD) - kinds.count(release) < shop.caps[device]
    return one != other


def _swap(found: Sweep, early: int, late: int) -> _Swap:
    codes, numbers = found.steps[2], found.numbers
    return codes[early], numbers[early], codes[late], numbers[late]


class _Chains:
    """The longest chains from the end of each step to the end of the iteration.

    ``rest`` is the chain through the next action on the device, ``messages`` that through the
    action's message. By span each device's end counts from the device's begin.
    """

    def __init__(self, found: Sweep, by_span: bool) -> None:
        self.found = found
        shop, (_, needs, codes) = found.shop, found.steps
        count, seconds = len(codes), shop.seconds
        self.rest, self.messages = [0.0] * count, [_NO_CHAIN] * count
        through = [_NO_CHAIN] * (count + len(found.rows) + 1)
        waiting = [_NO_CHAIN] * len(seconds)
        rest = [
            after - (found.begin(device) if by_span else 0.0)
            for device, after in enumerate(shop.after)
        ]
        for step in range(count - 1, -1, -1):
            code = codes[step]
            device, message = shop.devices[code], _NO_CHAIN
            after = rest[device]
            if shop.targets[code] >= 0:
                spacing, takes = shop.hops[code]
                link = shop.links[code]
                message = max(takes + through[step], spacing + waiting[link])
                waiting[link] = message
            self.rest[step], self.messages[step] = after, message
            rest[device] = through[needs[step]] = seconds[code] + max(after, message)

    def estimate(self, early: int, late: int) -> Seconds:
        """The longest chain through an action and the next one, once they are swapped."""
        found, (befores, needs, codes) = self.found, self.found.steps
        seconds, ends = found.shop.seconds, found.ends
        before = befores[early]
        free = ends[before] if before < len(codes) else 0.0
        first = max(free, found.sent[needs[late]]) + seconds[codes[late]]
        second = max(first, found.sent[needs[early]]) + seconds[codes[early]]
        rest = max(self.rest[late], self.messages[early])
        return max(second + rest, first + self.messages[late])
