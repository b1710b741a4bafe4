"""Branch and bound over all placements of a job, the least bound first.

A branch is a route with all that it may grow to; a route that has room for all stages is also
split, one split at a time. Whoever asks for placements says which bounds are out, and may be
stricter from one placement to the next.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final

from geotrain.model.plan import Placement
from geotrain.model.topology import Topology
from geotrain.planning.placement import trials
from geotrain.planning.placement.bounds import Bounds
from geotrain.planning.placement.contenders import Candidate, Contenders
from geotrain.planning.placement.costing import Score
from geotrain.planning.placement.space import Route, Segments, Space

NOTHING: Final[Score] = (inf, inf)

_ROUTE_WORTH: Final = 60
"""Actions' worth of a route's bound."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How much a search may do, so that it ends in some seconds; counted in actions, never in time.

    ``judged``: actions' worth of bounds and patterns, a second or so. ``made``: actions of all
    placements that quick orders are made for, two seconds. ``greedy``: actions' worth of Greedy,
    four seconds.
    """

    judged: int = 3_000_000
    made: int = 20_000
    greedy: int = 12_000_000


USUAL: Final = Budget()


@dataclass(frozen=True, slots=True)
class _Branch:
    """Routes that begin like this one, or with ``splits`` what is left of its own."""

    route: Route
    data: int
    splits: Iterator[Segments] | None = None


@dataclass(slots=True)
class Branching:
    """Candidates of a space. ``work`` counts what was done, in actions of a replay.

    ``floor`` is the least bound of what was left out; ``is_complete`` tells whether that was out,
    or too much to look at.
    """

    space: Space
    bounds: Bounds
    contenders: Contenders
    budget: Budget = USUAL
    work: int = 0
    floor: Score = NOTHING
    is_complete: bool = True
    _seen: set[Placement] = field(default_factory=set)

    @classmethod
    def of(cls, topology: Topology, contenders: Contenders, budget: Budget = USUAL) -> "Branching":
        """All placements of the contenders' job."""
        workload = contenders.workload
        space = Space(topology, workload)
        is_split = workload.schedule in trials.MAKING
        bounds = Bounds(topology, space, contenders.costing, is_split=is_split)
        return cls(space, bounds, contenders, budget)

    def candidates(self, placements: Iterable[Placement]) -> list[Candidate]:
        """Those that are new and that memory allows, the least bound first."""
        found = []
        for placement in placements:
            if placement not in self._seen:
                self._seen.add(placement)
                self.work += placement.stages * self.bounds.worth_of_stage
                candidate = self.contenders.candidate(placement)
                if candidate is not None:
                    found.append(candidate)
        return sorted(found, key=lambda each: each.at_best)

    def leave_out(self, at_best: Score) -> None:
        """Remember the bound of what will not be looked at."""
        self.floor = min(self.floor, at_best)

    def all(self, is_out: Callable[[Score], bool]) -> Iterator[Candidate]:
        """Every candidate whose bound is not out, as long as there is work left to do."""
        heap: list[tuple[Score, int, _Branch | Candidate]] = [
            (self.bounds.grown((), data), number, _Branch((), data))
            for number, data in enumerate(self.space.degrees)
        ]
        number = len(heap)
        heapify(heap)
        while heap:
            at_best, _, item = heappop(heap)
            if at_best == NOTHING:
                return
            if is_out(at_best):
                self.leave_out(at_best)
            elif self.work > self.budget.judged:
                self.leave_out(at_best)
                self.is_complete = False
                return
            elif isinstance(item, Candidate):
                yield item
            else:
                for least, more in self._parts(at_best, item):
                    heappush(heap, (least, number, more))
                    number += 1

    def _parts(
        self, at_best: Score, branch: _Branch
    ) -> Iterator[tuple[Score, _Branch | Candidate]]:
        """What a branch consists of, each with its bound; of splits the next one and the rest."""
        route, data = branch.route, branch.data
        if branch.splits is not None:
            segments = next(branch.splits, None)
            if segments is not None:
                for candidate in self.candidates([Placement(segments, data)]):
                    yield max(at_best, candidate.at_best), candidate
                yield at_best, branch
            return
        self.work += _ROUTE_WORTH
        if self.space.is_enough(route, data):
            least = max(at_best, self.bounds.route(route, data))
            yield least, _Branch(route, data, self.space.splits(route, data))
        for longer in self.space.longer(route, data):
            self.work += _ROUTE_WORTH
            yield max(at_best, self.bounds.grown(longer, data)), _Branch(longer, data)
