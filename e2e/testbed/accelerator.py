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

import asyncio
import collections
import ctypes
import json
import os
import selectors
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OWNERS = ("training", "prefill")
LONGEST_KERNEL = 600.0  # seconds; a longer one is a mistake
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


async def answer(
    accelerators: Accelerators, line: bytes, clock: Callable[[], float]
) -> dict[str, Any]:
    """Answers one request line, a kernel's when it has ended."""
    now = clock()
    try:
        request = json.loads(line)
        if not isinstance(request, dict):
            raise RequestError("a request is a JSON object")
        if request.get("query") == "busy":
            return accelerators.report(now)
        kernel = accelerators.submit(request, now)
    except ValueError as error:
        return {"error": str(error)}
    while (left := kernel.end - clock()) > 0:
        await asyncio.sleep(left)
    return {"begin": kernel.begin, "end": kernel.end}


async def serve(path: Path) -> None:
    """Listens on a unix socket that everybody on the node may use, for ever."""
    accelerators = Accelerators()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                reply = await answer(accelerators, line, time.monotonic)
                writer.write(json.dumps(reply).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, asyncio.LimitOverrunError, ValueError):
            pass  # the client went away, or never meant us
        finally:
            writer.close()

    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    server = await asyncio.start_unix_server(converse, path)
    os.chmod(path, 0o666)
    print("ready", flush=True)
    async with server:
        await server.serve_forever()


def main(path: str) -> None:
    """Serves with timers of microseconds: epoll's, asyncio's usual ones, have milliseconds."""
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
    loop.run_until_complete(serve(Path(path)))


if __name__ == "__main__":
    main(sys.argv[1])
