"""The placements that nobody beats in both throughput and price."""

from collections.abc import Iterable
from dataclasses import replace

from geotrain.model.plan import Placement
from geotrain.model.topology import Topology
from geotrain.model.workload import Workload
from geotrain.planning.placement import candidates, what_if
from geotrain.planning.placement.branching import Branching
from geotrain.planning.placement.contenders import Contenders
from geotrain.planning.placement.costing import Costing, Score
from geotrain.planning.placement.what_if import Outcome
from geotrain.planning.schedule import compiled


def pareto_front(topology: Topology, workload: Workload) -> tuple[Outcome, ...]:
    """The Pareto front of all placements, each under the faster of 1F1B and the rule's warm-up.

    A policy that names one pattern has that one. It is found by the branch and bound of ``search``:
    out is what cannot beat some placement in either. Empty where nothing fits.
    """
    start = candidates.candidates(topology, workload)
    if start.reasons:
        return ()
    return _Front(topology, workload, start.placements).found()


class _Front:
    """A search for the front; ``outcomes`` by time and price of a global batch."""

    def __init__(
        self, topology: Topology, workload: Workload, placements: tuple[Placement, ...]
    ) -> None:
        one_pattern = workload.schedule in ("GPipe", "OneFOneB")
        self._workload = replace(
            workload,
            objective="Throughput",
            schedule=workload.schedule if one_pattern else "Atlas",
        )
        self._costing = Costing(topology, self._workload)
        self._branching = Branching.of(topology, Contenders(self._workload, self._costing))
        self._placements = placements
        self._engine = compiled.engine(what_if.work(workload, placements, exact=True))
        self._outcomes: dict[Score, Outcome] = {}

    def found(self) -> tuple[Outcome, ...]:
        """The front, the highest throughput first."""
        for candidate in self._branching.candidates(self._placements):
            if not self._is_out(candidate.at_best):
                self._judge(candidate.placement)
        if not self._branching.space.fixed:
            for candidate in self._branching.all(self._is_out):
                self._judge(candidate.placement)
        return pareto(self._outcomes.values())

    def _is_out(self, at_best: Score) -> bool:
        """Whether a placement is at least as good in both as this may be."""
        time, price = at_best
        return any(t <= time and p <= price for t, p in self._outcomes)

    def _judge(self, placement: Placement) -> None:
        workload = self._workload
        self._branching.work += what_if.work(workload, [placement], exact=True)
        outcome = what_if.judged(self._costing, workload, placement, self._engine, exact=True)
        if outcome is not None:
            score = self._costing.score(placement, outcome.iteration)
            self._outcomes.setdefault(score, outcome)


def pareto(outcomes: Iterable[Outcome]) -> tuple[Outcome, ...]:
    """The Pareto front, the highest throughput first: each is cheaper than all before it.

    Of outcomes that are equal in both the first counts.
    """
    front: list[Outcome] = []
    ordered = sorted(outcomes, key=lambda each: (-each.samples_per_second, each.price_per_sample))
    for outcome in ordered:
        if not front or outcome.price_per_sample < front[-1].price_per_sample:
            front.append(outcome)
    return tuple(front)
