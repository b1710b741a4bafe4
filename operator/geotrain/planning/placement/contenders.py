"""What a search has replayed: the best, what lost to it and why, and what is impossible."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from math import isclose
from typing import Final

from geotrain.model.decision import NoPlan, Reason
from geotrain.model.plan import Alternative, Placement
from geotrain.model.workload import Workload
from geotrain.planning.placement import losing, trials
from geotrain.planning.placement.bounds import bound
from geotrain.planning.placement.costing import Costing, Score
from geotrain.planning.placement.robust import Jitter
from geotrain.planning.placement.space import Segments
from geotrain.planning.schedule.costs import Costs
from geotrain.units import Seconds, format_bytes

ROUNDING: Final = 1e-9
"""Scores that are as near to each other are equal."""

_MOST_JITTERED: Final = 12
"""Plans, the best without jitter first, that are replayed with it."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A placement with its costs, the micro-batches of a replica, and the room for them.

    No pattern has a shorter iteration than ``bound``, no order that the policy allows than
    ``least``, whose score is ``at_best``.
    """

    placement: Placement
    micro_batches: int
    costs: Costs
    room: tuple[int, ...]
    bound: Seconds
    least: Seconds
    at_best: Score

    @property
    def actions(self) -> int:
        """Forwards, input and weight gradients of one replica."""
        return 3 * self.placement.stages * self.micro_batches


@dataclass(frozen=True, slots=True)
class Replayed:
    """An order of a candidate with its exact period."""

    candidate: Candidate
    trial: trials.Trial
    period: Seconds
    score: Score


@dataclass(frozen=True, slots=True)
class _Lost:
    """``how`` begins the sentence why; ``than`` is what it lost to, None: the best plan."""

    rank: Score
    alternative: Alternative
    how: str
    than: Score | None


@dataclass(slots=True)
class Contenders:
    """The best replays, one or with jitter some, the best first; the losers; the impossible.

    ``reached`` is the best score of each placement.
    """

    workload: Workload
    costing: Costing
    jitter: Jitter | None = None
    ranked: list[Replayed] = field(default_factory=list)
    reached: dict[Placement, Score] = field(default_factory=dict)
    reasons: list[Reason] = field(default_factory=list)
    _lost: list[_Lost] = field(default_factory=list)
    _impossible: dict[tuple[Segments, int, str], Alternative] = field(default_factory=dict)

    @property
    def best(self) -> Replayed | None:
        """The best so far."""
        return self.ranked[0] if self.ranked else None

    def candidate(self, placement: Placement) -> Candidate | None:
        """A placement with its costs; None, with the reason kept, where memory does not hold it."""
        workload = self.workload
        costs = self.costing.costs(placement)
        count = workload.micro_batches(placement.data)
        room = trials.caps(costs, workload, count)
        if min(room) < 1:
            self._no_room(placement, costs, room)
            return None
        whole = bound(costs, count, room)
        is_split = workload.schedule in trials.MAKING
        least = bound(costs, count, room, is_split=True) if is_split else whole
        at_best = self.costing.score(placement, least)
        return Candidate(placement, count, costs, room, whole, least, at_best)

    def score(self, candidate: Candidate, iteration: Seconds) -> Score:
        """What the objective compares."""
        return self.costing.score(candidate.placement, iteration)

    def is_beaten(self, rank: Score) -> bool:
        """Whether what has this score, or no better one, cannot be the answer."""
        return self.best is not None and self.is_worse(rank, self.best.score)

    def is_worse(self, rank: Score, than: Score) -> bool:
        """Whether a score is no better, but for rounding; under jitter, never will be."""
        if self.jitter is not None:
            return rank[0] > than[0] * (1 + self.jitter.share)
        if isclose(rank[0], than[0], rel_tol=ROUNDING):
            return rank[1] > than[1] or isclose(rank[1], than[1], rel_tol=ROUNDING)
        return rank[0] > than[0]

    def add(self, candidate: Candidate, trial: trials.Trial, period: Seconds) -> None:
        """Rank an order by its exact period; of equal ones the first stays the first."""
        new = Replayed(candidate, trial, period, self.score(candidate, period))
        placement = candidate.placement
        self.reached[placement] = min(new.score, self.reached.get(placement, new.score))
        self.ranked = sorted([*self.ranked, new], key=lambda each: each.score)
        kept = 1 if self.jitter is None else _MOST_JITTERED
        for loser in self.ranked[kept:]:
            self.lose(loser.score, loser.candidate, loser.trial.name, loser.period)
        del self.ranked[kept:]

    def lose(
        self,
        rank: Score,
        candidate: Candidate,
        schedule: str,
        iteration: Seconds,
        how: str = "",
        *,
        than: Score | None = None,
    ) -> None:
        """Keep a loser; ``than`` is what it lost to, where that is not the best plan."""
        described = self.describe(candidate, schedule, iteration)
        self._lost.append(_Lost(rank, described, how, than))

    def reject(self, segments: Segments, data: int, schedule: str, reason: Reason) -> None:
        """Keep something impossible, with its reason."""
        self.reasons.append(reason)
        self._impossible.setdefault(
            (segments, data, schedule),
            Alternative(segments, data, schedule, None, None, None, reason.sentence),
        )

    def possible(
        self, candidate: Candidate, tried: Iterable[trials.Trial | trials.Unfit]
    ) -> Iterator[trials.Trial]:
        """What memory holds of what is tried; the rest is rejected."""
        for trial in tried:
            if isinstance(trial, trials.Trial):
                yield trial
            else:
                placement = candidate.placement
                reason = Reason(NoPlan.NOT_ENOUGH_MEMORY, f"{trial.name} {trial.why}")
                self.reject(placement.segments, placement.data, trial.name, reason)

    def losers(self) -> Iterator[Alternative]:
        """What is possible by its score, then what is impossible."""
        assert self.best is not None, "losers lose against something"
        best = self.best.score
        for each in sorted(self._lost, key=lambda lost: lost.rank):
            why = losing.why(each.rank, each.than or best, each.how, self.workload)
            yield replace(each.alternative, why=why)
        yield from self._impossible.values()

    def describe(self, candidate: Candidate, schedule: str, iteration: Seconds) -> Alternative:
        """An alternative with its figures."""
        placement = candidate.placement
        samples = self.workload.samples(placement.data)
        return Alternative(
            segments=placement.segments,
            data=placement.data,
            schedule=schedule,
            iteration=iteration,
            samples_per_second=samples / iteration if iteration else None,
            price_per_iteration=self.costing.price(placement, iteration),
            why="",
        )

    def _no_room(self, placement: Placement, costs: Costs, room: tuple[int, ...]) -> None:
        stage = next(s for s, holds in enumerate(room) if holds < 1)
        cost = costs.stages[stage]
        memory = trials.memory(cost, self.workload)
        assert memory is not None, "only a bound on memory leaves no room"
        needed = format_bytes(cost.fixed + cost.held)
        sentence = (
            f"stage {stage} needs {needed} on each GPU for {cost.layers} layers and one "
            f"micro-batch, and may use {format_bytes(memory)}; use more stages or a larger tensor "
            "degree"
        )
        reason = Reason(NoPlan.NOT_ENOUGH_MEMORY, sentence)
        self.reject(placement.segments, placement.data, "", reason)
