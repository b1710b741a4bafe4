"""A tiny transformer that prefills a prompt chunk by chunk, keeping keys and values."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from .words import VOCABULARY


class TinyModel:
    """Single-head layers with weights from a seed; holds one prompt at a time."""

    def __init__(self, layers: int, hidden: int = 32, device: str = "cpu") -> None:
        generator = torch.Generator().manual_seed(0)

        def matrix(rows: int, columns: int) -> Tensor:
            return (torch.randn(rows, columns, generator=generator) * rows**-0.5).to(device)

        self.layers = layers
        self._device = device
        self._embedding = matrix(VOCABULARY, hidden)
        self._projections = [matrix(hidden, 3 * hidden) for _ in range(layers)]
        self._widen = [matrix(hidden, 4 * hidden) for _ in range(layers)]
        self._narrow = [matrix(4 * hidden, hidden) for _ in range(layers)]
        self._x = torch.zeros(0, hidden, device=device)
        self._cache: list[tuple[Tensor, Tensor]] = []

    @torch.no_grad()
    def enter(self, tokens: list[int]) -> None:
        """Begin a chunk of the prompt."""
        indices = torch.tensor(tokens, device=self._device) % VOCABULARY
        self._x = functional.embedding(indices, self._embedding)

    @torch.no_grad()
    def layer(self, number: int) -> None:
        """Run one layer over the chunk, attending to all chunks before it."""
        x = self._x
        query, key, value = (_norm(x) @ self._projections[number]).chunk(3, -1)
        if number < len(self._cache):
            earlier = self._cache[number]
            key, value = torch.cat([earlier[0], key]), torch.cat([earlier[1], value])
            self._cache[number] = key, value
        else:
            self._cache.append((key, value))
        ones = torch.ones(len(query), len(key), dtype=torch.bool, device=self._device)
        later = ones.triu(len(key) - len(query) + 1)
        scores = (query @ key.T * query.shape[1] ** -0.5).masked_fill(later, float("-inf"))
        x = x + scores.softmax(-1) @ value
        self._x = x + functional.gelu(_norm(x) @ self._widen[number]) @ self._narrow[number]
        if self._device != "cpu":
            torch.cuda.synchronize()

    @torch.no_grad()
    def token(self) -> int:
        """Return the most likely next token (0 where nothing was computed); forget the prompt."""
        self._cache = []
        if len(self._x) == 0:
            return 0
        return int((_norm(self._x[-1:]) @ self._embedding.T).argmax())


def _norm(x: Tensor) -> Tensor:
    return functional.layer_norm(x, x.shape[-1:])
