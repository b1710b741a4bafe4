"""Times and memory of a transformer's layers from its shape, each part of the backward apart.

With T(operations, bytes, passes) as in ``accelerators``, t tensor ranks, and C the all-reduce of a
boundary over them, twice a pass (Shoeybi et al., arXiv 1909.08053)::

    forward          T((matrices + attention) / t, repeated + divided / t + scores / t, 1) + 2 C
    input gradient   T((matrices + 2 attention) / t, repeated + divided / t + 2 scores / t, 1) + 2 C
    weight gradient  T(matrices / t, 0, 1)
    recompute        the forward again, or T(attention / t, scores / t, 0) of attention alone

With sequence parallelism ``repeated`` is divided by t too, and the backward gathers the scattered
inputs again: C/2 for each of the two products (Korthikanti et al., arXiv 2205.05198, section 4.2).

The embedding belongs to the first layer, the output over the vocabulary and its loss to the last;
neither is ever recomputed, and where both are in one layer it holds the table once. The
optimizer's step moves ``STEP_BYTES`` for each weight of a layer, where the layer runs.
"""

from dataclasses import dataclass, replace
from typing import Final

from geotrain.model.workload import LayerCosts, Profile
from geotrain.planning.costs import collectives, memory
from geotrain.planning.costs.accelerators import Accelerator
from geotrain.planning.costs.memory import Recompute, StateBytes
from geotrain.planning.costs.shapes import Shape
from geotrain.planning.costs.tiers import Constant, Tier
from geotrain.units import Bytes, Seconds

STEP_BYTES: Final = 36.0
"""Adam in mixed precision: reads gradient, main weight and moments, writes the three and the
weight: 4 + 12 + 12 + 2, and a pass over the gradients for their norm and scale."""

_FREE: Final = Tier(Constant(1e18))


@dataclass(frozen=True, slots=True)
class Node:
    """What a tensor group communicates over.

    A node has ``gpus`` on ``near``; ``far`` between nodes is all of a node's links together.
    """

    gpus: int = 8
    near: Tier = _FREE
    far: Tier = _FREE


@dataclass(frozen=True, slots=True)
class Training:
    """How a model is trained: tensor degree, what is recomputed, bytes of a weight's state."""

    tensor: int = 1
    recompute: Recompute = Recompute.NOTHING
    sequence_parallel: bool = False
    state: StateBytes = memory.MIXED
    replicas: int = 1


def profile(shape: Shape, accelerator: Accelerator, training: Training, node: Node) -> Profile:
    """Costs of every layer.

    A layer's ``recompute`` says what a full recompute costs; recomputed attention is part of its
    input gradient, so plan such a profile without recompute.
    """
    return of_blocks(_block(shape, accelerator, training, node), shape, accelerator, training)


def of_blocks(
    block: LayerCosts, shape: Shape, accelerator: Accelerator, training: Training
) -> Profile:
    """A model whose layers all take the times of ``block``.

    Sizes, the output over the vocabulary and the optimizer's step are estimated.
    """
    block = replace(block, step=_step(shape.layer_weights, accelerator, training))
    table = LayerCosts(0.0, 0.0, 0.0, step=_step(shape.embedding_weights, accelerator, training))
    head = _head(shape, accelerator, training)
    output = replace(table, forward=head, input_gradient=head, weight_gradient=head)
    sized = sizes(shape, training)
    layers = [added(size, block) for size in sized.layers]
    layers[-1] = with_end(layers[-1], output)
    if shape.layers > 1:
        layers[0] = with_end(layers[0], table)
    return replace(sized, layers=tuple(layers))


def added(layer: LayerCosts, more: LayerCosts) -> LayerCosts:
    """A layer that takes the time of ``more`` too."""
    return replace(
        layer,
        forward=layer.forward + more.forward,
        input_gradient=layer.input_gradient + more.input_gradient,
        weight_gradient=layer.weight_gradient + more.weight_gradient,
        step=layer.step + more.step,
    )


def with_end(layer: LayerCosts, end: LayerCosts) -> LayerCosts:
    """The first or last layer with the time of what is never recomputed: embedding, output."""
    again = layer.forward if layer.recompute is None else layer.recompute
    return replace(added(layer, end), recompute=again)


def sizes(shape: Shape, training: Training) -> Profile:
    """What each layer keeps and what its replicas all-reduce; nothing takes any time.

    The vocabulary's table is in the first and in the last layer, and in a single one once.
    """
    inner = LayerCosts(
        0.0,
        0.0,
        0.0,
        activation=_activation(shape, training),
        parameters=_state(shape.layer_weights, training),
    )
    end = replace(
        inner,
        parameters=inner.parameters + _state(shape.embedding_weights, training),
        gradients=_gradients(shape.layer_weights + shape.embedding_weights, training),
    )
    layers = (end, *(inner,) * (shape.layers - 2), end)[: shape.layers]
    usual = _gradients(shape.layer_weights, training)
    return Profile(layers, shape.boundary, gradient_bytes_per_layer=usual)


def _block(shape: Shape, accelerator: Accelerator, training: Training, node: Node) -> LayerCosts:
    t = training.tensor
    products, attention = shape.matrix_operations / t, shape.attention_operations / t
    scores = shape.attention_bytes / t
    others = shape.divided_bytes / t
    others += shape.repeated_bytes / (t if training.sequence_parallel else 1)
    exchange = 2 * collectives.tensor_exchange(shape.boundary, t, node.gpus, node.near, node.far)
    forward = accelerator.seconds(products + attention, others + scores) + exchange
    again = exchange / 2 if training.sequence_parallel else 0.0
    if training.recompute == Recompute.ATTENTION:
        again += accelerator.seconds(attention, scores, passes=0)
    return LayerCosts(
        forward=forward,
        input_gradient=accelerator.seconds(products + 2 * attention, others + 2 * scores)
        + exchange
        + again,
        weight_gradient=accelerator.seconds(products, 0.0),
    )


def _activation(shape: Shape, training: Training) -> Bytes:
    # What a full recompute brings back is what is held when nothing is recomputed.
    kind = training.recompute
    kind = Recompute.NOTHING if kind == Recompute.ALL else kind
    return memory.layer_activation(
        shape, training.tensor, kind, sequence_parallel=training.sequence_parallel
    )


def _head(shape: Shape, accelerator: Accelerator, training: Training) -> Seconds:
    """The output over the vocabulary: its forward, and each half of its backward."""
    share = 1 / training.tensor
    return accelerator.seconds(shape.head_operations * share, shape.head_bytes * share, passes=0)


def _state(weights: int, training: Training) -> Bytes:
    per_weight = training.state.per_weight(training.replicas)
    return -(-round(weights * per_weight) // training.tensor)


def _gradients(weights: int, training: Training) -> Bytes:
    return -(-round(weights * training.state.gradient) // training.tensor)


def _step(weights: int, accelerator: Accelerator, training: Training) -> Seconds:
    replicas = training.replicas if training.state.sharded else 1
    moved = STEP_BYTES * weights / training.tensor / replicas
    return accelerator.seconds(0.0, moved, passes=0)
