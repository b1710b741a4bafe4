"""The optimum beside what was given, beside the best of each axis alone, and of each pair.

``speedup`` of a layout is the given layout's time by its own. If two axes were independent, the
speedup of both would be the product of each one's; what is beyond the product is their
*interaction*, and only a joint search finds it.
"""

from dataclasses import dataclass
from itertools import combinations

from geotrain.planning.explore.layouts import DEGREES, KNOBS, Factors, Knob, Layout, factors
from geotrain.planning.explore.search import Allowance, Explorer, Found, whole_space
from geotrain.planning.explore.steps import Problem

KEPT = 5
"""Layouts that the report lists."""


@dataclass(frozen=True, slots=True)
class Turned:
    """The best layout that differs from the given one in these knobs only.

    ``found`` is None where none of them fits into memory. ``interaction`` is the speedup beyond
    the product of the single knobs' (1: none).
    """

    knobs: tuple[Knob, ...]
    found: Found | None
    interaction: float = 1.0


@dataclass(frozen=True, slots=True)
class Report:
    """What a search found. ``complete`` is False where it was stopped before it was done.

    ``best`` lists layouts from the fastest on; it is empty where nothing fits. ``singles`` has
    each knob, ``degrees`` all degrees at once, ``pairs`` every two knobs that gain something,
    the greatest speedup first.
    """

    problem: Problem
    given: Found
    best: tuple[Found, ...]
    singles: tuple[Turned, ...]
    degrees: Turned
    pairs: tuple[Turned, ...]
    complete: bool
    steps: int
    replays: int

    @property
    def given_fits(self) -> bool:
        """Whether the given layout fits into memory."""
        return self.given.memory <= self.problem.device.memory

    @property
    def best_single(self) -> Turned | None:
        """The axis that gains most alone; None where no single change fits into memory."""
        fitting = [each for each in self.singles if each.found is not None]
        return min(fitting, key=_seconds, default=None)

    def speedup(self, found: Found) -> float:
        """The given layout's time by this one's."""
        return self.given.seconds / found.seconds

    def table(self, layout: Layout) -> Factors:
        """Which axis crosses which tier, and how often."""
        return factors(self.problem.network, layout.degrees, layout.placement)


def _seconds(turned: Turned) -> float:
    assert turned.found is not None
    return turned.found.seconds


def explore(
    problem: Problem, given: Layout, allowance: Allowance | None = None, *, keep: int = KEPT
) -> Report:
    """Search. Raises InputError where the given layout cannot run on the network at all.

    With a rest of the allowance that is too small for everything, axes alone come first, then all
    at once, then pairs; what was found until then is never worse than what came before.
    """
    allowance = allowance or Allowance()
    explorer = Explorer(problem, given)
    space = whole_space(problem, given)

    def turn(*knobs: Knob) -> Turned:
        found = explorer.best(space.only(given, knobs), allowance)
        return Turned(knobs, found[0] if found else None)

    reference = explorer.evaluate(given)
    singles = tuple(turn(knob) for knob in KNOBS)
    degrees = turn(*DEGREES)
    seeds = [reference] if reference.memory <= problem.device.memory else []
    seeds += [each.found for each in (*singles, degrees) if each.found is not None]
    best = explorer.best(space, allowance, seeds, keep)
    alone = {each.knobs[0]: each for each in singles}
    pairs = []
    for one, other in combinations(KNOBS, 2):
        both = turn(one, other)
        if both.found is not None:
            apart = _speedup(reference, alone[one]) * _speedup(reference, alone[other])
            together = reference.seconds / both.found.seconds
            pairs.append(Turned((one, other), both.found, together / apart))
    best = explorer.best(space, allowance, [*best, *(p.found for p in pairs if p.found)], keep)
    return Report(
        problem,
        reference,
        best,
        singles,
        degrees,
        tuple(sorted(pairs, key=_seconds)),
        not allowance.ended,
        allowance.spent,
        explorer.replays,
    )


def _speedup(given: Found, turned: Turned) -> float:
    return 1.0 if turned.found is None else given.seconds / turned.found.seconds
