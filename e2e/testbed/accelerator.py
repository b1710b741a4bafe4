"""An emulated accelerator: exclusive devices on which kernels queue for their given durations.

    python3 accelerator.py SOCKET

Training and prefill share a device as they would share a GPU: one kernel at a time, first in, first
out, so that contention between them is real. Device time is exact, whatever the host does: a kernel
begins at its arrival or when the one before it ends, and takes as long as it says.

Protocol, over a unix stream socket, one JSON object a line, times CLOCK_MONOTONIC in seconds:

    {"device": "d", "owner": "training"|"prefill", "label": "2F0", "seconds": 0.0103}
        answered with {"begin": t, "end": t} when the kernel has ended
    {"query": "busy"}
        answered with {"now": t, "devices": {"d": {"training": busy seconds, "prefill": …,
        "trainingKernels": n, "prefillKernels": n}}}
    anything else is answered with {"error": why}

Uses the standard library alone: it runs in whatever image has Python.
"""

import collections
import contextlib
import ctypes
import json
import os
import socketserver
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OWNERS = ("training", "prefill")
LONGEST_KERNEL = 600.0  # seconds; a longer one is a mistake
LONGEST_LINE = 65536  # bytes
PR_SET_TIMERSLACK = 29


class RequestError(ValueError):
    """A request that means nothing; the text says why."""


@dataclass(frozen=True)
class Kernel:
    """One kernel's place on its device."""

    owner: str
    begin: float
    end: float


@dataclass
class Device:
    """One accelerator: when it is free, and how long it has worked for whom."""

    free_at: float = 0.0
    kernels: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OWNERS, 0))
    _ended: dict[str, float] = field(default_factory=lambda: dict.fromkeys(OWNERS, 0.0))
    _pending: collections.deque[Kernel] = field(default_factory=collections.deque)

    def submit(self, owner: str, seconds: float, now: float) -> Kernel:
        """Queues a kernel that arrives now."""
        begin = max(now, self.free_at)
        kernel = Kernel(owner, begin, begin + seconds)
        self.free_at = kernel.end
        self.kernels[owner] += 1
        self._pending.append(kernel)
        return kernel

    def busy(self, now: float) -> dict[str, float]:
        """Seconds worked until now, by owner; of a running kernel the part that has passed."""
        while self._pending and self._pending[0].end <= now:
            kernel = self._pending.popleft()
            self._ended[kernel.owner] += kernel.end - kernel.begin
        passed = dict(self._ended)
        for kernel in self._pending:
            passed[kernel.owner] += max(0.0, now - kernel.begin)
            if kernel.begin >= now:
                break
        return passed


@dataclass
class Accelerators:
    """All devices of a node; each comes into being with its first kernel."""

    devices: dict[str, Device] = field(default_factory=dict)

    def submit(self, request: dict[str, Any], now: float) -> Kernel:
        """Queues the kernel of a request.

        Raises:
            RequestError: the request is no kernel.
        """
        name, owner, seconds = (request.get(key) for key in ("device", "owner", "seconds"))
        if not isinstance(name, str) or not name:
            raise RequestError("device must be a name")
        if owner not in OWNERS:
            raise RequestError(f"owner must be one of {', '.join(OWNERS)}")
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
            raise RequestError("seconds must be a number")
        if not 0 <= seconds <= LONGEST_KERNEL:
            raise RequestError(f"seconds must be between 0 and {LONGEST_KERNEL:.0f}")
        return self.devices.setdefault(name, Device()).submit(owner, float(seconds), now)

    def report(self, now: float) -> dict[str, Any]:
        """The answer to a query: each device's busy seconds and kernels, by owner."""
        return {
            "now": now,
            "devices": {
                name: device.busy(now) | {f"{who}Kernels": n for who, n in device.kernels.items()}
                for name, device in self.devices.items()
            },
        }


def take(accelerators: Accelerators, line: bytes, now: float) -> Kernel | dict[str, Any]:
    """Carries out one request line: the kernel that was queued, else the answer."""
    try:
        request = json.loads(line)
        if not isinstance(request, dict):
            raise RequestError("a request is a JSON object")
        if request.get("query") == "busy":
            return accelerators.report(now)
        return accelerators.submit(request, now)
    except ValueError as error:
        return {"error": str(error)}


class Server(socketserver.ThreadingUnixStreamServer):
    """Serves each client in a thread of its own: they sleep most of the time."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), Conversation)
        self.accelerators = Accelerators()
        self.lock = threading.Lock()


class Conversation(socketserver.StreamRequestHandler):
    """One client, whose requests are answered one after another."""

    server: Server

    def handle(self) -> None:
        """Answers until the client goes away, or sends what can be none of ours."""
        with contextlib.suppress(ConnectionError):
            while (line := self.rfile.readline(LONGEST_LINE)).endswith(b"\n"):
                with self.server.lock:
                    answer = take(self.server.accelerators, line, time.monotonic())
                if isinstance(answer, Kernel):
                    time.sleep(max(0.0, answer.end - time.monotonic()))
                    answer = {"begin": answer.begin, "end": answer.end}
                self.wfile.write(json.dumps(answer).encode() + b"\n")


def main(path: Path) -> None:
    """Listens on a unix socket that everybody on the node may use, for ever."""
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)  # all threads begin with it
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with Server(path) as server:
        os.chmod(path, 0o666)
        print("ready", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
