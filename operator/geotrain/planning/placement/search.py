"""The search: every placement at every degree under every order of the policy, or why not.

Four steps, each of which leaves out only what a bound says cannot win:

1. **Routes.** Branch and bound, the least bound first: routes grow by a data centre at a time,
   complete ones are split, and each split is judged by a pattern or two. It begins with the rule's
   placements.
2. **Neighbours.** Where there was too much to look at, the best goes on to its best neighbour.
3. **Orders.** All patterns and the quick orders that are made action by action, on the placements
   whose patterns are best.
4. **Greedy**, which takes longest, on those whose orders are best.

Budgets count work, never time, so equal input gives an equal answer. What a budget left out is
remembered by its bound: the best is at most so much worse than the least of these.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from geotrain.model.plan import Placement
from geotrain.planning.placement import trials
from geotrain.planning.placement.branching import NOTHING, Branching
from geotrain.planning.placement.candidates import neighbours
from geotrain.planning.placement.contenders import ROUNDING, Candidate, Contenders
from geotrain.planning.placement.costing import Score
from geotrain.planning.placement.runner import Runner
from geotrain.planning.schedule.compiled import Engine
from geotrain.units import Seconds

_PATTERN_WORTH: Final = 6
"""Actions' worth of an action of a pattern, which is swept until it repeats."""
_GREEDY_WORTH: Final = 600_000, 700
"""Actions' worth of Greedy: of each run, and besides of each action."""

_CLEARLY: Final = 0.99
"""A neighbour has to be one per cent better."""
_NEAR: Final = 1.005
"""Where a long iteration is so near to its bound, Greedy is not asked."""
_LONG: Final = 10_000
"""Actions of a replica from which an iteration is long."""


@dataclass(frozen=True, slots=True)
class _Screened:
    """A candidate with the score of the best order so far."""

    score: Score
    number: int
    candidate: Candidate


@dataclass(slots=True)
class Search:
    """One search.

    ``patterns`` is the best score of a pattern, whether the policy allows it or not.
    """

    branching: Branching
    contenders: Contenders
    engine: Engine
    patterns: Score = NOTHING
    _screened: list[_Screened] = field(default_factory=list)

    def run(self, placements: Iterable[Placement]) -> None:
        """All steps; ``placements`` are where the first one begins."""
        for candidate in self.branching.candidates(placements):
            self._screen(candidate)
        if not self.branching.space.fixed:
            for candidate in self.branching.all(self._is_out):
                self._screen(candidate)
        if self._screened and not self.branching.is_complete:
            self._improve()
        self._replay_all()
        self._make_greedy()

    @property
    def loss(self) -> float | None:
        """How much worse the best may be than the best of all, as a share; None: nobody knows."""
        best = self.contenders.best
        assert best is not None, "only what was found can be worse than something"
        for value, least in zip(best.score, self.branching.floor, strict=True):
            if value or least:  # without prices Cost compares times
                loss = value / least - 1 if least else None
                return 0.0 if loss is not None and loss <= ROUNDING else loss
        return 0.0

    @property
    def replayed(self) -> int:
        """Placements of which some order was replayed."""
        return len(self._screened)

    # Routes

    def _is_out(self, rank: Score) -> bool:
        """Whether a pattern is better than this can be."""
        return self.contenders.is_worse(rank, self.patterns)

    def _screen(self, candidate: Candidate) -> None:
        """Judge a placement by a pattern or two, which are contenders where the policy has them."""
        if self._is_out(candidate.at_best):
            self.branching.leave_out(candidate.at_best)
            self._lose(candidate)
            return
        rank = self._by_patterns(candidate)
        self.patterns = min(self.patterns, rank)
        self._screened.append(_Screened(rank, len(self._screened), candidate))

    def _by_patterns(self, candidate: Candidate) -> Score:
        """The score of the placement's best pattern, or its bound where that is beaten."""
        workload, count = self.contenders.workload, candidate.micro_batches
        at_best = self.contenders.score(candidate, candidate.bound)
        if self._is_out(at_best):
            return at_best
        runner = Runner(self.engine, candidate.costs, candidate.placement.data)
        rank = NOTHING
        for _, depths in trials.few(candidate.costs, workload, count, candidate.room):
            self.branching.work += _PATTERN_WORTH * len(depths) * min(count, 4 * len(depths))
            period = runner.pattern(depths, count, exact=False)
            found = self.contenders.score(candidate, period)
            if runner.has_turns and found < min(rank, self.patterns):
                period = runner.pattern(depths, count, exact=True)
                found = self.contenders.score(candidate, period)
            rank = min(rank, found)
        return rank

    # Neighbours

    def _improve(self) -> None:
        """Go from the best placement to its best neighbour, as long as that is clearly better."""
        while True:
            centre = min(self._screened, key=_rank)
            near = neighbours(self.branching.space, centre.candidate.placement)
            for candidate in self.branching.candidates(near):
                self._screen(candidate)
            best = min(self._screened, key=_rank)
            if best is centre or best.score[0] > centre.score[0] * _CLEARLY:
                return

    # Orders

    def _replay_all(self) -> None:
        """Replay patterns and make the quick orders, where patterns are best first."""
        spent = 0
        for each in sorted(self._screened, key=_rank):
            candidate = each.candidate
            if self.contenders.is_beaten(candidate.at_best):
                self._lose(candidate)
            elif spent and spent + candidate.actions > self.branching.budget.made:
                self.branching.leave_out(candidate.at_best)
            else:
                spent += candidate.actions
                self._replay(candidate)

    def _replay(self, candidate: Candidate) -> None:
        workload = self.contenders.workload
        if workload.schedule not in trials.MAKING or workload.schedule == "Auto":
            self._replay_patterns(candidate)
        if not self._makes(candidate):
            self.branching.leave_out(candidate.at_best)
            return
        for name in trials.quick(workload.schedule, candidate.costs):
            if not self.contenders.is_beaten(candidate.at_best):
                self._make(name, candidate)

    def _makes(self, candidate: Candidate) -> bool:
        """Whether orders are made action by action: Auto leaves them out where that is long."""
        schedule = self.contenders.workload.schedule
        return schedule != "Auto" or candidate.actions <= trials.MOST_ACTIONS_MADE

    def _replay_patterns(self, candidate: Candidate) -> None:
        """Replay a candidate's patterns as long as one may still be the best."""
        contenders = self.contenders
        if contenders.is_beaten(contenders.score(candidate, candidate.bound)):
            return
        runner = self._runner(candidate)
        tried = trials.patterned(
            candidate.costs, contenders.workload, candidate.micro_batches, candidate.room
        )
        possible = contenders.possible(candidate, tried)
        for rank, trial, period in self._ranked(candidate, runner, possible):
            if contenders.is_beaten(rank):
                how = "at best " if runner.has_turns else ""
                contenders.lose(rank, candidate, trial.name, period, how)
            else:
                contenders.add(candidate, trial, runner.exact(trial))
                self.patterns = min(self.patterns, contenders.reached[candidate.placement])

    def _ranked(
        self, candidate: Candidate, runner: Runner, possible: Iterator[trials.Trial]
    ) -> Iterator[tuple[Score, trials.Trial, Seconds]]:
        """Patterns by the period of one replica; a long iteration's until one is near the bound."""
        contenders = self.contenders
        if trials.is_long(candidate.placement.stages, candidate.micro_batches):
            while not self._is_near(candidate) and (trial := next(possible, None)) is not None:
                period = runner.representative(trial)
                yield contenders.score(candidate, period), trial, period
            return
        ranked: list[tuple[Score, int, trials.Trial, Seconds]] = []
        for trial in possible:
            period = runner.representative(trial)
            ranked.append((contenders.score(candidate, period), len(ranked), trial, period))
        for rank, _, trial, period in sorted(ranked, key=lambda entry: entry[:2]):
            yield rank, trial, period

    def _make(self, name: str, candidate: Candidate) -> None:
        made = trials.made(
            name,
            candidate.costs,
            self.contenders.workload,
            candidate.micro_batches,
            candidate.room,
        )
        runner = self._runner(candidate)
        for trial in self.contenders.possible(candidate, made):
            self.contenders.add(candidate, trial, runner.exact(trial))

    # Greedy

    def _make_greedy(self) -> None:
        """Ask Greedy, where orders are best first; Auto as long as that may be worth it."""
        if self.contenders.workload.schedule not in ("Auto", "Greedy"):
            return
        spent = 0
        for candidate in self._by_orders():
            each, more = _GREEDY_WORTH
            worth = each + more * candidate.actions
            if self.contenders.is_beaten(candidate.at_best):
                continue
            if (
                not self._makes(candidate)
                or self._is_near(candidate)
                or (spent and spent + worth > self.branching.budget.greedy)
            ):
                self.branching.leave_out(candidate.at_best)
            else:
                spent += worth
                self._make("greedy", candidate)

    def _by_orders(self) -> list[Candidate]:
        """The candidates by the best order of each so far; of equal ones as patterns have them."""
        reached = self.contenders.reached
        ranked = [each.candidate for each in sorted(self._screened, key=_rank)]
        of = {each.candidate.placement: each.score for each in self._screened}
        return sorted(ranked, key=lambda c: min(of[c.placement], reached.get(c.placement, NOTHING)))

    def _is_near(self, candidate: Candidate) -> bool:
        best = self.contenders.best
        is_long = candidate.actions > _LONG
        return is_long and best is not None and best.score[0] <= candidate.at_best[0] * _NEAR

    def _lose(self, candidate: Candidate) -> None:
        self.contenders.lose(candidate.at_best, candidate, "", candidate.least, "at best ")

    def _runner(self, candidate: Candidate) -> Runner:
        return Runner(self.engine, candidate.costs, candidate.placement.data)


def _rank(each: _Screened) -> tuple[Score, int]:
    return each.score, each.number
