"""A transformer's shape, and what a layer of it weighs, computes, moves and keeps.

One layer of width h on n = micro-batch x sequence tokens of s each, a heads, g of them with keys
and values, in operations (Narayanan et al., arXiv 2104.04473, appendix; a multiplication and an
addition count two)::

    matrices   2 n x weights used, weights = 2 h² (1 + g / a) + k h f
    attention  4 n s h, or half of it where a fused kernel skips what causality masks

f is the width of the feed-forward part and k its matrices: 2, or 3 with a gate (Shazeer, arXiv
2002.05202). A mixture has k h f weights in each of its experts and h for each in the router; a
token uses ``per_token`` of them and all that are ``shared`` (Shazeer et al., arXiv 1701.06538).

Bytes that the kernels between the products move, of v bytes a value (counted operation by
operation, as in Korthikanti et al., arXiv 2205.05198, section 4.1): two norms and two dropouts with
their residual connections, 11 v n h, which a tensor group repeats on each device unless it splits
the sequence too; the rest of the layer, 14 v n (4 h + (k + 1) f) / 16 with f of all that a token
uses, and the softmax with its dropout, 4.5 v a n s (none in a fused kernel), which it divides.
"""

from dataclasses import dataclass
from typing import Final

from geotrain.units import Bytes


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture in every layer: ``per_token`` of ``count`` experts, and ``shared`` ones.

    ``feed_forward`` is the width of one. Raises ValueError with what is wrong.
    """

    count: int
    per_token: int
    feed_forward: int
    shared: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.per_token <= self.count:
            raise ValueError(
                f"a token goes to {self.per_token} of {self.count} experts; give 1 to all of them"
            )
        if self.feed_forward < 1 or self.shared < 0:
            raise ValueError("experts need a feed-forward width of 1 or more and shared 0 or more")

    @property
    def used(self) -> int:
        """Experts that a token passes."""
        return self.per_token + self.shared


_ONE_OR_MORE: Final = ("layers", "hidden", "heads", "sequence", "micro_batch", "value_bytes")
_NONE_OR_MORE: Final = ("vocabulary", "feed_forward", "kv_heads")


@dataclass(frozen=True, slots=True)
class Shape:
    """A decoder of equal layers; ``sequence`` in tokens, ``micro_batch`` in samples.

    0 stands for the usual: four times the width for ``feed_forward``, as many ``kv_heads`` as
    heads. ``vocabulary`` of 0 leaves embedding and output out; ``tied`` ones are one table.
    ``fused`` attention keeps and moves no scores. Raises ValueError with what is wrong.
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
    experts: Experts | None = None
    tied: bool = False

    def __post_init__(self) -> None:
        for names, least in ((_ONE_OR_MORE, 1), (_NONE_OR_MORE, 0)):
            for name in names:
                if getattr(self, name) < least:
                    raise ValueError(
                        f"a model's {name} is {getattr(self, name)}; give {least} or more"
                    )
        if self.kv_heads and self.heads % self.kv_heads:
            raise ValueError(f"{self.kv_heads} key-value heads do not divide {self.heads} heads")

    @property
    def tokens(self) -> int:
        """Tokens of a micro-batch."""
        return self.micro_batch * self.sequence

    @property
    def width(self) -> int:
        """Width of all feed-forward parts that a token passes in a layer."""
        if self.experts is not None:
            return self.experts.used * self.experts.feed_forward
        return self.feed_forward or 4 * self.hidden

    @property
    def key_value(self) -> int:
        """Width of a token's keys, and of its values."""
        return self.hidden * (self.kv_heads or self.heads) // self.heads

    @property
    def attention_weights(self) -> int:
        """Weights of one layer's attention; norms and biases are left out, as everywhere."""
        return 2 * self.hidden * (self.hidden + self.key_value)

    @property
    def dense_weights(self) -> int:
        """Weights of one layer that every token uses."""
        if self.experts is None:
            return self.attention_weights + self._feed_forward(self.width)
        always = self._feed_forward(self.experts.shared * self.experts.feed_forward)
        return self.attention_weights + always + self.hidden * self.experts.count

    @property
    def expert_weights(self) -> int:
        """Weights of all experts of one layer that a token chooses among."""
        if self.experts is None:
            return 0
        return self._feed_forward(self.experts.count * self.experts.feed_forward)

    @property
    def layer_weights(self) -> int:
        """Weights of one layer."""
        return self.dense_weights + self.expert_weights

    @property
    def embedding_weights(self) -> int:
        """Weights of the vocabulary's table, at either end of the model."""
        return self.vocabulary * self.hidden

    @property
    def parameters(self) -> int:
        """Weights of the whole model."""
        tables = 1 if self.tied else 2
        return self.layers * self.layer_weights + tables * self.embedding_weights

    @property
    def boundary(self) -> Bytes:
        """What a micro-batch is between two layers."""
        return self.tokens * self.hidden * self.value_bytes

    @property
    def routed(self) -> Bytes:
        """What a micro-batch is on its way to the experts that its tokens chose."""
        return 0 if self.experts is None else self.boundary * self.experts.per_token

    @property
    def feed_forward_operations(self) -> float:
        """Of one layer's forward, the router's among them."""
        router = 0 if self.experts is None else self.hidden * self.experts.count
        return 2.0 * self.tokens * (self._feed_forward(self.width) + router)

    @property
    def matrix_operations(self) -> float:
        """Of one layer's forward."""
        return 2.0 * self.tokens * self.attention_weights + self.feed_forward_operations

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
        widths = 4 * self.hidden + (3 + self.gated) * self.width
        return 14.0 * self.boundary * widths / (16 * self.hidden)

    @property
    def head_operations(self) -> float:
        """Of the output over the vocabulary."""
        return 2.0 * self.tokens * self.embedding_weights

    @property
    def head_bytes(self) -> float:
        """Moved by the loss: logits in 16 bits, then softmax and loss in 32."""
        return 12.0 * self.tokens * self.vocabulary

    @property
    def model_operations(self) -> float:
        """Of a micro-batch's forward and backward, without what is computed twice.

        The numerator of the model's FLOPs utilisation (Chowdhery et al., arXiv 2204.02311,
        appendix B): a backward is two forwards.
        """
        layer = self.matrix_operations + self.attention_operations
        return 3.0 * (self.layers * layer + self.head_operations)

    def _feed_forward(self, width: int) -> int:
        return (2 + self.gated) * self.hidden * width
