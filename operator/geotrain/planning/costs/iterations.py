"""A whole iteration inside one data centre, from shape, accelerator and links alone.

Stages are costed as anywhere, ordered by 1F1B and replayed. Added to the replay: the data-parallel
all-reduce over the tiers, ``fixed`` once an iteration, and ``contention``, an empirical factor on
compute where tensor groups share a node in a pipeline: ``1 + contention x log2(node / t)`` for
1 < t < node. vTrain's cluster shows it in most runs of that kind, in some not at all; nothing in a
data sheet tells it, so it is zero unless calibrated (docs/costs.md).

Chunks shorten the fill and drain of the pipeline from (P - 1)(F + B) to (P - 1)(F + B) / v
(Narayanan et al., arXiv 2104.04473, section 2.2).
"""

import math
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from geotrain.model.workload import Profile
from geotrain.planning.costs import collectives, layers
from geotrain.planning.costs.accelerators import Accelerator
from geotrain.planning.costs.layers import Node, Training
from geotrain.planning.costs.memory import Recompute
from geotrain.planning.costs.shapes import Shape
from geotrain.planning.costs.tiers import Tier
from geotrain.planning.schedule import balance, orders, timeline
from geotrain.planning.schedule.costs import Costs, Hop, StageCosts, gradients, stage_costs
from geotrain.units import Bytes, Seconds


@dataclass(frozen=True, slots=True)
class Cluster:
    """Equal nodes of one accelerator; ``hop`` carries one device's share of a stage boundary."""

    accelerator: Accelerator
    node: Node
    hop: Tier
    fixed: Seconds = 0.0
    contention: float = 0.0


@dataclass(frozen=True, slots=True)
class Layout:
    """Parallel degrees and the global batch in samples; ``chunks`` of layers on each device."""

    tensor: int
    data: int
    pipeline: int
    global_batch: int
    chunks: int = 1

    def micro_batches(self, shape: Shape) -> int:
        """M of one replica. Raises ValueError where the batch does not divide."""
        count, rest = divmod(self.global_batch, self.data * shape.micro_batch)
        if rest or not count:
            raise ValueError(
                f"a batch of {self.global_batch} does not divide into micro-batches of "
                f"{shape.micro_batch} on {self.data} replicas"
            )
        return count


def iteration(shape: Shape, layout: Layout, cluster: Cluster, training: Training) -> Seconds:
    """The time of one iteration. Raises ValueError where degrees or batch do not fit the shape."""
    count = layout.micro_batches(shape)
    training = replace(training, tensor=layout.tensor, replicas=layout.data)
    made = layers.profile(shape, cluster.accelerator, training, cluster.node)
    costs = _costs(made, layout, cluster, training)
    order = orders.one_f_one_b(layout.pipeline, count)
    replay = timeline.replay(timeline.program(order), costs, 1)
    whole = max(end for _, end in replay.steps)
    return whole - _saved(costs, layout) + cluster.fixed


def _costs(made: Profile, layout: Layout, cluster: Cluster, training: Training) -> Costs:
    counts = _counts(made, layout.pipeline)
    recompute = training.recompute == Recompute.ALL
    found = stage_costs(made, counts, recompute=recompute)
    ends = [0, *accumulate(counts)]
    reduced = [gradients(made, made.layers[a:b]) for a, b in pairwise(ends)]
    stages = tuple(
        _stage(stage, size, layout, cluster) for stage, size in zip(found, reduced, strict=True)
    )
    size = made.boundary / layout.tensor
    hops = (Hop(cluster.hop.occupancy(size), cluster.hop.latency),) * (layout.pipeline - 1)
    return Costs(stages, hops, hops)


def _counts(made: Profile, stages: int) -> tuple[int, ...]:
    """Equal numbers of layers where they divide, as Megatron-LM wants them; else balanced."""
    each, rest = divmod(len(made.layers), stages)
    return balance.balanced_layers(made.layers, stages) if rest else (each,) * stages


def _stage(stage: StageCosts, gradient: Bytes, layout: Layout, cluster: Cluster) -> StageCosts:
    node, factor = cluster.node, _contention(layout, cluster)
    return replace(
        stage,
        forward=stage.forward * factor,
        input_gradient=stage.input_gradient * factor,
        weight_gradient=stage.weight_gradient * factor,
        all_reduce=collectives.data_all_reduce(
            gradient, layout.data, layout.tensor, node.gpus, node.near, node.far
        ),
    )


def _contention(layout: Layout, cluster: Cluster) -> float:
    if layout.pipeline < 2 or not 1 < layout.tensor < cluster.node.gpus:
        return 1.0
    return 1 + cluster.contention * math.log2(cluster.node.gpus / layout.tensor)


def _saved(costs: Costs, layout: Layout) -> Seconds:
    """What chunks take off the fill and drain: all stages but the slowest, less 1/v of them."""
    work = [stage.forward + stage.backward for stage in costs.stages]
    return (math.fsum(work) - max(work)) * (1 - 1 / layout.chunks)
