"""How long a prompt's prefill takes: layer by layer, piecewise linear in its tokens.

    layer(n)   = linear between the measured points; proportional below the first,
                 along the last segment beyond the last
    prefill(n) = layers · layer(n)                               seconds, on an idle GPU

A kernel is one layer over one chunk of the prompt, and the GPU is given back to training between
kernels only. The reference worker (``examples/prefill``) cuts chunks of at most 2,048 tokens, and
smaller ones where a kernel would take longer than ``longest_kernel``; the chunk from token a to b
takes

    layer(b) - layer(a)                                          seconds in every layer

as later chunks attend to more, and all of them together take what was measured. A worker that
cuts otherwise is predicted well in all but the remainder that no kernel fits into.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from geotrain.prefill.admission import Piece, Work
from geotrain.units import Seconds

CHUNK: Final = 2048
"""Most tokens in a chunk."""
LONGEST_KERNEL: Final[Seconds] = 0.006
"""How long training may have to wait at worst, where the profile says nothing else."""


@dataclass(frozen=True, slots=True)
class LayerTime:
    """One measured point: a layer takes ``time`` for a prompt of ``tokens``."""

    tokens: int
    time: Seconds

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ValueError(f"a layer time is given for {self.tokens} tokens; give 1 or more")
        if not 0 < self.time < float("inf"):
            raise ValueError(f"a layer of {self.tokens} tokens takes {self.time} s; give above 0")


@dataclass(frozen=True, slots=True)
class PrefillProfile:
    """The measured prefill of a model on one worker; the points ascend in tokens."""

    layers: int
    layer_times: tuple[LayerTime, ...]
    longest_kernel: Seconds = LONGEST_KERNEL

    def __post_init__(self) -> None:
        if self.layers < 1:
            raise ValueError(f"the model has {self.layers} layers; give 1 or more")
        if not self.layer_times:
            raise ValueError("there are no layer times; give one or more points")
        if not self.longest_kernel > 0:
            raise ValueError(f"the longest kernel is {self.longest_kernel} s; give above 0")
        for before, after in pairwise(self.layer_times):
            if after.tokens <= before.tokens or after.time < before.time:
                raise ValueError(
                    f"a layer of {after.tokens} tokens follows one of {before.tokens}; "
                    "points must ascend in tokens and never fall in time"
                )

    def layer_time(self, tokens: int) -> Seconds:
        """Seconds that one layer takes for a prompt of ``tokens``."""
        first, last = self.layer_times[0], self.layer_times[-1]
        if tokens <= first.tokens:
            return first.time * tokens / first.tokens
        if len(self.layer_times) == 1:
            return last.time * tokens / last.tokens
        low, high = next(
            (pair for pair in pairwise(self.layer_times) if tokens <= pair[1].tokens),
            self.layer_times[-2:],
        )
        slope = (high.time - low.time) / (high.tokens - low.tokens)
        return low.time + slope * (tokens - low.tokens)

    def prefill_time(self, tokens: int) -> Seconds:
        """Seconds that the whole prefill takes on a GPU that nobody else uses."""
        return self.layers * self.layer_time(tokens)

    def work(self, tokens: int) -> Work:
        """Cut the prefill of ``tokens`` into pieces between which it can pause.

        The largest equal chunks whose kernels are short enough; of one token where none is.
        """
        size = min(CHUNK, tokens)
        while True:
            kernels = self._kernels(tokens, size)
            if size == 1 or max(kernels) <= self.longest_kernel:
                return Work(tuple(Piece(time, self.layers) for time in kernels if time > 0))
            size = math.ceil(size / 2)

    def _kernels(self, tokens: int, most: int) -> list[Seconds]:
        """Time each of the equal chunks of at most ``most`` tokens, the last maybe shorter."""
        size = math.ceil(tokens / math.ceil(tokens / most))
        ends = [*range(0, tokens, size), tokens]
        return [self.layer_time(end) - self.layer_time(begin) for begin, end in pairwise(ends)]
