"""The trainer's signals: one JSON object a datagram, on a unix socket (see geotrain.progress)."""

import contextlib
import json
import logging
import math
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from geotrain.units import Bytes, Seconds

_LARGEST: Bytes = 65536

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Begun:
    """An iteration begins."""

    iteration: int
    time: Seconds


@dataclass(frozen=True, slots=True)
class Computing:
    """An action begins on the GPU and should take ``seconds``."""

    action: str
    time: Seconds
    seconds: Seconds


@dataclass(frozen=True, slots=True)
class Waiting:
    """The GPU waits, until about ``until``."""

    time: Seconds
    until: Seconds | None


@dataclass(frozen=True, slots=True)
class Finished:
    """An iteration took ``seconds``."""

    iteration: int
    time: Seconds
    seconds: Seconds
    loss: float | None


@dataclass(frozen=True, slots=True)
class Done:
    """Training has ended."""


Signal: TypeAlias = Begun | Computing | Waiting | Finished | Done


def parse(data: bytes) -> Signal | None:
    """Read a datagram; None where it is no signal. A broken one must not stop the sidecar."""
    try:
        message = json.loads(data)
        return _signal(message)
    except (ValueError, KeyError, TypeError):
        return None


def _signal(m: dict[str, Any]) -> Signal | None:
    event = m["event"]
    if event == "iteration":
        return Begun(int(m["iteration"]), _finite(m["time"]))
    if event == "compute":
        return Computing(str(m["action"]), _finite(m["time"]), _finite(m["seconds"]))
    if event == "wait":
        until = m.get("until")
        return Waiting(_finite(m["time"]), None if until is None else _finite(until))
    if event == "finished":
        loss = m.get("loss")
        return Finished(
            int(m["iteration"]),
            _finite(m["time"]),
            _finite(m["seconds"]),
            None if loss is None else float(loss),
        )
    return Done() if event == "done" else None


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} is no time")
    return number


class SignalSocket:
    """The sidecar's end. It takes the place of what an earlier sidecar left at the path."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)
        self._socket.bind(path)
        self._path.chmod(0o666)  # the trainer may run as any user
        self._complained = False

    def fileno(self) -> int:
        """For an event loop."""
        return self._socket.fileno()

    def read(self) -> Iterator[Signal]:
        """The signals that have arrived."""
        with contextlib.suppress(BlockingIOError):
            while True:
                data = self._socket.recv(_LARGEST)
                signal = parse(data)
                if signal is not None:
                    yield signal
                elif not self._complained:
                    self._complained = True
                    log.warning("ignored what is no signal: %r", data[:80])

    def close(self) -> None:
        """Give the path back."""
        self._socket.close()
        self._path.unlink(missing_ok=True)
