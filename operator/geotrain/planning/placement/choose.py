"""The choice: every candidate under every order, the best of them as a Plan, the losers and why.

Candidates are taken by their bound, best first; a candidate whose bound is no better than the
best replay so far is not replayed. Within one, a representative replica ranks the orders, which
is a bound too, and the exact replay of all replicas decides. So the answer is the best of all, and
most of the work is never done. Equal scores go to the candidate that comes first.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import fsum

from geotrain.model.decision import Infeasible, Reason
from geotrain.model.plan import Alternative, Interval, Order, Placement, Plan
from geotrain.model.topology import Topology
from geotrain.model.workload import Workload
from geotrain.planning.costs import connections
from geotrain.planning.placement import candidates, losing, score, second, what_if
from geotrain.planning.placement.costing import Costing, Score
from geotrain.planning.placement.robust import Jitter, percentile
from geotrain.planning.placement.runner import Runner
from geotrain.planning.schedule import bubbles, checks, compiled, costs, timeline, windows
from geotrain.planning.schedule.compiled import Engine
from geotrain.planning.schedule.compiled_programs import Fast
from geotrain.units import Seconds, format_bytes, format_duration


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A placement with its costs, the micro-batches of a replica, and the room for them.

    No pattern has a shorter iteration than ``bound``, and no order that is made than ``least``.
    """

    placement: Placement
    micro_batches: int
    costs: costs.Costs
    room: tuple[int, ...]
    bound: Seconds
    least: Seconds


@dataclass(frozen=True, slots=True)
class _Replayed:
    candidate: _Candidate
    trial: score.Trial
    period: Seconds
    score: Score


@dataclass(frozen=True, slots=True)
class _Lost:
    """``how`` begins the sentence why; ``than`` is what it lost to, None: the best plan."""

    rank: Score
    alternative: Alternative
    how: str
    than: Score | None


def choose(
    topology: Topology,
    workload: Workload,
    *,
    jitter: Jitter | None = None,
    engine: Engine | None = None,
) -> Plan | Infeasible:
    """The best plan, or every reason why there is none, the most telling first.

    With ``jitter`` the best plans are ranked by the 95th percentile of replays whose times differ;
    the plan itself is replayed without. ``engine`` replays; None: what is fastest for so much
    work. The plan is the same for all.
    """
    found = candidates.candidates(topology, workload)
    work = what_if.work(workload, found.placements, exact=True)
    runs_on = engine or compiled.engine(work)
    search = _Search(workload, Costing(topology, workload), runs_on, jitter)
    for rejected in found.rejected:
        search.reject(rejected.segments, rejected.data, "", rejected.reason)
    for candidate in search.ranked(found.placements):
        search.consider(candidate)
    if search.best is None:
        return Infeasible(_by_severity((*found.reasons, *search.reasons)))
    search.improve(topology, set(found.placements))
    found_by = search.contenders[0]
    search.finish()
    if search.best is None:
        return Infeasible(_by_severity(tuple(search.reasons)))
    notes = [] if jitter is None else [search.settle(jitter)]
    notes += _second_data_center(topology, workload, found.placements, found_by, search.engine)
    notes += connections.cuts(topology, workload, search.contenders[0].candidate.placement)
    return _plan(workload, search, tuple(notes))


def baseline(workload: Workload) -> Workload:
    """The same job as without geotrain: 1F1B, one connection a rank pair, no turns."""
    return replace(
        workload, schedule="OneFOneB", connections=1, sharing="Spatial", early_recompute=False
    )


def at(workload: Workload, placement: Placement) -> Workload:
    """The same job fixed to a placement, so that two ways to run it can be compared."""
    return replace(workload, placement="Fixed", fixed=placement.segments, data=placement.data)


_CLEARLY = 0.99
"""A neighbour of the rule's placement has to be one per cent better."""
_UNDER_JITTER = "with jitter, at the 95th percentile, "
_MOST_FINISHED = 8
"""Placements that orders are made for."""
_MOST_JITTERED = 12
"""Plans, the best without jitter first, that are replayed with it."""

_SEVERITY = (
    "NoDataCenters",
    "InvalidParallelism",
    "UnknownDataCenter",
    "NotEnoughMemory",
    "NoFeasiblePlacement",
    "LinkMissing",
)


def _by_severity(reasons: tuple[Reason, ...]) -> tuple[Reason, ...]:
    """Each once; what the user must change in the job comes before what a data centre lacks."""
    unique = dict.fromkeys(reasons)
    return tuple(sorted(unique, key=lambda reason: _SEVERITY.index(reason.code)))


@dataclass(slots=True)
class _Search:
    """What has been tried, has lost, or is impossible.

    ``contenders`` are the best replays, one or with jitter some, the best first. ``seen`` are the
    placements with the score of their best pattern, or what no pattern of theirs is better than.
    """

    workload: Workload
    costing: Costing
    engine: Engine
    jitter: Jitter | None = None
    contenders: list[_Replayed] = field(default_factory=list)
    seen: list[tuple[Score, _Candidate]] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)
    lost: list[_Lost] = field(default_factory=list)
    impossible: list[Alternative] = field(default_factory=list)

    @property
    def best(self) -> _Replayed | None:
        """The best so far."""
        return self.contenders[0] if self.contenders else None

    def ranked(self, placements: tuple[Placement, ...]) -> list[_Candidate]:
        """Candidates that memory allows, by their bound."""
        made = [self._candidate(placement) for placement in placements]
        possible = [candidate for candidate in made if self._has_room(candidate)]
        return sorted(possible, key=lambda c: self._score(c, c.bound))

    def improve(self, topology: Topology, tried: set[Placement]) -> None:
        """Go from the best placement to its best neighbour, as long as that is clearly better.

        Neighbours are compared by patterns alone; all orders of the best of them are replayed.
        """
        centre = self.contenders[0]
        while True:
            place = centre.candidate.placement
            near = candidates.neighbours(topology, self.workload, place)
            new = tuple(placement for placement in near if placement not in tried)
            tried.update(new)
            around = _Search(self.workload, self.costing, self.engine, self.jitter)
            around.contenders = list(self.contenders)
            scored = [(self._by_patterns(each, centre), each) for each in around.ranked(new)]
            self.seen += scored
            least, nearest = min(scored, key=lambda entry: entry[0], default=(centre.score, None))
            if nearest is None or least >= centre.score:
                return
            around.consider(nearest)
            best = around.contenders[0]
            if best.score[0] >= centre.score[0] * _CLEARLY:
                return
            self.contenders, centre = around.contenders, best
            self.lost += around.lost
            self.impossible += around.impossible

    def _by_patterns(self, candidate: _Candidate, than: _Replayed) -> Score:
        """The score of one replica's best pattern, or its bound where it is no better."""
        least = self._score(candidate, candidate.bound)
        if least >= than.score:
            return least
        runner = Runner(self.engine, candidate.costs, candidate.placement.data)
        count, room = candidate.micro_batches, candidate.room
        few = score.few(candidate.costs, self.workload, count, room)
        periods = (runner.pattern(depths, count, exact=False) for _, depths in few)
        return min((self._score(candidate, period) for period in periods), default=than.score)

    def consider(self, candidate: _Candidate) -> None:
        """Replay a candidate's orders as long as one may still be the best."""
        at_best = self._score(candidate, candidate.bound)
        if self._is_beaten(at_best):
            self.seen.append((at_best, candidate))
            least = candidate.least
            self._lose(self._score(candidate, least), candidate, "", least, is_bound=True)
            return
        runner = Runner(self.engine, candidate.costs, candidate.placement.data)
        ranked: list[tuple[Score, int, score.Trial, Seconds]] = []
        for trial in self._fitting(candidate):
            period = runner.representative(trial)
            ranked.append((self._score(candidate, period), len(ranked), trial, period))
        ranked.sort(key=lambda entry: entry[:2])
        self.seen += [(rank, candidate) for rank, *_ in ranked[:1]]
        for rank, _, trial, period in ranked:
            if self._is_beaten(rank):
                self._lose(rank, candidate, trial.name, period, is_bound=runner.has_turns)
            else:
                self._replay(candidate, trial, runner.exact(trial))

    def finish(self) -> None:
        """Let the policy make orders, for the placements whose patterns are best.

        Greedy takes longest, so it is made for one placement, where the quicker ones are best. Any
        policy but Auto allows no patterns: what found the placements is then no answer.
        """
        policy = self.workload.schedule
        placements = self._promising() if policy in score.MAKING else []
        if not placements:
            return
        if policy != "Auto":
            self._forget()
        for candidate in placements:
            if not self._is_beaten(self._score(candidate, candidate.least)):
                for name in score.quick(policy, candidate.costs):
                    self._make(name, candidate)
        best = self.contenders[0] if self.contenders else None
        candidate = best.candidate if best else placements[0]
        if policy == "Greedy":
            self._forget()
            self._make("greedy", candidate)
        elif policy == "Auto":
            others = [score.order_of(best.trial.ready)] if best else []
            self._make("greedy", candidate, others)

    def _forget(self) -> None:
        """What was replayed so far is no answer."""
        self.contenders, self.lost = [], []

    def _promising(self) -> list[_Candidate]:
        """The placements to make orders for, as many as there is time for."""
        unique = {
            candidate.placement: candidate
            for _, candidate in sorted(self.seen, key=lambda each: each[0])
        }
        found: list[_Candidate] = []
        actions = 0
        for candidate in unique.values():
            actions += 3 * candidate.placement.stages * candidate.micro_batches
            is_long = actions > score.MOST_ACTIONS_MADE
            if is_long and (found or self.workload.schedule == "Auto"):
                break
            found.append(candidate)
        return found[:_MOST_FINISHED]

    def _make(self, name: str, candidate: _Candidate, others: Sequence[Order] = ()) -> None:
        count, room = candidate.micro_batches, candidate.room
        made = score.made(name, candidate.costs, self.workload, count, room, others)
        runner = Runner(self.engine, candidate.costs, candidate.placement.data)
        for trial in self._possible(candidate, made):
            self._replay(candidate, trial, runner.exact(trial))

    def timeline(self, replayed: _Replayed) -> timeline.Timeline:
        """The whole replay, with the time of every action."""
        ready, data = replayed.trial.ready, replayed.candidate.placement.data
        if self.engine.is_compiled:
            return Fast(self.engine, ready).replay(replayed.candidate.costs, data)
        return timeline.replay(ready, replayed.candidate.costs, data)

    def reject(
        self, segments: tuple[tuple[str, int], ...], data: int, schedule: str, reason: Reason
    ) -> None:
        """Keep something impossible, with its reason."""
        self.reasons.append(reason)
        self.impossible.append(
            Alternative(segments, data, schedule, None, None, None, reason.sentence)
        )

    def losers(self) -> Iterator[Alternative]:
        """The winner, then what is possible by its score, then what is impossible."""
        assert self.best is not None, "losers lose against something"
        best = self.best.score
        for each in sorted(self.lost, key=lambda lost: lost.rank):
            why = losing.why(each.rank, each.than or best, each.how, self.workload)
            yield replace(each.alternative, why=why)
        yield from self.impossible

    def describe(
        self, candidate: _Candidate, schedule: str, iteration: Seconds, why: str
    ) -> Alternative:
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
            why=why,
        )

    def _candidate(self, placement: Placement) -> _Candidate:
        workload = self.workload
        cost = self.costing.costs(placement)
        micro_batches = workload.micro_batches(placement.data)
        room = score.caps(cost, workload, micro_batches)
        may_split = workload.schedule in score.MAKING
        bound = score.bound(cost, micro_batches)
        least = score.bound(cost, micro_batches, is_split=True) if may_split else bound
        return _Candidate(placement, micro_batches, cost, room, bound, least)

    def _has_room(self, candidate: _Candidate) -> bool:
        stage = next((s for s, room in enumerate(candidate.room) if room < 1), None)
        if stage is None:
            return True
        cost, placement = candidate.costs.stages[stage], candidate.placement
        memory = score.memory(cost, self.workload)
        assert memory is not None, "only a bound on memory leaves no room"
        needed = format_bytes(cost.fixed + cost.held)
        sentence = (
            f"stage {stage} needs {needed} on each GPU for {cost.layers} layers and one "
            f"micro-batch, and may use {format_bytes(memory)}; use more stages or a larger tensor "
            "degree"
        )
        reason = Reason("NotEnoughMemory", sentence)
        self.reject(placement.segments, placement.data, "", reason)
        return False

    def _fitting(self, candidate: _Candidate) -> Iterator[score.Trial]:
        return self._possible(
            candidate,
            score.trials(candidate.costs, self.workload, candidate.micro_batches, candidate.room),
        )

    def _possible(
        self, candidate: _Candidate, tried: Iterable[score.Trial | score.Unfit]
    ) -> Iterator[score.Trial]:
        for trial in tried:
            if isinstance(trial, score.Trial):
                yield trial
            else:
                placement = candidate.placement
                reason = Reason("NotEnoughMemory", f"{trial.name} {trial.why}")
                self.reject(placement.segments, placement.data, trial.name, reason)

    def _is_beaten(self, rank: Score) -> bool:
        """Whether what has this score, or no better one, cannot be the answer."""
        if self.best is None:
            return False
        if self.jitter is None:
            return rank >= self.best.score
        return rank[0] > self.best.score[0] * (1 + self.jitter.share)

    def _replay(self, candidate: _Candidate, trial: score.Trial, period: Seconds) -> None:
        new = _Replayed(candidate, trial, period, self._score(candidate, period))
        # Sorting is stable: of equal ones the first stays the first.
        self.contenders = sorted([*self.contenders, new], key=lambda each: each.score)
        kept = 1 if self.jitter is None else _MOST_JITTERED
        for loser in self.contenders[kept:]:
            self._lose(loser.score, loser.candidate, loser.trial.name, loser.period)
        del self.contenders[kept:]

    def settle(self, jitter: Jitter) -> str:
        """Put the contender first that is best at its 95th percentile; say what that is."""
        steady = self.contenders[0]
        tails = [(self._tail(each, jitter), each) for each in self.contenders]
        (least, slow), chosen = min(tails, key=lambda entry: entry[0][0])
        for (rank, _), each in tails:
            if each is not chosen:
                name, period = each.trial.name, each.period
                self._lose(rank, each.candidate, name, period, than=least)
        self.contenders = [chosen]
        return _jitter_note(jitter, slow, chosen, steady)

    def _tail(self, replayed: _Replayed, jitter: Jitter) -> tuple[Score, Seconds]:
        """The 95th percentile of the period, and its score."""
        candidate = replayed.candidate
        periods = [
            Runner(
                self.engine, jitter.costs(candidate.costs, number), candidate.placement.data
            ).exact(replayed.trial)
            for number in range(jitter.replays)
        ]
        slow = percentile(periods)
        return self._score(candidate, slow), slow

    def _lose(
        self,
        rank: Score,
        candidate: _Candidate,
        schedule: str,
        iteration: Seconds,
        *,
        is_bound: bool = False,
        than: Score | None = None,
    ) -> None:
        """Keep a loser; ``than`` is what it lost to under jitter, by 95th percentiles."""
        how = "at best " if is_bound else _UNDER_JITTER if than is not None else ""
        described = self.describe(candidate, schedule, iteration, "")
        self.lost.append(_Lost(rank, described, how, than))

    def _score(self, candidate: _Candidate, iteration: Seconds) -> Score:
        return self.costing.score(candidate.placement, iteration)


def _second_data_center(
    topology: Topology,
    workload: Workload,
    placements: tuple[Placement, ...],
    best: _Replayed,
    engine: Engine,
) -> Iterator[str]:
    """From which bandwidth on a second one would pay, where one is best: both by patterns."""
    if len(best.candidate.placement.segments) == 1:
        pays = second.threshold(topology, workload, placements, best.score, engine)
        if pays is not None:
            yield pays.sentence


def _jitter_note(jitter: Jitter, slow: Seconds, chosen: _Replayed, steady: _Replayed) -> str:
    what = (
        f"{format_duration(slow)} an iteration at the 95th percentile of {jitter.replays} replays "
        f"with {jitter.share:.0%} jitter"
    )
    if chosen is steady:
        return f"{what}, and the best without jitter too"
    where = " ".join(f"{name}:{stages}" for name, stages in steady.candidate.placement.segments)
    return (
        f"{what}; without jitter {steady.trial.name} on {where} with "
        f"{steady.candidate.placement.data} replicas is better"
    )


def _plan(workload: Workload, search: _Search, notes: tuple[str, ...]) -> Plan:
    best = search.best
    assert best is not None, "a plan is made of the best replay"
    placement, order = best.candidate.placement, score.order_of(best.trial.ready)
    replay = search.timeline(best)
    checks.require_sound(order, best.candidate.room)
    sent = windows.traffic(replay, placement)
    waits = bubbles.bubbles(replay)
    ranks = [(s, r) for s in range(placement.stages) for r in range(placement.data)]
    compute = replay.computes()
    gpu_time = len(ranks) * replay.period
    winner = search.describe(best.candidate, best.trial.name, replay.period, "")
    return Plan(
        placement=placement,
        tensor=workload.tensor,
        micro_batches=best.candidate.micro_batches,
        schedule=best.trial.name,
        order=order,
        iteration=replay.period,
        gpu_use=bubbles.busy_seconds(replay) / gpu_time if gpu_time else 0.0,
        bubble_share=fsum(w.end - w.begin for w in waits) / gpu_time if gpu_time else 0.0,
        connections=_connections(placement, best.candidate.costs),
        wan_bytes=search.costing.wan_bytes(placement),
        price_per_iteration=search.costing.price(placement, replay.period),
        flows=sent.flows,
        windows=sent.windows,
        bubbles=waits,
        first_action=tuple(actions[0].begin for actions in compute),
        compute=compute,
        steps=tuple(Interval("step", *replay.steps[stage]) for stage, _ in ranks),
        transfers=sent.transfers,
        alternatives=(winner, *search.losers()),
        layers=tuple(stage.layers for stage in best.candidate.costs.stages),
        in_flight=checks.peak_in_flight(order),
        sharing=workload.sharing,
        notes=(*workload.notes, *notes),
        error=workload.error,
    )


def _connections(placement: Placement, cost: costs.Costs) -> dict[tuple[str, str], int]:
    """TCP connections of one path over each direction of each link."""
    found = {}
    where = [placement.data_center_of(stage) for stage in range(placement.stages)]
    for boundary, (source, target) in enumerate(pairwise(where)):
        if source != target:
            found[source, target] = cost.forward[boundary].connections
            found[target, source] = cost.backward[boundary].connections
    return found
