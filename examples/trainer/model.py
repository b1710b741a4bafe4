"""A small GPT, cut into stages: embedding in the first, head and loss in the last.

Every layer's weights come from a generator seeded by the layer's number, so any cut gives the
same model. The head has weights of its own: tied ones would have to cross the whole pipeline.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

_HEAD = 1_000_003  # seeds of the parts that are no layer
_EMBEDDING = 1_000_033


@dataclass(frozen=True)
class Shape:
    """The model's size."""

    layers: int
    hidden: int = 32
    sequence: int = 16
    vocabulary: int = 64
    seed: int = 0


class Embedding(nn.Module):
    """Tokens and their positions."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.empty(shape.vocabulary, shape.hidden))
        self.position = nn.Parameter(torch.empty(shape.sequence, shape.hidden))

    def forward(self, tokens: Tensor) -> Tensor:
        """(batch, sequence) to (batch, sequence, hidden)."""
        return functional.embedding(tokens, self.token) + self.position


class Layer(nn.Module):
    """Causal self-attention and a feed-forward network, each after a norm and beside a bypass."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        hidden = shape.hidden
        self.before_attention = nn.LayerNorm(hidden)
        self.query_key_value = nn.Linear(hidden, 3 * hidden, bias=False)
        self.attended = nn.Linear(hidden, hidden, bias=False)
        self.before_feed = nn.LayerNorm(hidden)
        self.widen = nn.Linear(hidden, 4 * hidden, bias=False)
        self.narrow = nn.Linear(4 * hidden, hidden, bias=False)
        mask = torch.full((shape.sequence, shape.sequence), float("-inf")).triu(1)
        self.register_buffer("mask", mask, persistent=False)
        self.scale = hidden**-0.5

    def forward(self, x: Tensor) -> Tensor:
        """(batch, sequence, hidden) to the same; shorter sequences may come."""
        length = x.shape[1]
        query, key, value = self.query_key_value(self.before_attention(x)).chunk(3, -1)
        scores = query @ key.transpose(-1, -2) * self.scale + self.mask[:length, :length]
        x = x + self.attended(scores.softmax(-1) @ value)
        return x + self.narrow(functional.gelu(self.widen(self.before_feed(x))))


class Head(nn.Module):
    """Scores of the next token."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(shape.hidden)
        self.out = nn.Linear(shape.hidden, shape.vocabulary, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, sequence, hidden) to (batch, sequence, vocabulary)."""
        return self.out(self.norm(x))


def build(shape: Shape, stage: int, stages: int) -> nn.Sequential:
    """Build one stage of ``stages`` with the weights that the whole model would have there."""
    first, end = span(shape.layers, stage, stages)
    parts: list[tuple[int, nn.Module]] = [(i, Layer(shape)) for i in range(first, end)]
    if stage == 0:
        parts.insert(0, (_EMBEDDING, Embedding(shape)))
    if stage == stages - 1:
        parts.append((_HEAD, Head(shape)))
    for number, part in parts:
        _initialise(part, shape.seed + number)
    return nn.Sequential(*(part for _, part in parts))


def loss(scores: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy of the next tokens."""
    return functional.cross_entropy(scores.flatten(0, 1), targets.flatten())


def samples(first: int, count: int, shape: Shape) -> tuple[Tensor, Tensor]:
    """Make the (inputs, targets) of ``count`` samples: arithmetic sequences, which can be learnt.

    A sample depends on nothing but its number, so every rank makes its own without asking.
    """
    steps = torch.arange(shape.sequence + 1)
    rows = [((n * 2_654_435_761) >> 8) + (1 + (n * 40_503 >> 4) % 3) * steps
            for n in range(first, first + count)]  # fmt: skip
    tokens = torch.stack(rows) % shape.vocabulary
    return tokens[:, :-1], tokens[:, 1:]


def span(layers: int, stage: int, stages: int) -> tuple[int, int]:
    """Return which layers ``stage`` holds; the first ones hold one more where it does not divide.

    Raises ValueError where a stage would be empty.
    """
    each, rest = divmod(layers, stages)
    if each == 0:
        raise ValueError(f"{layers} layers cannot fill {stages} stages")
    first = stage * each + min(stage, rest)
    return first, first + each + (1 if stage < rest else 0)


def _initialise(part: nn.Module, seed: int) -> None:
    """Fill every matrix from a generator of the part's own; norms start as the identity."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in part.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, 0.08, generator=generator)
