"""Memory of a device: weights, gradients, optimizer state, activations.

A weight, trained in 16 bits by Adam, is kept in 2 bytes, its gradient in 2 or 4, its main copy and
both moments in 12 (Rajbhandari et al., arXiv 1910.02054, section 3.1); float32 training keeps
4 + 4 + 8. Optimizer state, gradients and weights may each be sharded over the replicas. Of a layer
each device of t tensor ranks holds its part of the weights that every token uses, a ``shard``-th of
it where replicas share one copy (FSDP, Zhao et al., arXiv 2304.11277), and of its experts those of
its tensor group, which ``expert`` groups share.

Activations of one layer and micro-batch, in bytes, for n tokens, width h, a heads, sequence s and
t tensor ranks (Korthikanti et al., arXiv 2205.05198, table 2; 16 bits, f = 4 h, no gate)::

    nothing recomputed                 n h (10 + 24/t + 5 a s / (h t))
    with sequence parallelism          n h (34/t + 5 a s / (h t))
    attention recomputed, or fused     the same without the term of a
    feed-forward recomputed            without its 16/t too
    all recomputed                     2 n h, or 2 n h / t with sequence parallelism

In general 10 n h are the inputs of norms and products with the masks of dropouts, and of 24 n h
four values of h are query, key, value and attention's output (key and value narrower with grouped
heads), the rest f twice, or three times with a gate. Experts keep the tokens that they were sent. A
``lean`` trainer makes cheap parts again and has no dropout: of 10 n h it keeps the inputs of the
two norms, 4 n h, and of a gated part two values of three.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import ceil, fsum
from typing import Final

from geotrain.planning.costs.shapes import Shape
from geotrain.units import Bytes


class Recompute(StrEnum):
    """What the backward computes again."""

    NOTHING = "none"
    ATTENTION = "attention"
    FEED_FORWARD = "selective"
    ALL = "full"


@dataclass(frozen=True, slots=True)
class StateBytes:
    """Bytes that one weight takes of each kind, and over how many replicas each is sharded."""

    weight: float = 2.0
    gradient: float = 2.0
    optimizer: float = 12.0
    sharded: int = 0
    """0: nothing, 1: optimizer state, 2: gradients too, 3: weights too (ZeRO's stages)."""

    def per_weight(self, replicas: int = 1) -> float:
        """Bytes of a weight on each of ``replicas``."""
        return fsum(self.kinds(replicas))

    def kinds(self, replicas: int = 1) -> tuple[float, float, float]:
        """The same for weight, gradient and optimizer state apart."""
        weight, gradient, optimizer = (
            replicas if self.sharded >= stage else 1 for stage in (3, 2, 1)
        )
        return self.weight / weight, self.gradient / gradient, self.optimizer / optimizer


MIXED: Final = StateBytes()
"""16-bit training with gradients in 16 bits."""

MIXED_MAIN_GRADIENTS: Final = StateBytes(gradient=4.0)
"""16-bit training that adds gradients up in 32 bits, as Megatron-LM does."""

SINGLE: Final = StateBytes(4.0, 4.0, 8.0)
"""32-bit training."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """Among how many devices what is divided.

    ``replicas`` hold the same weights; ``expert`` tensor groups hold the experts once, and
    ``shard`` replicas the other weights. A sample's tokens are split over ``context`` devices.
    """

    tensor: int = 1
    context: int = 1
    expert: int = 1
    shard: int = 1
    replicas: int = 1


State = tuple[Bytes, Bytes, Bytes]
"""Bytes of weights, gradients and optimizer state."""


def state(dense: int, experts: int, kept: StateBytes, sharing: Sharing) -> State:
    """What each device holds of so many weights; rounded up to bytes."""
    mine = dense / (sharing.tensor * sharing.shard) + experts / (sharing.tensor * sharing.expert)
    weight, gradient, optimizer = (kind * mine for kind in kept.kinds(1))
    spread = (dense + experts) / (sharing.tensor * sharing.replicas)
    if kept.sharded >= 1:
        optimizer = kept.optimizer * spread
    if kept.sharded >= 2:
        gradient = kept.gradient * spread
    if kept.sharded >= 3:
        weight = kept.weight * spread
    return ceil(weight), ceil(gradient), ceil(optimizer)


def layer_activation(
    shape: Shape,
    tensor: int,
    recompute: Recompute,
    *,
    sequence_parallel: bool = False,
    lean: bool = False,
    context: int = 1,
) -> Bytes:
    """Held of one layer from its forward to its backward, on each device of the tensor group."""
    boundary = shape.boundary / context
    norms = tensor if sequence_parallel else 1
    if recompute == Recompute.ALL:
        return round(boundary / norms)
    values = 2 * shape.hidden + 2 * shape.key_value
    if shape.experts is not None:
        values += shape.experts.per_token * shape.hidden
    if recompute != Recompute.FEED_FORWARD:
        values += (2 + (shape.gated and not lean)) * shape.width
    inputs = (2 if lean else 5) * boundary / norms
    inner = boundary * values / shape.hidden / tensor
    if recompute == Recompute.ATTENTION or shape.fused:
        return round(inputs + inner)
    scores = 2.5 * shape.value_bytes * shape.heads * shape.tokens * shape.sequence
    return round(inputs + inner + scores / tensor / context)
