"""How a prompt's prefill is cut into kernels, from the measured times of a layer.

A kernel is one layer over one chunk of the prompt. Chunks have at most 2,048 tokens and are cut
further where a kernel would keep the GPU longer than ``longestKernel`` (6 ms where the profile does
not say), since training waits for that long at worst. With ``layer(n)`` the measured time of one
layer over a prompt of n tokens (linear between the points, proportional before the first, along the
last segment beyond the last), the chunk from token a to b takes ``layer(b) - layer(a)`` in every
layer: later chunks attend to more, and all of them together take what was measured.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

CHUNK = 2048
LONGEST_KERNEL = 0.006
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


class ProfileError(Exception):
    """The prefill profile cannot be used; the message says what is wrong in it."""


def seconds(text: str) -> float:
    """Read a duration such as 4.98ms. Raises ValueError."""
    match = _DURATION.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a duration such as 4.98ms")
    return float(match[1]) * _SECONDS[match[2]]


@dataclass(frozen=True)
class Chunk:
    """Tokens ``begin`` to ``end`` of a prompt; each layer over them takes ``seconds``."""

    begin: int
    end: int
    seconds: float


@dataclass(frozen=True)
class LayerTimes:
    """A model's layers, and (tokens, seconds) points of one of them, ascending in tokens."""

    layers: int
    points: tuple[tuple[int, float], ...]
    longest_kernel: float = LONGEST_KERNEL

    @classmethod
    def from_json(cls, text: str) -> LayerTimes:
        """Read prefill.json. Raises ProfileError."""
        try:
            document = json.loads(text)
            layers, points = int(document["layers"]), tuple(_points(document["layerTimes"]))
            longest = seconds(str(document.get("longestKernel", f"{LONGEST_KERNEL * 1e3:g}ms")))
            return cls(layers, points, longest)
        except (KeyError, TypeError, ValueError) as error:
            raise ProfileError(f"the prefill profile is wrong: {error!r}") from error

    def __post_init__(self) -> None:
        if self.layers < 1 or not self.points:
            raise ValueError("a prefill profile needs layers and layerTimes")
        tokens, times = zip(*((0, 0.0), *self.points), strict=True)
        if list(tokens) != sorted(set(tokens)) or list(times) != sorted(times):
            raise ValueError("layerTimes must ascend in tokens and never fall in time")

    def layer(self, tokens: int) -> float:
        """Seconds of one layer over a prompt of ``tokens``."""
        points = ((0, 0.0), *self.points)
        high = min(bisect_left(points, tokens, lo=1, key=lambda p: p[0]), len(points) - 1)
        (before, low_time), (after, high_time) = points[high - 1], points[high]
        slope = (high_time - low_time) / (after - before)
        return low_time + slope * (tokens - before)

    def chunks(self, tokens: int) -> list[Chunk]:
        """Cut a prompt so that no kernel is longer than the longest, if one token's is not."""
        size = min(CHUNK, tokens)
        while size > 1:
            cut = self._cut(tokens, size)
            if max(chunk.seconds for chunk in cut) <= self.longest_kernel:
                return cut
            size = math.ceil(size / 2)
        return self._cut(tokens, 1)

    def _cut(self, tokens: int, size: int) -> list[Chunk]:
        """Cut into equal chunks of at most ``size`` tokens, the last one maybe shorter."""
        size = math.ceil(tokens / math.ceil(tokens / size))
        ends = [*range(size, tokens, size), tokens]
        return [
            Chunk(begin, end, self.layer(end) - self.layer(begin))
            for begin, end in zip([0, *ends[:-1]], ends, strict=True)
        ]


def _points(entries: Sequence[dict[str, Any]]) -> list[tuple[int, float]]:
    return [(int(entry["tokens"]), seconds(str(entry["time"]))) for entry in entries]
