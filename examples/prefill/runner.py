"""Computes prompts kernel by kernel, each behind the gate of the training rank beside it."""

from __future__ import annotations

import time
import zlib
from dataclasses import dataclass
from typing import Any, Protocol

from geotrain.gate import Gate

from ..trainer.accelerator import Device
from .kernels import Chunk, LayerTimes
from .prompts import Prompt, Prompts
from .words import VOCABULARY, word

_LOOK_AGAIN = 0.25  # how soon a closed gate is left when nobody wants the prompt any more
_BYTES_PER_TOKEN_AND_LAYER = 2 * 8 * 128 * 2  # keys and values of 8 heads of 128, in bfloat16


class Model(Protocol):
    """What is really computed."""

    layers: int

    def enter(self, tokens: list[int]) -> None:
        """Begin a chunk of a prompt."""

    def layer(self, number: int) -> None:
        """Run one layer over the chunk."""

    def token(self) -> int:
        """Return the token that follows the prompt, and forget the prompt."""


class NoModel:
    """Computes nothing: the emulated accelerator is held all the same."""

    layers = 0

    def __init__(self) -> None:
        self._sum = 0

    def enter(self, tokens: list[int]) -> None:
        """Take the tokens into a checksum."""
        self._sum = zlib.crc32(repr(tokens).encode(), self._sum)

    def layer(self, number: int) -> None:
        """Do nothing."""

    def token(self) -> int:
        """Return a token that depends on all tokens taken."""
        total, self._sum = self._sum, 0
        return total % VOCABULARY


class Turnstile:
    """Lets a kernel through when the training rank's GPU is idle for long enough.

    Bubbles shorter than ``minimum`` are left alone; within a longer one any kernel may run that
    ends ``guard`` seconds before it does.
    """

    def __init__(self, gate: Gate | None, guard: float, minimum: float) -> None:
        self._gate = gate
        self._guard = guard
        self._minimum = minimum
        self._is_inside = False

    def wait(self, seconds: float, timeout: float) -> bool:
        """Wait until a kernel of ``seconds`` may start; False after ``timeout``."""
        if self._gate is None:
            return True
        if self._is_inside and self._gate.open_for(seconds, self._guard):
            return True
        self._is_inside = self._gate.wait(max(seconds, self._minimum), self._guard, timeout)
        return self._is_inside


@dataclass
class Runner:
    """Takes prompts from the queue and computes them.

    ``window`` is how many tokens at a prompt's end are really computed; None: all of them. Where
    the accelerator is emulated a few are enough.
    """

    times: LayerTimes
    prompts: Prompts
    turnstile: Turnstile
    device: Device
    model: Model
    window: int | None = None

    def step(self, timeout: float = 1.0) -> None:
        """Compute the next prompt, or wait ``timeout`` seconds for one."""
        prompt = self.prompts.head(timeout)
        if prompt is not None:
            answer: dict[str, Any] | None = None
            try:
                answer = self._prefill(prompt)
            finally:
                self.prompts.finish(prompt, answer)

    def _prefill(self, prompt: Prompt) -> dict[str, Any] | None:
        """Return the answer; None where the prompt was cancelled."""
        tokens = prompt.tokens or _made_up(prompt)
        begun, computed = None, 0.0
        for chunk in self.times.chunks(prompt.count):
            entered = self._enter(tokens, chunk)
            for layer in range(self.times.layers):
                if not self._may_run(prompt, chunk.seconds):
                    self.model.token()
                    return None
                begun = begun or time.monotonic()
                took = self._kernel(chunk, layer, is_real=entered and layer < self.model.layers)
                computed += took
                self.prompts.worked(prompt, took, chunk.seconds)
        assert begun is not None, "a prompt has a token and a model a layer"
        first = self.model.token()
        size = prompt.count * self.times.layers * _BYTES_PER_TOKEN_AND_LAYER
        return {
            "id": prompt.id,
            "queued": begun - prompt.arrived,
            "computed": computed,
            "layers": self.times.layers,
            "kv": {"handle": f"{zlib.crc32(repr(tokens).encode()):08x}", "bytes": size},
            "token": first,
            "text": word(first),
        }

    def _enter(self, tokens: list[int], chunk: Chunk) -> bool:
        """Hand the model the part of the chunk that is really computed, if there is one."""
        begin = 0 if self.window is None else len(tokens) - self.window
        mine = tokens[max(chunk.begin, begin) : chunk.end]
        if mine:
            self.model.enter(mine)
        return bool(mine)

    def _may_run(self, prompt: Prompt, seconds: float) -> bool:
        while not prompt.is_cancelled:
            if self.turnstile.wait(seconds, _LOOK_AGAIN):
                return not prompt.is_cancelled
        return False

    def _kernel(self, chunk: Chunk, layer: int, *, is_real: bool) -> float:
        """Run one layer over the chunk; return how long it had the GPU."""
        begin = time.monotonic()
        self.device.start(f"{chunk.begin}L{layer}", chunk.seconds)
        if is_real:
            self.model.layer(layer)
        self.device.finish()
        return time.monotonic() - begin


def _made_up(prompt: Prompt) -> list[int]:
    """Tokens for a prompt of which only the count is known: the same for the same id."""
    seed = zlib.crc32(prompt.id.encode())
    return [(seed + 7 * position) % VOCABULARY for position in range(prompt.count)]
