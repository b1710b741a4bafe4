"""Client of the emulated accelerator: an exclusive device on which kernels queue for their time.

On a test bed without GPUs training and prefill processes of a node ask the same server for the
same device, so they contend as they would on a GPU. One connection a client, one JSON line a
message; the reply comes when the kernel has ended:

    {"device": "team-a_gpt_r2", "owner": "training", "label": "2F0", "seconds": 0.0103}
    {"begin": 12.5, "end": 12.5103}
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Mapping
from typing import Protocol

ADDRESS_VARIABLE = "GEOTRAIN_ACCELERATOR"
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0


class AcceleratorError(Exception):
    """The server stayed away for longer than the client's patience, or refused the kernel."""


class Device(Protocol):
    """Runs kernels one after another."""

    def start(self, label: str, seconds: float) -> None:
        """Queue a kernel of ``seconds`` and return at once."""

    def finish(self) -> None:
        """Wait until the kernel that was started has ended."""

    def run(self, label: str, seconds: float) -> None:
        """Queue a kernel and wait until it has ended."""


class NoDevice:
    """Where no accelerator is emulated, the real computation is all there is."""

    def start(self, label: str, seconds: float) -> None:
        """Do nothing."""

    def finish(self) -> None:
        """Do nothing."""

    def run(self, label: str, seconds: float) -> None:
        """Do nothing."""


class Accelerator:
    """A device of the emulated accelerator at a unix socket; for one thread.

    A connection that breaks is made anew and the kernel queued again, for up to ``patience``
    seconds: the server may restart. Raises AcceleratorError.
    """

    def __init__(
        self,
        address: str,
        device: str,
        owner: str,
        patience: float = 30.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._address = address
        self._device = device
        self._owner = owner
        self._patience = patience
        self._sleep = sleep
        self._connection: socket.socket | None = None
        self._pending: bytes | None = None

    def start(self, label: str, seconds: float) -> None:
        """Queue a kernel, so that the caller can do its real work while the device is held."""
        assert self._pending is None, "the last kernel was not finished"
        if seconds <= 0:
            return
        kernel = {"device": self._device, "owner": self._owner, "label": label}
        self._pending = json.dumps({**kernel, "seconds": seconds}).encode() + b"\n"
        try:
            self._send(self._pending)
        except OSError:
            self.close()  # finish() queues it again

    def finish(self) -> None:
        """Wait until the kernel has ended."""
        if self._pending is None:
            return
        deadline, pause = time.monotonic() + self._patience, _FIRST_PAUSE
        while (reply := self._reply()) is None:
            if time.monotonic() >= deadline:
                raise AcceleratorError(f"nobody answers at {self._address}")
            self._sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        self._pending = None
        if "end" not in reply:
            raise AcceleratorError(f"the accelerator refused the kernel: {reply}")

    def run(self, label: str, seconds: float) -> None:
        """Queue a kernel and wait until it has ended."""
        self.start(label, seconds)
        self.finish()

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _reply(self) -> dict[str, object] | None:
        """The answer to what is pending; None where the connection broke."""
        try:
            if self._connection is None:
                assert self._pending is not None
                self._send(self._pending)
            line = self._read_line()
        except OSError:
            line = b""
        if not line.endswith(b"\n"):
            self.close()
            return None
        reply: dict[str, object] = json.loads(line)
        return reply

    def _send(self, message: bytes) -> None:
        if self._connection is None:
            self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._connection.connect(self._address)
        self._connection.sendall(message)

    def _read_line(self) -> bytes:
        assert self._connection is not None
        line = b""
        while not line.endswith(b"\n"):
            piece = self._connection.recv(4096)
            if not piece:
                break
            line += piece
        return line


def device_for_rank(environment: Mapping[str, str] = os.environ) -> Device:
    """Return the device of a training rank: named by its job and rank, as its gate page is."""
    address = environment.get(ADDRESS_VARIABLE, "")
    if not address:
        return NoDevice()
    job = environment.get("GEOTRAIN_JOB", "default/job").replace("/", "_")
    return Accelerator(address, f"{job}_r{environment.get('RANK', '0')}", "training")
