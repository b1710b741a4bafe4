"""One thread, one epoll, edge-triggered.

Edges spare two system calls a frame: nothing is armed or disarmed as connections fill and drain.
A handler must therefore read until a short read and remember a connection as writable until the
kernel refuses a write. What many events of one wake-up have in common is done once, after them.

While bytes flow in bulk the loop rests a moment after each wake-up, so that the next one finds
many events: on slow links with small windows most of the cost is waking up for every packet. The
rest grows while wake-ups still find little. Small messages set no rest off, so their latency stays
what it is, and the first bytes of a large one wait for the least.
"""

import contextlib
import heapq
import itertools
import logging
import os
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from geotrain.units import Bytes, Seconds

READABLE = select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR | select.EPOLLRDHUP
WRITABLE = select.EPOLLOUT | select.EPOLLHUP | select.EPOLLERR
HUNG_UP = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR
_INTEREST = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET
_LONGEST_WAIT: Seconds = 3600.0
BULK: Bytes = 1400
_PLENTY: Bytes = 64 * 1024
_SHORTEST_SHARE = 0.25
_SCRATCH: Bytes = 256 * 1024
_FAILED = "a handler of the data path failed"

log = logging.getLogger(__name__)

Handler = Callable[[int], None]


class Flushable(Protocol):
    """Something whose events of one wake-up end in one piece of work."""

    def flush(self) -> None:
        """Do what the events made necessary."""


class Timer:
    """A call in the future; ``cancel`` forgets it."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Never call."""
        self._call = None

    def fire(self) -> None:
        """Call, unless it was cancelled."""
        if self._call is not None:
            self._call()


class Loop:
    """Runs handlers, timers and calls from other threads, one at a time, in its own thread.

    ``scratch`` is a buffer that a handler may use until it returns; ``rest`` is how long to wait
    at most after a wake-up that moved at least ``BULK`` bytes. It begins at a quarter of that, and
    doubles with each that moved less than ``_PLENTY``.
    """

    def __init__(self, rest: Seconds = 0.0) -> None:
        self._longest = rest
        self._shortest = self._rest = rest * _SHORTEST_SHARE
        self._bulk: Bytes = 0
        self._epoll = select.epoll()
        self._handlers: dict[int, Handler] = {}
        self._timers: list[tuple[Seconds, int, Timer]] = []
        self._order = itertools.count()
        self._calls: deque[Callable[[], None]] = deque()
        self._dirty: dict[Flushable, None] = {}
        self._closing: list[socket.socket] = []
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._stopping = False
        self._thread: threading.Thread | None = None
        self.scratch = memoryview(bytearray(_SCRATCH))
        self._handlers[self._wake] = self._woken
        self._epoll.register(self._wake, select.EPOLLIN)

    def watch(self, connection: socket.socket, handler: Handler) -> None:
        """Call ``handler`` with epoll's mask on each edge; replaces an earlier handler."""
        descriptor = connection.fileno()
        if descriptor in self._handlers:
            self._handlers[descriptor] = handler
            self._epoll.modify(descriptor, _INTEREST)  # reports what is ready already
        else:
            self._handlers[descriptor] = handler
            self._epoll.register(descriptor, _INTEREST)

    def forget(self, connection: socket.socket) -> None:
        """Call nobody for it any more; the caller closes it, later in this wake-up."""
        descriptor = connection.fileno()
        if self._handlers.pop(descriptor, None) is not None:
            with contextlib.suppress(OSError):
                self._epoll.unregister(descriptor)

    def close(self, connection: socket.socket) -> None:
        """Forget and close, once events of this wake-up can no longer name its descriptor."""
        if connection.fileno() >= 0:
            self.forget(connection)
            self._closing.append(connection)

    def reset(self, connection: socket.socket) -> None:
        """Close with RST: the far end learns that its connection was refused or broken."""
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close(connection)

    def later(self, delay: Seconds, call: Callable[[], None]) -> Timer:
        """Call after ``delay``."""
        timer = Timer(call)
        heapq.heappush(self._timers, (time.monotonic() + delay, next(self._order), timer))
        return timer

    def moved(self, count: Bytes) -> None:
        """A handler has carried ``count`` bytes."""
        self._bulk += count

    def hurry(self) -> None:
        """Do not rest after this wake-up: somebody waits for the answer to it."""
        self._bulk = -_SCRATCH * 1024

    def soon(self, call: Callable[[], None]) -> None:
        """Call from the loop's thread; may be asked from any thread."""
        self._calls.append(call)
        os.eventfd_write(self._wake, 1)

    def touch(self, thing: Flushable) -> None:
        """Flush ``thing`` once, after all events of this wake-up."""
        self._dirty[thing] = None

    def start(self) -> None:
        """Run in a thread of its own."""
        self._thread = threading.Thread(target=self.run, name="carrier", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the loop, and wait for its thread; may be asked from any thread."""
        self._stopping = True
        os.eventfd_write(self._wake, 1)
        if self._thread is not None:
            self._thread.join(timeout=5.0)

    def run(self) -> None:
        """Until ``stop``: wait, handle, flush."""
        while not self._stopping:
            self._turn(self._patience())
            self._pause()
        self._epoll.close()
        os.close(self._wake)

    def _pause(self) -> None:
        """Rest, if this wake-up moved bulk, for as long as it seems to need to find plenty."""
        moved, self._bulk = self._bulk, 0
        if not self._longest or moved < BULK:
            self._rest = self._shortest
            return
        time.sleep(self._rest)
        if moved < _PLENTY:
            self._rest = min(2 * self._rest, self._longest)
        else:
            self._rest = max(self._rest / 2, self._shortest)

    def _turn(self, patience: Seconds) -> None:
        handlers = self._handlers
        for descriptor, mask in self._epoll.poll(patience, 256):
            handler = handlers.get(descriptor)
            if handler is not None:
                try:  # not through _guard: this is by far the most frequent call
                    handler(mask)
                except Exception:
                    log.exception(_FAILED)
        while self._calls:
            self._guard(self._calls.popleft())
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            self._guard(heapq.heappop(self._timers)[2].fire)
        while self._dirty:
            dirty, self._dirty = self._dirty, {}
            for thing in dirty:
                self._guard(thing.flush)
        while self._closing:
            self._closing.pop().close()

    def _guard(self, call: Callable[..., None], *arguments: int) -> None:
        """One broken connection must not take the others down."""
        try:
            call(*arguments)
        except Exception:
            log.exception(_FAILED)

    def _patience(self) -> Seconds:
        if not self._timers:
            return _LONGEST_WAIT
        return max(0.0, self._timers[0][0] - time.monotonic())

    def _woken(self, _mask: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake)
