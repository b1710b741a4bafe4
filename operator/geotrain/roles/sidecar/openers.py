"""Opens the lanes of one stream, and opens them again when they die.

The first lane is opened at once; the others when the stream has moved enough to need them, side
by side. So a store's or a mesh's idle connections cost one lane and not a hundred.
"""

import dataclasses
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from geotrain.api.labels import PORT_PEER
from geotrain.roles.sidecar.dials import Dial
from geotrain.roles.sidecar.loop import Loop
from geotrain.roles.sidecar.meters import Meter
from geotrain.roles.sidecar.routes import Route
from geotrain.roles.sidecar.stripes import ABANDONED, Stripe
from geotrain.striping.frames import Hello
from geotrain.units import Bytes, Seconds

ENOUGH: Final[Bytes] = 32 * 1024
"""A stream that has moved so much gets all its lanes."""
_FIRST_PAUSE: Seconds = 0.1
_LONGEST_PAUSE: Seconds = 2.0
_LASTING: Seconds = 5.0


@dataclass(frozen=True, slots=True)
class Exit:
    """How a lane leaves this pod: where to connect, in which class, and on which meter.

    ``reserve`` is what the kernel holds to send when the window opens.
    """

    addresses: tuple[str, ...]
    priority: int
    reserve: Bytes
    meter: Meter


class Opener:
    """Keeps the lanes of ``stripe`` open as ``route`` says, until it ends.

    ``exit_of`` finds the way of a path, None while an address on it is not known yet.
    """

    def __init__(
        self,
        loop: Loop,
        hello: Hello,
        route: Route,
        exit_of: Callable[[tuple[int, ...], int], Exit | None],
    ) -> None:
        self._loop = loop
        self._hello = hello
        self._route = route
        self._exit_of = exit_of
        self._stripe: Stripe | None = None
        self._pauses: dict[int, Seconds] = {}
        self._opened: dict[int, Seconds] = {}
        self._dials: dict[int, Dial] = {}
        self._grown = False
        self._deadline = time.monotonic() + ABANDONED

    def open_for(self, stripe: Stripe) -> None:
        """Open the first lane, and watch whether the others are needed."""
        self._stripe = stripe
        self._open(0)

    def progressed(self, moved: Bytes) -> None:
        """The stream has moved ``moved`` bytes in all."""
        if not self._grown and moved >= ENOUGH:
            self._grown = True
            for number in range(1, self._route.lanes):
                self._open(number)

    def lost(self, number: int) -> None:
        """A lane died; it is opened again after a pause that grows while it keeps dying."""
        now = time.monotonic()
        if now - self._opened.get(number, 0.0) > _LASTING:
            self._pauses.pop(number, None)
        if self._stripe is not None and not self._stripe.lanes:
            self._deadline = now + ABANDONED
        self._retry(number)

    def close(self) -> None:
        """The stream has ended."""
        self._stripe = None
        for dial in self._dials.values():
            dial.cancel()
        self._dials.clear()

    def _open(self, number: int) -> None:
        if self._stripe is None:
            return
        way = self._exit_of(self._route.paths[number], self._route.flow)
        if way is None:
            self._retry(number)
            return
        self._dials[number] = Dial(
            self._loop,
            (way.addresses[0], PORT_PEER),
            lambda connection: self._connected(number, connection, way),
            lambda _: self._retry(number),
            priority=way.priority,
            reserve=way.reserve,
        )

    def _connected(self, number: int, connection: socket.socket, way: Exit) -> None:
        self._dials.pop(number, None)
        stripe = self._stripe
        if stripe is None:
            self._loop.close(connection)
            return
        hello = dataclasses.replace(
            self._hello,
            lane=number,
            hops=way.addresses[1:],
            established=stripe.stream.is_established,
        )
        try:
            connection.send(hello.encode())  # the first 64 bytes always fit
        except OSError:
            self._loop.close(connection)
            self._retry(number)
            return
        self._opened[number] = time.monotonic()
        stripe.join(connection, number, way.meter)

    def _retry(self, number: int) -> None:
        self._dials.pop(number, None)
        stripe = self._stripe
        if stripe is None:
            return
        if not stripe.lanes and time.monotonic() > self._deadline:
            stripe.abort()
            return
        pause = self._pauses.get(number, _FIRST_PAUSE)
        self._pauses[number] = min(2 * pause, _LONGEST_PAUSE)
        self._loop.later(pause, lambda: self._open(number))
