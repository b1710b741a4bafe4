"""What the router needs from the world outside, and how that can fail."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from geotrain.errors import GeotrainError
from geotrain.prefill.fleet import Observation
from geotrain.units import Seconds

Clock: TypeAlias = Callable[[], Seconds]
"""Seconds on a clock that never goes back."""


class WorkerLost(GeotrainError):
    """The worker gave no answer, or its connection broke: another one can do the work."""


class WorkerBusy(GeotrainError):
    """The worker answered that it takes no work now (503): another one can do the work."""


class WorkerRefused(GeotrainError):
    """The worker answered that the request itself is wrong; no other would take it."""


class DecodeFailed(GeotrainError):
    """The decode service did not go on with a prefilled request."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt: how many tokens it has, and which, where the client gave them as ids."""

    tokens: int
    ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Text:
    """What a model wrote."""

    text: str = ""
    tokens: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Prefilled:
    """A worker's answer: where the keys and values lie, and the first token if it says one."""

    kv: Mapping[str, Any]
    queued: Seconds = 0.0
    computed: Seconds = 0.0
    first: Text = field(default_factory=Text)


class WorkerClient(Protocol):
    """Prefill workers, by base URL."""

    async def observe(self, url: str) -> Observation:
        """Ask a worker for its state, in this process's clock. Raises WorkerLost."""
        ...

    async def prefill(self, url: str, request: str, prompt: Prompt) -> Prefilled:
        """Have a prompt prefilled and wait for it. Raises WorkerLost, WorkerBusy, WorkerRefused."""
        ...


class DecodeClient(Protocol):
    """The decode service."""

    async def decode(
        self, request: str, kv: Mapping[str, Any], max_tokens: int, sampling: Mapping[str, Any]
    ) -> Text:
        """Write up to ``max_tokens`` tokens after a prefill. Raises DecodeFailed."""
        ...
