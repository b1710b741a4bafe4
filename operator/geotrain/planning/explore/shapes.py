"""A model's shape: what a layer weighs, computes, keeps and sends. Dense and mixture of experts.

For hidden size h, n heads of which k hold keys and values, feed-forward width f with a gate, s
tokens a sample::

    attention weights   h² (2 + 2 k/n)             query, output; key, value
    feed-forward        3 h f                      gate, up, down
    experts             3 h f_e each, h x count for the router; a token uses per_token + shared
    operations a token  2 x weights used + 2 s h   (attention: scores and sum, causal)
    backward            input gradient: weights + 2 x attention; weight gradient: weights

(Narayanan et al., arXiv 2104.04473, appendix; Shazeer, arXiv 2002.05202 for the gate.)

Kept of a token from forward to backward, in values: the inputs of both norms 2h, query h, key and
value 2 h k/n, attention's output h, gate and up 2f (the norms' outputs and the gate's product are
cheap to make again and are not kept); for an expert also the token it was sent, h. ``selective``
recompute drops gate and up and pays 2/3 of the feed-forward again; ``full`` keeps the layer's
input only and pays the forward again (Korthikanti et al., arXiv 2205.05198).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Recompute = Literal["none", "selective", "full"]
RECOMPUTES: tuple[Recompute, ...] = ("none", "selective", "full")


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture in every layer: ``per_token`` of ``count`` experts, and ``shared`` ones."""

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


@dataclass(frozen=True)
class Shape:
    """A decoder of equal layers. Bytes are those of one parameter.

    ``parameter_bytes`` also counts for activations; ``optimizer_bytes`` holds the main copy and
    the two moments in 32 bit. ``vocabulary`` of 0 leaves embedding and output out.
    """

    layers: int
    hidden: int
    sequence: int
    feed_forward: int
    heads: int
    key_value_heads: int
    vocabulary: int = 0
    experts: Experts | None = None
    parameter_bytes: int = 2
    gradient_bytes: int = 4
    optimizer_bytes: int = 12

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "sequence", "heads", "key_value_heads"):
            if getattr(self, name) < 1:
                raise ValueError(f"a model's {name} is {getattr(self, name)}; give 1 or more")
        if self.feed_forward < 1 and self.experts is None:
            raise ValueError("a dense model needs a feed-forward width of 1 or more")
        if self.heads % self.key_value_heads:
            raise ValueError(
                f"{self.key_value_heads} key-value heads do not divide {self.heads} heads"
            )

    @property
    def key_value(self) -> float:
        """Width of a token's keys, and of its values."""
        return self.hidden * self.key_value_heads / self.heads

    @cached_property
    def dense_weights(self) -> float:
        """Weights of a layer that every token uses."""
        attention = 2 * self.hidden * (self.hidden + self.key_value)
        return attention + self._shared_feed_forward() + self._router()

    @cached_property
    def expert_weights(self) -> float:
        """Weights of all experts of a layer."""
        if self.experts is None:
            return 0.0
        return 3.0 * self.hidden * self.experts.feed_forward * self.experts.count

    @cached_property
    def feed_forward_operations(self) -> float:
        """Forward operations of a token in a layer's feed-forward part."""
        weights = self._shared_feed_forward() + self._router()
        if self.experts is not None:
            weights += self.expert_weights * self.experts.per_token / self.experts.count
        return 2 * weights

    @cached_property
    def matrix_operations(self) -> float:
        """Forward operations of a token in a layer, but for attention's scores and sum."""
        return 4 * self.hidden * (self.hidden + self.key_value) + self.feed_forward_operations

    @property
    def attention_operations(self) -> float:
        """Forward operations of a token in a layer's causal attention."""
        return 2.0 * self.sequence * self.hidden

    @property
    def head_operations(self) -> float:
        """Forward operations of a token in the output over the vocabulary."""
        return 2.0 * self.hidden * self.vocabulary

    @property
    def parameters(self) -> float:
        """Weights of the whole model."""
        layer = self.dense_weights + self.expert_weights
        return self.layers * layer + 2.0 * self.vocabulary * self.hidden

    def kept(self, recompute: Recompute) -> float:
        """Bytes of a token that a layer keeps from forward to backward."""
        if recompute == "full":
            return self.parameter_bytes * self.hidden
        values = 4 * self.hidden + 2 * self.key_value
        width = self.feed_forward if self.experts is None else 0
        if self.experts is not None:
            values += self.experts.per_token * self.hidden
            width = (self.experts.per_token + self.experts.shared) * self.experts.feed_forward
        if recompute == "none":
            values += 2 * width
        return self.parameter_bytes * values

    def transient(self, recompute: Recompute) -> float:
        """Bytes of a token that one layer needs while it is computed again."""
        return 0.0 if recompute == "none" else self.kept("none")

    def _shared_feed_forward(self) -> float:
        if self.experts is None:
            return 3.0 * self.hidden * self.feed_forward
        return 3.0 * self.hidden * self.experts.feed_forward * self.experts.shared

    def _router(self) -> float:
        return 0.0 if self.experts is None else float(self.hidden * self.experts.count)
