"""Memory of each stage of a plan by what it is for, and what is left for others, like prefill.

Weights, gradients, optimizer state and a layer's transient activations stay (``StageCosts.fixed``).
What micro-batches in flight hold follows the order: a forward takes ``held``, an input gradient
whose weight gradient is put off ``kept`` on top, and a backward or the weight gradient gives both
back. The most of it at one time counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from geotrain.model.plan import Action, Kind, Plan
from geotrain.model.topology import Topology
from geotrain.model.workload import LayerCosts, Workload
from geotrain.planning.placement.costing import Costing
from geotrain.planning.schedule.costs import StageCosts
from geotrain.units import Bytes


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes on each GPU of a stage.

    ``state`` is weights, gradients and optimizer state together. ``transient`` is one layer's
    activations while it is recomputed. ``limit`` is what the job may use, None where nothing bounds
    it, and ``headroom`` what is left of that.
    """

    state: Bytes
    transient: Bytes
    activations: Bytes
    limit: Bytes | None

    @property
    def used(self) -> Bytes:
        """At the peak."""
        return self.state + self.transient + self.activations

    @property
    def headroom(self) -> Bytes | None:
        """What is left at the peak."""
        return None if self.limit is None else self.limit - self.used


def footprints(topology: Topology, workload: Workload, plan: Plan) -> tuple[Footprint, ...]:
    """One for each stage of the plan of that job."""
    stages = Costing(topology, workload).costs(plan.placement).stages
    ends = pairwise([0, *accumulate(plan.layers)])
    return tuple(
        _footprint(workload, stage, _layers(topology, workload, plan, number)[a:b], order)
        for number, (stage, (a, b), order) in enumerate(zip(stages, ends, plan.order, strict=True))
    )


def _footprint(
    workload: Workload, stage: StageCosts, layers: Sequence[LayerCosts], order: Sequence[Action]
) -> Footprint:
    state = sum(layer.parameters for layer in layers)
    limits = [each for each in (stage.memory, workload.memory_per_gpu) if each is not None]
    return Footprint(
        state,
        stage.fixed - state,
        _peak(stage, order),
        min(limits, default=None),
    )


def _layers(
    topology: Topology, workload: Workload, plan: Plan, stage: int
) -> tuple[LayerCosts, ...]:
    center = topology.data_center(plan.placement.data_center_of(stage))
    assert center is not None, "a plan runs in data centres of its topology"
    return workload.profile_in(center).layers


def _peak(stage: StageCosts, order: Sequence[Action]) -> Bytes:
    changes = {
        Kind.FORWARD: stage.held,
        Kind.INPUT_GRADIENT: stage.kept,
        Kind.WEIGHT_GRADIENT: -stage.held - stage.kept,
        Kind.BACKWARD: -stage.held,
    }
    return max(accumulate(changes[action.kind] for action in order))
