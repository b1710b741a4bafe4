"""The choice: the best placement, degree and order that a job allows, as a Plan with its losers.

``search`` looks for it, ``plans`` writes it down. Fixed placements are the same search with one
placement for each degree.
"""

from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum

from geotrain.model.decision import Infeasible, NoPlan, Reason
from geotrain.model.plan import Placement, Plan, Proof
from geotrain.model.topology import Topology
from geotrain.model.workload import Workload
from geotrain.planning.costs import connections
from geotrain.planning.placement import candidates, losing, plans, second, what_if
from geotrain.planning.placement.branching import USUAL, Branching, Budget
from geotrain.planning.placement.contenders import Contenders
from geotrain.planning.placement.costing import Costing
from geotrain.planning.placement.robust import Jitter
from geotrain.planning.placement.search import Search
from geotrain.planning.placement.settling import settle
from geotrain.planning.schedule import compiled
from geotrain.planning.schedule.compiled import Engine


def choose(
    topology: Topology,
    workload: Workload,
    *,
    jitter: Jitter | None = None,
    engine: Engine | None = None,
    budget: Budget = USUAL,
) -> Plan | Infeasible:
    """The best plan, or every reason why there is none, the most telling first.

    With ``jitter`` the best plans are ranked by the 95th percentile of replays whose times differ;
    the plan itself is replayed without. ``engine`` replays; None: what is fastest for so much
    work. The plan is the same for all. ``budget`` is what the search may do.
    """
    found = candidates.candidates(topology, workload)
    if found.reasons:
        return Infeasible(_by_severity(found.reasons))
    contenders = Contenders(workload, Costing(topology, workload), jitter)
    for rejected in found.rejected:
        contenders.reject(rejected.segments, rejected.data, "", rejected.reason)
    runs_on = engine or compiled.engine(what_if.work(workload, found.placements, exact=True))
    search = Search(Branching.of(topology, contenders, budget), contenders, runs_on)
    search.run(found.placements)
    if contenders.best is None:
        return Infeasible(_by_severity(tuple(contenders.reasons)))
    proof = Proof(search.replayed, search.loss)
    notes = [] if jitter is None else [settle(contenders, jitter, runs_on)]
    notes += _second_data_center(topology, found.placements, search)
    notes += connections.cuts(topology, workload, contenders.ranked[0].candidate.placement)
    notes += _at_most_worse(proof, workload)
    return plans.plan(contenders, runs_on, tuple(notes), proof)


def baseline(workload: Workload) -> Workload:
    """The same job as without geotrain: 1F1B, one connection a rank pair, no turns."""
    return replace(
        workload, schedule="OneFOneB", connections=1, sharing="Spatial", early_recompute=False
    )


def at(workload: Workload, placement: Placement) -> Workload:
    """The same job fixed to a placement, so that two ways to run it can be compared."""
    return replace(workload, placement="Fixed", fixed=placement.segments, data=placement.data)


_SEVERITY: list[StrEnum] = [*NoPlan]


def _by_severity(reasons: tuple[Reason, ...]) -> tuple[Reason, ...]:
    """Each once; what the user must change in the job comes before what a data centre lacks."""
    unique = dict.fromkeys(reasons)
    return tuple(sorted(unique, key=lambda reason: _SEVERITY.index(reason.code)))


def _at_most_worse(proof: Proof, workload: Workload) -> Iterator[str]:
    """What may be lost, where the search could not rule out everything else."""
    worse = "slower" if workload.objective == "Throughput" else "dearer"
    if proof.loss is None:
        yield f"how much {worse} than the best of all it may be is not known"
    elif proof.loss:
        yield f"at most {losing.percent(proof.loss)} {worse} than the best of all"


def _second_data_center(
    topology: Topology, placements: tuple[Placement, ...], search: Search
) -> Iterator[str]:
    """From which bandwidth on a second one would pay, where one is best: both by patterns."""
    contenders = search.contenders
    if len(contenders.ranked[0].candidate.placement.segments) == 1:
        pays = second.threshold(
            topology, contenders.workload, placements, search.patterns, search.engine
        )
        if pays is not None:
            yield pays.sentence
