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
    inner = _layer(shape, accelerator, training, node)
    layers = [inner] * shape.layers
    layers[0] = _with_embedding(layers[0], shape, accelerator, training)
    layers[-1] = _with_head(layers[-1], shape, accelerator, training)
    if shape.layers > 1:
        layers[-1] = _with_embedding(layers[-1], shape, accelerator, training)
    return Profile(
        layers=tuple(layers),
        boundary=shape.boundary,
        gradient_bytes_per_layer=_gradients(shape.layer_weights, training),
    )


def _layer(shape: Shape, accelerator: Accelerator, training: Training, node: Node) -> LayerCosts:
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
        activation=_activation(shape, training),
        parameters=_state(shape.layer_weights, training),
        step=_step(shape.layer_weights, accelerator, training),
    )


def _activation(shape: Shape, training: Training) -> Bytes:
    # What a full recompute brings back is what is held when nothing is recomputed.
    kind = training.recompute
    kind = Recompute.NOTHING if kind == Recompute.ALL else kind
    return memory.layer_activation(
        shape, training.tensor, kind, sequence_parallel=training.sequence_parallel
    )


def _with_embedding(
    layer: LayerCosts, shape: Shape, accelerator: Accelerator, training: Training
) -> LayerCosts:
    weights = shape.embedding_weights
    return replace(
        layer,
        parameters=layer.parameters + _state(weights, training),
        step=layer.step + _step(weights, accelerator, training),
        gradients=_gradients(shape.layer_weights + weights, training),
        recompute=layer.forward if layer.recompute is None else layer.recompute,
    )


def _with_head(
    layer: LayerCosts, shape: Shape, accelerator: Accelerator, training: Training
) -> LayerCosts:
    share = 1 / training.tensor
    once = accelerator.seconds(shape.head_operations * share, shape.head_bytes * share, passes=0)
    return replace(
        layer,
        forward=layer.forward + once,
        input_gradient=layer.input_gradient + once,
        weight_gradient=layer.weight_gradient + once,
        recompute=layer.forward if layer.recompute is None else layer.recompute,
    )


def _state(weights: int, training: Training) -> Bytes:
    per_weight = training.state.per_weight(training.replicas)
    return -(-round(weights * per_weight) // training.tensor)


def _gradients(weights: int, training: Training) -> Bytes:
    return -(-round(weights * training.state.gradient) // training.tensor)


def _step(weights: int, accelerator: Accelerator, training: Training) -> Seconds:
    replicas = training.replicas if training.state.sharded else 1
    moved = STEP_BYTES * weights / training.tensor / replicas
    return accelerator.seconds(0.0, moved, passes=0)
