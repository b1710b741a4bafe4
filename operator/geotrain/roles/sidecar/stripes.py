"""One end of a striped connection: the application's socket on one side, lanes on the other.

Every lane is drained whenever it has something, whatever its turn: reading in turns costs half
the rate on a long link. The path with the least on its way gets the next frame, on any lane that
can take it, so a slow lane slows nobody. All events of one wake-up end in one delivery and one
round of sending.
"""

import contextlib
import logging
import socket
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Protocol

from geotrain.roles.sidecar.loop import HUNG_UP, READABLE, WRITABLE, Loop, Timer
from geotrain.roles.sidecar.meters import Meter
from geotrain.striping.frames import ProtocolError
from geotrain.striping.lanes import Lane
from geotrain.striping.stream import Stream, reset_frame
from geotrain.units import Bytes, Seconds

_LINGER: Seconds = 5.0
"""How long the lanes of an ended stream may take to be closed by the far end."""
ABANDONED: Seconds = 30.0
"""How long a stream without any lane waits for one."""

log = logging.getLogger(__name__)


class Keeper(Protocol):
    """Who keeps a stripe's lanes open: the end that opened it."""

    def lost(self, number: int) -> None:
        """A lane died."""

    def progressed(self, moved: Bytes) -> None:
        """So many bytes have been carried in both directions."""


class Link:
    """A lane and its connection. ``is_ready`` until the kernel refuses a write."""

    __slots__ = ("connection", "is_ready", "lane", "meter")

    def __init__(self, connection: socket.socket, lane: Lane, meter: Meter) -> None:
        self.connection = connection
        self.lane = lane
        self.meter = meter
        self.is_ready = True


class Stripe:
    """Carries one application connection over lanes that come and go.

    ``keeper`` hears of progress and of lanes that died, ``ended`` is called once, at the end.
    Until ``serve`` gives it the application's connection, arriving bytes wait in the buffer.
    """

    def __init__(
        self,
        loop: Loop,
        stream: Stream,
        ended: Callable[["Stripe"], None],
        keeper: Keeper | None = None,
    ) -> None:
        self._loop = loop
        self._ended = ended
        self._keeper = keeper
        self._app: socket.socket | None = None
        self._app_readable = False
        self._app_hung_up = False
        self._app_writable = True
        self._told_end = False
        self._links: list[Link] = []
        self._ready: dict[int, deque[Link]] = {}
        self._halfway: deque[Link] = deque()
        self._closing = False
        self._is_finished = False
        self._timer: Timer | None = None
        self.stream = stream

    @property
    def lanes(self) -> int:
        """Connections that carry it now."""
        return len(self._links)

    @property
    def moved(self) -> Bytes:
        """Bytes carried in both directions."""
        return self.stream.bytes_sent + self.stream.bytes_received

    @property
    def is_over(self) -> bool:
        """No byte will move any more."""
        return self._closing

    @property
    def _is_complete(self) -> bool:
        """Both applications have ended their streams, and this one has all of the other's."""
        return self.stream.is_remote_finished and self.stream.is_local_finished

    def serve(self, app: socket.socket) -> None:
        """The application's connection is there."""
        if self._closing:
            self._loop.reset(app)
            return
        self._app = app
        self._loop.watch(app, self._app_event)
        self._loop.touch(self)

    def join(self, connection: socket.socket, number: int, meter: Meter) -> None:
        """A connection carries this stream from now on."""
        if self._closing:
            self._loop.close(connection)
            return
        link = Link(connection, self.stream.attach(number), meter)
        self._links.append(link)
        self._is_ready(link)
        if self._timer is not None:
            self._timer.cancel()
        self._loop.watch(connection, partial(self._lane_event, link))
        self._loop.touch(self)

    def refuse(self) -> None:
        """Tell the far end that the application's connection broke or was refused; then end."""
        if not self._closing:
            self._say_reset()
            self._part()

    def abort(self) -> None:
        """End at once; the application is reset unless its streams were complete."""
        if not self._is_finished:
            self._leave_app()
            for link in self._links:
                self._loop.close(link.connection)
            self._finish()

    def flush(self) -> None:
        """Deliver, read, send: what the events of a wake-up made possible."""
        if self._closing:
            return
        try:
            self._deliver()
            if self._app_readable:
                self._read_app()
        except OSError:
            self.refuse()
            return
        self._send()
        if not self._app_writable and self.stream.deliverable():
            self._loop.hurry()  # its buffer may be small: it must not wait for us as well
        if self._keeper is not None:
            self._keeper.progressed(self.moved)
        if self.stream.is_done:
            self._part()

    def _app_event(self, mask: int) -> None:
        if mask & READABLE:
            self._app_readable = True
            self._app_hung_up = self._app_hung_up or bool(mask & HUNG_UP)
        if mask & WRITABLE:
            self._app_writable = True
        self._loop.touch(self)

    def _lane_event(self, link: Link, mask: int) -> None:
        if mask & WRITABLE and not link.is_ready:
            link.is_ready = True
            if link.lane.pending:  # before those that wait for something to do
                self._halfway.append(link)
            else:
                self._is_ready(link)
        if mask & READABLE:
            self._drain(link, bool(mask & HUNG_UP))
        self._loop.touch(self)

    def _drain(self, link: Link, hung_up: bool) -> None:
        scratch = self._loop.scratch
        try:
            while True:
                count = link.connection.recv_into(scratch)
                if not count:
                    self._drop(link)
                    self._end_with_lanes()
                    return
                self._loop.moved(count)
                if not self._closing:
                    self.stream.receive(link.lane, scratch[:count])
                if count < len(scratch) and not hung_up:
                    break
        except BlockingIOError:
            pass
        except OSError:
            self._drop(link)
        except ProtocolError as error:
            log.warning("a stream is void: %s", error)
            self.refuse()
            return
        if self.stream.is_reset and not self._closing:
            self.abort()

    def _deliver(self) -> None:
        app, stream = self._app, self.stream
        if app is None:
            return
        with contextlib.suppress(BlockingIOError):
            while self._app_writable:
                data = stream.deliverable()
                if not data:
                    break
                self._app_writable = False  # unless it takes everything
                count = app.send(data)
                stream.take(count)
                self._app_writable = count == len(data)
        if stream.is_remote_finished and not self._told_end:
            self._told_end = True
            app.shutdown(socket.SHUT_WR)

    def _read_app(self) -> None:
        app, stream = self._app, self.stream
        if app is None or stream.is_local_finished:
            return
        while space := stream.space():
            try:
                count = app.recv_into(space)
            except BlockingIOError:
                self._app_readable = False
                return
            if not count:
                stream.finish()
                self._app_readable = False
                return
            stream.wrote(count)
            self._loop.moved(count)
            if count < len(space) and not self._app_hung_up:
                self._app_readable = False
                return

    def _send(self) -> None:
        while self._halfway:
            self._give(self._halfway.popleft())
        while (path := self.stream.next_path(self._ready)) is not None:
            links = self._ready[path]
            link = links.popleft()
            if not links:
                del self._ready[path]
            self._give(link)

    def _give(self, link: Link) -> None:
        """Give a lane its rest, or the next frame; one that takes all of it is ready again."""
        pieces = self.stream.offer(link.lane)
        try:
            count = link.connection.sendmsg(pieces)
        except BlockingIOError:
            link.is_ready = False
            return
        except OSError:
            self._drop(link)
            return
        link.meter.bytes += count
        if self.stream.accepted(link.lane, pieces, count):
            self._is_ready(link)
        else:
            link.is_ready = False

    def _is_ready(self, link: Link) -> None:
        """The link can take a frame; those of its path that could before go first."""
        self._ready.setdefault(link.lane.path, deque()).append(link)

    def _drop(self, link: Link) -> None:
        """A lane's connection ended: what it held goes over the others."""
        if link not in self._links:
            return
        self._links.remove(link)
        self._loop.close(link.connection)
        self._forget(link)
        again = self.stream.detach(link.lane)
        if self._closing:
            if not self._links:
                self._finish()
            return
        if not self._is_complete:
            log.info("lane %d died, %d bytes go over %d more", link.lane.number, again, self.lanes)
        if not self._links:
            self._timer = self._loop.later(ABANDONED, self.abort)
        if self._keeper is not None:
            self._keeper.lost(link.lane.number)
        self._loop.touch(self)

    def _forget(self, link: Link) -> None:
        """Give it nothing more."""
        if link in self._halfway:
            self._halfway.remove(link)
        ready = self._ready.get(link.lane.path)
        if ready and link in ready:
            ready.remove(link)
            if not ready:
                del self._ready[link.lane.path]

    def _end_with_lanes(self) -> None:
        """The far end has closed them all: it does so when it was told that all has arrived."""
        if not self._links and not self._closing and self.stream.is_delivered:
            self._part()

    def _say_reset(self) -> None:
        """On the first lane that is between two frames and takes it."""
        for link in chain.from_iterable(self._ready.values()):
            with contextlib.suppress(OSError):
                link.connection.send(reset_frame())
                return

    def _part(self) -> None:
        """Carry no more, and wait for the far end to close its lanes.

        Closing a connection that has unread bytes would take back what was sent on it.
        """
        self._closing = True
        self._leave_app()
        for link in list(self._links):
            try:
                link.connection.shutdown(socket.SHUT_WR)
            except OSError:
                self._drop(link)
        if self._links:
            self._timer = self._loop.later(_LINGER, self.abort)
        else:
            self._finish()

    def _leave_app(self) -> None:
        app, self._app = self._app, None
        if app is None:
            return
        if self._is_complete:
            self._loop.close(app)
        else:
            self._loop.reset(app)

    def _finish(self) -> None:
        self._closing = True
        self._links.clear()
        self._ready.clear()
        if self._timer is not None:
            self._timer.cancel()
        if not self._is_finished:
            self._is_finished = True
            self._ended(self)
