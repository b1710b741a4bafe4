"""Two connections joined to one: plain ones straight through, and those a mate passes on."""

import socket
from collections.abc import Callable
from functools import partial

from geotrain.roles.sidecar.loop import HUNG_UP, READABLE, WRITABLE, Loop
from geotrain.roles.sidecar.meters import Meter

_NOTHING = memoryview(b"")


class _Direction:
    """Bytes from one socket to the other, and those that the other could not take yet."""

    __slots__ = ("ended", "meter", "rest", "sink", "source")

    def __init__(self, source: socket.socket, sink: socket.socket, meter: Meter) -> None:
        self.source = source
        self.sink = sink
        self.meter = meter
        self.rest = _NOTHING
        self.ended = False


class Splice:
    """Carries both directions until both have ended, or either breaks; then both are closed.

    ``sent`` and ``returned`` count what goes to the far and to the near side. A reset of one side
    is passed on to the other.
    """

    def __init__(
        self,
        loop: Loop,
        near: socket.socket,
        far: socket.socket,
        sent: Meter,
        returned: Meter,
        ended: Callable[["Splice"], None] = lambda _: None,
    ) -> None:
        self._loop = loop
        self._ended = ended
        self._out = _Direction(near, far, sent)
        self._back = _Direction(far, near, returned)
        self._open = True
        loop.watch(near, partial(self._event, self._out, self._back))
        loop.watch(far, partial(self._event, self._back, self._out))

    def abort(self) -> None:
        """Reset both sides."""
        if self._open:
            for connection in (self._out.source, self._out.sink):
                self._loop.reset(connection)
            self._finish()

    def _event(self, reading: _Direction, writing: _Direction, mask: int) -> None:
        """An edge of one socket: ``reading`` comes from it, ``writing`` goes to it."""
        try:
            if self._open and mask & READABLE and not reading.rest:
                self._move(reading, bool(mask & HUNG_UP))
            if self._open and mask & WRITABLE and writing.rest:
                self._move(writing, hung_up=True)
        except OSError:
            self.abort()

    def _move(self, way: _Direction, hung_up: bool) -> None:
        """Until the source is drained or the sink is full, which it says by taking only a part."""
        scratch = self._loop.scratch
        try:
            if way.rest and not self._pass_on(way, way.rest):
                return
            while not way.ended:
                count = way.source.recv_into(scratch)
                if not count:
                    way.ended = True
                    way.sink.shutdown(socket.SHUT_WR)
                    self._settle()
                    return
                self._loop.moved(count)
                if not self._pass_on(way, scratch[:count]):
                    return
                if count < len(scratch) and not hung_up:
                    return
        except BlockingIOError:
            return

    def _pass_on(self, way: _Direction, data: memoryview) -> bool:
        """Whether the sink took everything; what it did not take is kept."""
        try:
            taken = way.sink.send(data)
        except BlockingIOError:
            taken = 0
        way.meter.bytes += taken
        is_done = taken == len(data)
        way.rest = _NOTHING if is_done else memoryview(bytes(data[taken:]))
        return is_done

    def _settle(self) -> None:
        if self._out.ended and self._back.ended:
            self._loop.close(self._out.source)
            self._loop.close(self._out.sink)
            self._finish()

    def _finish(self) -> None:
        self._open = False
        self._ended(self)
