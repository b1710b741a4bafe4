"""What a stage's time and memory are made of, and how much of the GPUs a plan uses.

The parts add up to what the replay counts with: a stage's forward and backward of one micro-batch,
and the memory that its micro-batches in flight need. Utilisation, as Chowdhery et al. (arXiv
2204.02311, appendix B) and Korthikanti et al. (arXiv 2205.05198, section 6.3) have it::

    MFU   operations of the model, forward and backward     / (iteration x peak of all GPUs)
    HFU   the same with what is computed again

Attention counts what a causal mask leaves where a fused kernel skips the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from geotrain.model.workload import LayerCosts, Profile
from geotrain.planning.costs.layers import Block, Parts
from geotrain.planning.costs.shapes import Shape
from geotrain.planning.schedule.costs import StageCosts, recomputed, stage_costs
from geotrain.units import Bytes, Seconds


@dataclass(frozen=True, slots=True)
class StageTime:
    """Seconds of one micro-batch in a stage, forward and backward, by what takes them.

    ``layers`` are the parts where they are known; ``measured`` is what is known as a whole.
    ``output`` is that over the vocabulary, ``sends`` what a blocking trainer waits for.
    """

    layers: Parts
    measured: Seconds
    recompute: Seconds
    output: Seconds
    sends: Seconds

    @property
    def total(self) -> Seconds:
        """All of it."""
        return self.layers.total + self.measured + self.recompute + self.output + self.sends


@dataclass(frozen=True, slots=True)
class StageMemory:
    """Bytes on each GPU of a stage; ``state`` is what is not known by its three kinds.

    ``activations`` are those of the micro-batches in flight, ``transient`` of the layer that is
    computed again.
    """

    weights: Bytes
    gradients: Bytes
    optimizer: Bytes
    state: Bytes
    activations: Bytes
    transient: Bytes

    @property
    def total(self) -> Bytes:
        """All of it."""
        held = self.weights + self.gradients + self.optimizer + self.state
        return held + self.activations + self.transient


def time(
    stage: StageCosts,
    layers: Sequence[LayerCosts],
    recompute: bool,
    known: tuple[Block, Parts | None] | None = None,
) -> StageTime:
    """A stage's time by part; ``known`` is a layer's parts, and the output's in the last stage."""
    again = recomputed(layers) if recompute else 0.0
    whole = stage.forward + stage.backward
    if known is None:
        measured = sum(layer.forward + layer.backward for layer in layers)
        return StageTime(Parts(), measured, again, 0.0, max(0.0, whole - measured - again))
    block, head = known
    once = block.forward.plus(block.input_gradient).plus(block.weight_gradient)
    parts = once.times(len(layers))
    partly = len(layers) * block.again.total
    output = 0.0 if head is None else 3 * head.total
    sends = max(0.0, whole - parts.total - again - partly - output)
    return StageTime(parts, 0.0, again + partly, output, sends)


def memory(
    profile: Profile, layers: Sequence[LayerCosts], recompute: bool, in_flight: int
) -> StageMemory:
    """A stage's memory by part with so many micro-batches in flight."""
    (stage,) = stage_costs(
        Profile(tuple(layers), profile.boundary, kept=profile.kept),
        (len(layers),),
        recompute=recompute,
    )
    weights, gradients, optimizer = (
        sum(each.state[kind] for each in layers if each.state) for kind in range(3)
    )
    whole = sum(each.parameters for each in layers)
    return StageMemory(
        weights,
        gradients,
        optimizer,
        state=whole - weights - gradients - optimizer,
        activations=in_flight * stage.held,
        transient=stage.fixed - whole,
    )


@dataclass(frozen=True, slots=True)
class Utilisation:
    """Shares of the GPUs' peak: of the model's operations, and of all that were computed."""

    model: float
    hardware: float


def utilisation(
    shape: Shape, micro_batches: int, recompute: bool, iteration: Seconds, peak: float
) -> Utilisation:
    """Of ``micro_batches`` of all replicas in an iteration on GPUs of ``peak`` operations a second.

    An iteration that takes no time uses nothing.
    """
    if not iteration or not peak:
        return Utilisation(0.0, 0.0)
    again = shape.layers * (shape.matrix_operations + shape.attention_operations)
    most = iteration * peak
    once = micro_batches * shape.model_operations
    return Utilisation(once / most, (once + recompute * micro_batches * again) / most)
