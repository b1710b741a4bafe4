"""A transformer's shape, and what a layer of it computes, moves and keeps.

One layer of width h on n = micro-batch x sequence tokens, in operations (Narayanan et al.,
arXiv 2104.04473, appendix; a multiplication and an addition count two)::

    matrices   2 n x weights, weights = 2 h² + 2 h² x kv_heads / heads + k h f
    attention  4 n s h, or half of it where a fused kernel skips what causality masks

f is the width of the feed-forward part and k its matrices (2, or 3 with a gate). Bytes that the
kernels between the products move, of v bytes a value (counted operation by operation, as in
Korthikanti et al., arXiv 2205.05198, section 4.1): two norms and two dropouts with their residual
connections, 11 v n h, which a tensor group repeats on each device unless it splits the sequence
too; the rest of the layer, 14 v n h x (4 h + 3 f) / 16 h, and the softmax with its dropout,
4.5 v a n s (a heads; none in a fused kernel), which it divides.
"""

from dataclasses import dataclass

from geotrain.units import Bytes


@dataclass(frozen=True, slots=True)
class Shape:
    """A decoder; ``sequence`` in tokens, ``micro_batch`` in samples.

    0 stands for the usual: four times the width for ``feed_forward``, as many ``kv_heads`` as
    heads. ``fused`` attention keeps and moves no scores. Raises ValueError with what is wrong.
    """

    layers: int
    hidden: int
    heads: int
    sequence: int
    vocabulary: int
    micro_batch: int = 1
    value_bytes: int = 2
    feed_forward: int = 0
    kv_heads: int = 0
    gated: bool = False
    fused: bool = False

    def __post_init__(self) -> None:
        for name in (
            "layers",
            "hidden",
            "heads",
            "sequence",
            "vocabulary",
            "micro_batch",
            "value_bytes",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"a model's {name} is {getattr(self, name)}; give at least 1")
        for name in ("feed_forward", "kv_heads"):
            if getattr(self, name) < 0:
                raise ValueError(f"a model's {name} is {getattr(self, name)}; give 0 or more")

    @property
    def tokens(self) -> int:
        """Tokens of a micro-batch."""
        return self.micro_batch * self.sequence

    @property
    def width(self) -> int:
        """Width of the feed-forward part."""
        return self.feed_forward or 4 * self.hidden

    @property
    def layer_weights(self) -> int:
        """Weights of one layer; norms and biases are left out."""
        values = 2 * self.hidden**2 * (self.kv_heads or self.heads) // self.heads
        return 2 * self.hidden**2 + values + (2 + self.gated) * self.hidden * self.width

    @property
    def embedding_weights(self) -> int:
        """Weights of the vocabulary's table, at either end of the model."""
        return self.vocabulary * self.hidden

    @property
    def boundary(self) -> Bytes:
        """What a micro-batch is between two layers."""
        return self.tokens * self.hidden * self.value_bytes

    @property
    def matrix_operations(self) -> float:
        """Of one layer's forward."""
        return 2.0 * self.tokens * self.layer_weights

    @property
    def attention_operations(self) -> float:
        """Of one layer's forward: scores and weighted sum."""
        return (2.0 if self.fused else 4.0) * self.tokens * self.sequence * self.hidden

    @property
    def attention_bytes(self) -> float:
        """Moved by one layer's softmax and its dropout."""
        if self.fused:
            return 0.0
        return 4.5 * self.value_bytes * self.heads * self.tokens * self.sequence

    @property
    def repeated_bytes(self) -> float:
        """Moved by one layer's norms, dropouts and residual connections."""
        return 11.0 * self.boundary

    @property
    def divided_bytes(self) -> float:
        """Moved by the rest of one layer's kernels."""
        return 14.0 * self.boundary * (4 * self.hidden + 3 * self.width) / (16 * self.hidden)

    @property
    def head_operations(self) -> float:
        """Of the output over the vocabulary."""
        return 2.0 * self.tokens * self.embedding_weights

    @property
    def head_bytes(self) -> float:
        """Moved by the loss: logits in 16 bits, then softmax and loss in 32."""
        return 12.0 * self.tokens * self.vocabulary
