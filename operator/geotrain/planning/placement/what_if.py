"""What if: every placement with its throughput and price, in one table.

Each placement runs 1F1B and, over the wide area, the warm-up of GeoPipe's rule, or the one
pattern that the policy names, within the room of memory; the faster counts. The replay is that of
one replica, with the others' turns as gaps, or with ``exact`` of all of them. ``choose`` looks
closer, at more orders of fewer placements.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from geotrain.model.plan import Placement
from geotrain.model.topology import Topology
from geotrain.model.workload import Workload
from geotrain.planning.placement import candidates, trials
from geotrain.planning.placement.costing import Costing
from geotrain.planning.placement.runner import Runner
from geotrain.planning.schedule import compiled
from geotrain.planning.schedule.costs import Costs
from geotrain.units import Seconds


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a placement would reach under its best pattern, and what an iteration would cost."""

    placement: Placement
    schedule: str
    iteration: Seconds
    samples_per_second: float
    price: float

    @property
    def price_per_sample(self) -> float:
        """Price over samples; of two equal throughputs the one with the lower price is better."""
        samples = self.samples_per_second * self.iteration
        return self.price / samples if samples else 0.0


def what_if(
    topology: Topology,
    workload: Workload,
    *,
    exact: bool = False,
    engine: compiled.Engine | None = None,
) -> tuple[Outcome, ...]:
    """Every placement that fits, the highest throughput first, then the lowest price."""
    placements = candidates.candidates(topology, workload).placements
    costing = Costing(topology, workload)
    chosen = engine or compiled.engine(work(workload, placements, exact=exact))
    outcomes = (judged(costing, workload, each, chosen, exact=exact) for each in placements)
    found = [outcome for outcome in outcomes if outcome is not None]
    # Sorting is stable: equal ones stay in the order of the candidates.
    return tuple(sorted(found, key=lambda each: (-each.samples_per_second, each.price)))


def judged(
    costing: Costing,
    workload: Workload,
    placement: Placement,
    engine: compiled.Engine,
    *,
    exact: bool,
) -> Outcome | None:
    """What one placement would reach; None where memory does not hold it."""
    costs = costing.costs(placement)
    best = _best(Runner(engine, costs, placement.data), costs, workload, placement, exact)
    return None if best is None else _outcome(costing, workload, placement, *best)


def work(workload: Workload, placements: Iterable[Placement], *, exact: bool) -> int:
    """About how many actions a what-if of these placements replays."""
    return sum(
        4
        * placement.stages
        * min(workload.micro_batches(placement.data), 4 * placement.stages)
        * (placement.data if exact else 1)
        for placement in placements
    )


def _best(
    runner: Runner, costs: Costs, workload: Workload, placement: Placement, exact: bool
) -> tuple[Seconds, str] | None:
    micro_batches = workload.micro_batches(placement.data)
    room = trials.caps(costs, workload, micro_batches)
    if min(room) < 1:
        return None
    best: tuple[Seconds, str] | None = None
    exactly = exact and runner.has_turns
    for name, depths in trials.few(costs, workload, micro_batches, room):
        period = runner.pattern(depths, micro_batches, exact=False)
        if exactly and (best is None or period < best[0]):
            period = runner.pattern(depths, micro_batches, exact=True)
        if best is None or period < best[0]:
            best = period, name
    return best


def _outcome(
    costing: Costing, workload: Workload, placement: Placement, iteration: Seconds, name: str
) -> Outcome:
    samples = workload.samples(placement.data)
    return Outcome(
        placement,
        name,
        iteration,
        samples / iteration if iteration else 0.0,
        costing.price(placement, iteration),
    )
