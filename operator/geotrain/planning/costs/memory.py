"""Memory of a device: weights, gradients, optimizer state, activations.

A weight, trained in 16 bits by Adam, is kept in 2 bytes, its gradient in 2 or 4, its main copy and
both moments in 12 (Rajbhandari et al., arXiv 1910.02054, section 3.1); float32 training keeps
4 + 4 + 8. Optimizer state, gradients and weights may each be sharded over the replicas.

Activations of one layer and micro-batch, in bytes, for n tokens, width h, a heads, sequence s and
t tensor ranks (Korthikanti et al., arXiv 2205.05198, table 2; 16 bits and f = 4 h)::

    nothing recomputed                 n h (10 + 24/t + 5 a s / (h t))
    with sequence parallelism          n h (34/t + 5 a s / (h t))
    attention recomputed, or fused     the same without the term of a
    all recomputed                     2 n h, or 2 n h / t with sequence parallelism
"""

from dataclasses import dataclass
from enum import StrEnum
from math import fsum

from geotrain.planning.costs.shapes import Shape
from geotrain.units import Bytes


class Recompute(StrEnum):
    """What the backward computes again."""

    NOTHING = "None"
    ATTENTION = "Selective"
    ALL = "Full"


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
        shares = [replicas if self.sharded >= stage else 1 for stage in (3, 2, 1)]
        kinds = (self.weight, self.gradient, self.optimizer)
        return fsum(kind / share for kind, share in zip(kinds, shares, strict=True))


MIXED = StateBytes()
"""16-bit training with gradients in 16 bits."""

MIXED_MAIN_GRADIENTS = StateBytes(gradient=4.0)
"""16-bit training that adds gradients up in 32 bits, as Megatron-LM does."""

SINGLE = StateBytes(4.0, 4.0, 8.0)
"""32-bit training."""


def layer_activation(
    shape: Shape, tensor: int, recompute: Recompute, *, sequence_parallel: bool = False
) -> Bytes:
    """Held of one layer from its forward to its backward, on each device of the tensor group."""
    boundary = shape.boundary / (tensor if sequence_parallel else 1)
    if recompute == Recompute.ALL:
        return round(boundary)
    inputs = 5 * boundary
    # Of 24 bytes a value of h, 8 belong to attention and 16 to a feed-forward part of 4 h.
    inner = shape.boundary * (4 + 2 * shape.width / shape.hidden) / tensor
    if recompute == Recompute.ATTENTION or shape.fused:
        return round(inputs + inner)
    scores = 2.5 * shape.value_bytes * shape.heads * shape.tokens * shape.sequence / tensor
    return round(inputs + inner + scores)
