"""Memory of each stage of a plan by what it is for, and what is left for others, like prefill.

Weights, gradients, optimizer state and a layer's transient activations stay. What micro-batches in
flight hold follows the order: a forward takes ``held``, an input gradient whose weight gradient is
put off ``kept`` on top, and a backward or the weight gradient gives both back (``StageCosts``). The
most of it at one time counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from geotrain.model.plan import Action, Kind, Plan
from geotrain.model.topology import Topology
from geotrain.model.workload import Workload
from geotrain.planning.placement import trials
from geotrain.planning.placement.costing import Costing
from geotrain.planning.schedule import breakdown
from geotrain.planning.schedule.breakdown import StageMemory
from geotrain.planning.schedule.costs import StageCosts
from geotrain.units import Bytes


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes on each GPU of a stage at the peak.

    ``limit`` is what the job may use, None where nothing bounds it, and ``headroom`` what is left.
    """

    memory: StageMemory
    limit: Bytes | None

    @property
    def headroom(self) -> Bytes | None:
        """What is left at the peak."""
        return None if self.limit is None else self.limit - self.memory.total


def footprints(topology: Topology, workload: Workload, plan: Plan) -> tuple[Footprint, ...]:
    """One for each stage of the plan of that job."""
    stages = Costing(topology, workload).costs(plan.placement).stages
    ends = pairwise([0, *accumulate(plan.layers)])
    return tuple(
        Footprint(
            replace(
                _memory(topology, workload, plan, number, slice(begin, end)),
                activations=_peak(stage, order),
            ),
            trials.memory(stage, workload),
        )
        for number, (stage, (begin, end), order) in enumerate(
            zip(stages, ends, plan.order, strict=True)
        )
    )


def _memory(
    topology: Topology, workload: Workload, plan: Plan, stage: int, layers: slice
) -> StageMemory:
    center = topology.data_center(plan.placement.data_center_of(stage))
    assert center is not None, "a plan runs in data centres of its topology"
    profile = workload.profile_in(center)
    flying = plan.in_flight[stage]
    return breakdown.memory(profile, profile.layers[layers], workload.recompute, flying)


def _peak(stage: StageCosts, order: Sequence[Action]) -> Bytes:
    changes = {
        Kind.FORWARD: stage.held,
        Kind.INPUT_GRADIENT: stage.kept,
        Kind.WEIGHT_GRADIENT: -stage.held - stage.kept,
        Kind.BACKWARD: -stage.held,
    }
    return max(accumulate(changes[action.kind] for action in order))
