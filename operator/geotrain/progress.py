"""Signals: how a trainer tells the sidecar of its pod what the rank is doing.

One JSON object a datagram, over a unix socket whose path is in GEOTRAIN_SIGNAL; times are seconds
of CLOCK_MONOTONIC. A signal is dropped rather than waited for, and training goes on without them:

    {"event": "iteration", "iteration": 7, "time": t}
    {"event": "compute", "action": "2F0", "time": t, "seconds": 0.0103}
    {"event": "wait", "time": t, "until": t2 or null}
    {"event": "finished", "iteration": 7, "time": t, "seconds": 1.64, "loss": 5.1 or null}
    {"event": "done"}

Standard library only: whoever imports this pulls in nothing else of geotrain.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Mapping
from typing import Final

SIGNAL_VARIABLE: Final = "GEOTRAIN_SIGNAL"


class Progress:
    """Sends a rank's signals through ``send``; every method returns at once.

    ``send`` takes one message and raises OSError where it cannot take it. ``dropped`` counts
    those. ``release`` is called by ``close``.
    """

    def __init__(
        self,
        send: Callable[[bytes], object],
        clock: Callable[[], float] = time.monotonic,
        release: Callable[[], object] = lambda: None,
    ) -> None:
        self._send = send
        self._clock = clock
        self._release = release
        self.dropped = 0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Progress:
        """Signals to the socket that GEOTRAIN_SIGNAL names; to nobody where it is not set."""
        path = environment.get(SIGNAL_VARIABLE, "")
        if not path:
            return cls(lambda _: None)
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        channel.setblocking(False)
        # An address with each message, not a connection: the sidecar may start later, or again.
        return cls(lambda message: channel.sendto(message, path), release=channel.close)

    def iteration(self, number: int) -> None:
        """Say that an iteration begins."""
        self._emit({"event": "iteration", "iteration": number, "time": self._clock()})

    def computing(self, action: str, seconds: float) -> None:
        """Say that an action such as ``2F0`` begins on the GPU and should take ``seconds``."""
        event = {"event": "compute", "action": action, "time": self._clock(), "seconds": seconds}
        self._emit(event)

    def waiting(self, until: float | None = None) -> None:
        """Say that the GPU waits, until about ``until`` where that can be foretold."""
        self._emit({"event": "wait", "time": self._clock(), "until": until})

    def finished(self, number: int, seconds: float, loss: float | None = None) -> None:
        """Say that an iteration took ``seconds``; only the last stage knows the loss."""
        event = {"event": "finished", "iteration": number, "time": self._clock()}
        self._emit({**event, "seconds": seconds, "loss": loss})

    def done(self) -> None:
        """Say that training ended: the GPU is free for good."""
        self._emit({"event": "done"})

    def close(self) -> None:
        """Give the socket back; signals sent later are dropped."""
        self._release()

    def _emit(self, event: dict[str, object]) -> None:
        try:
            self._send(json.dumps(event, separators=(",", ":")).encode())
        except OSError:  # nobody listens, or the listener's queue is full
            self.dropped += 1
