"""The data path: what becomes of a connection that the application or a peer opens.

redirected, to a rank that shares a flow with this one    striped, see ``stripes``
redirected, to anything else in another data centre       one connection, straight through
from a peer's sidecar, for this pod                       a lane of a stream
from a peer's sidecar, for another pod                    passed on to the next hop
"""

import contextlib
import logging
import os
import socket
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from geotrain.api.labels import PORT_PEER, PORT_REDIRECT
from geotrain.roles.sidecar import routes, sockets
from geotrain.roles.sidecar.dials import Dial
from geotrain.roles.sidecar.loop import Loop
from geotrain.roles.sidecar.meters import Meter, Meters
from geotrain.roles.sidecar.network import Network
from geotrain.roles.sidecar.openers import Exit, Opener
from geotrain.roles.sidecar.origin import destination
from geotrain.roles.sidecar.splices import Splice
from geotrain.roles.sidecar.stripes import Stripe
from geotrain.shaping.tree import OTHER, minor_of, priority_of
from geotrain.striping.frames import HELLO_BYTES, STREAM_BYTES, Hello, ProtocolError
from geotrain.striping.stream import Stream
from geotrain.units import Bytes, Seconds

_REMEMBERED = 4096
_GREETING: Seconds = 10.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes and patience. None: derived from the kernel's window (see ``sockets``)."""

    block: Bytes | None = None
    """The largest frame."""
    buffer: Bytes | None = None
    """What a stream holds per direction."""
    refusal: Seconds = 10.0
    """A refused application port is tried again for so long: the redirected client believes that
    it is connected, and many cannot bear a reset where they would have borne a refusal."""
    rest: Seconds = 0.004
    """How long to collect events at most while bytes flow in bulk; see ``loop``."""
    unknown: Seconds = 10.0
    """A destination whose rank is not known yet is held back for so long."""


@dataclass(frozen=True, slots=True)
class View:
    """What the data path knows at a moment: the network, and the ranks' addresses."""

    own: int
    network: Network
    addresses: Mapping[int, str] = field(default_factory=dict)

    def rank_of(self, address: str) -> int | None:
        """The rank that lives at an address."""
        return next((r for r, a in self.addresses.items() if a == address), None)

    @property
    def is_complete(self) -> bool:
        """Every rank's address is known, so an unknown address is no rank's."""
        return len(self.addresses) >= len(self.network.ranks)


class Pump:
    """Owns the listeners and every carried connection. Public methods are for any thread."""

    def __init__(self, view: View, limits: Limits | None = None) -> None:
        self._view = view
        self._limits = limits or Limits()
        self._loop = Loop(self._limits.rest)
        self._listeners: list[socket.socket] = []
        self._stripes: dict[bytes, Stripe] = {}
        self._ended: OrderedDict[bytes, None] = OrderedDict()
        self._splices: set[Splice] = set()
        self._waiting: list[Callable[[bool], bool]] = []
        self.meters = Meters()

    @property
    def carried(self) -> dict[str, int]:
        """Connections and lanes that are open now."""
        stripes = list(self._stripes.values())
        lanes = sum(s.lanes for s in stripes)
        return {"streams": len(stripes), "lanes": lanes, "plain": len(self._splices)}

    @property
    def _window(self) -> Bytes:
        """What one connection has in flight at most."""
        return self._view.network.window or sockets.default_window()

    @property
    def _block(self) -> Bytes:
        """The largest frame."""
        return self._limits.block or sockets.block_for(self._window)

    def start(self, redirect: int = PORT_REDIRECT, peer: int = PORT_PEER) -> None:
        """Listen, and carry from now on. Raises OSError where a port is taken."""
        for address, port, accepted in (
            ("127.0.0.1", redirect, self._redirected),
            ("0.0.0.0", peer, self._greeted),  # noqa: S104 - the NetworkPolicy says who comes
        ):
            listener = sockets.listen(address, port)
            self._listeners.append(listener)
            self._loop.watch(listener, self._accepter(listener, accepted))
        self._loop.start()

    def stop(self) -> None:
        """Close everything at once."""
        self._loop.stop()
        for listener in self._listeners:
            listener.close()

    def update(self, view: View) -> None:
        """The network or the addresses have changed; what is carried now goes on."""

        def replace() -> None:
            self._view = view
            self._waiting = [w for w in self._waiting if not w(False)]

        self._loop.soon(replace)

    def _accepter(
        self, listener: socket.socket, accepted: Callable[[socket.socket], None]
    ) -> Callable[[int], None]:
        def accept(_mask: int) -> None:
            with contextlib.suppress(BlockingIOError):
                while True:
                    connection, _ = listener.accept()
                    try:
                        sockets.prepare(connection, 0, self._block)
                        accepted(connection)
                    except OSError as error:
                        log.warning("a connection was dropped: %s", error)
                        self._loop.reset(connection)

        return accept

    # What the application opens.

    def _redirected(self, app: socket.socket) -> None:
        address, port = destination(app)
        if (address, port) == app.getsockname():
            self._loop.reset(app)  # nothing was redirected: somebody connected to us
            return

        def decide(last: bool) -> bool:
            rank = self._view.rank_of(address)
            if rank is None and not last and not self._view.is_complete:
                return False
            self._carry(app, (address, port), rank)
            return True

        if not decide(False):
            self._waiting.append(decide)
            self._loop.later(self._limits.unknown, lambda: self._decide_at_last(decide))

    def _decide_at_last(self, decide: Callable[[bool], bool]) -> None:
        if decide in self._waiting:
            self._waiting.remove(decide)
            decide(True)

    def _carry(self, app: socket.socket, target: tuple[str, int], rank: int | None) -> None:
        route = None if rank is None else routes.route(self._view.network, self._view.own, rank)
        if route is None:
            self._pass_through(app, target)
        else:
            self._open(app, target, route)

    def _pass_through(self, app: socket.socket, target: tuple[str, int]) -> None:
        sent = self._meter(0, target[0])
        Dial(
            self._loop,
            target,
            lambda far: self._splice(app, far, sent, Meter()),
            lambda _: self._loop.reset(app),
            reserve=self._block,
            priority=self._priority(0, target[0]),
            patience=self._limits.refusal,
        )

    def _open(self, app: socket.socket, target: tuple[str, int], route: routes.Route) -> None:
        buffer = self._limits.buffer or sockets.buffer_for(self._window, route.lanes)
        hello = Hello(
            os.urandom(STREAM_BYTES),
            *target,
            paths=route.distinct,
            flow=route.flow,
            reverse=route.reverse,
            buffer=buffer,
            lanes=route.lanes,
        )
        opener = Opener(self._loop, hello, route, self._exit)

        def ended(_: Stripe) -> None:
            opener.close()
            self._forget(hello.stream)

        stripe = Stripe(self._loop, self._stream(hello), ended, opener)
        self._stripes[hello.stream] = stripe
        stripe.serve(app)
        opener.open_for(stripe)

    def _exit(self, path: tuple[int, ...], flow: int) -> Exit | None:
        found = routes.addresses(path, self._view.addresses)
        if found is None:
            return None
        first = found[0]
        return Exit(found, self._priority(flow, first), self._block, self._meter(flow, first))

    # What peers open.

    def _greeted(self, connection: socket.socket) -> None:
        """Read the hello, whole, then do as it says."""
        hello = bytearray()

        def read(_mask: int) -> None:
            if len(hello) == HELLO_BYTES:
                return  # what follows is for whoever takes the connection over
            try:
                data = connection.recv(HELLO_BYTES - len(hello))
            except BlockingIOError:
                return
            except OSError:
                data = b""
            hello.extend(data)
            if not data or len(hello) == HELLO_BYTES:
                timer.cancel()
                self._answer(connection, bytes(hello))

        timer = self._loop.later(_GREETING, lambda: self._loop.close(connection))
        self._loop.watch(connection, read)

    def _answer(self, connection: socket.socket, data: bytes) -> None:
        if len(data) < HELLO_BYTES:
            self._loop.close(connection)  # a port scan, or a peer that went away
            return
        try:
            hello = Hello.decode(data)
            if hello.hops:
                self._relay(connection, hello)
            else:
                self._attach(connection, hello)
        except (ProtocolError, OSError) as error:
            log.warning("a peer's connection was refused: %s", error)
            self._loop.reset(connection)

    def _relay(self, near: socket.socket, hello: Hello) -> None:
        hop, onward = hello.passed_on()
        network = self._view.network
        if not (network.is_local(hop) or network.data_center_of(hop)):
            raise ProtocolError(f"{hop} is in no data centre of the job")
        peer = near.getpeername()[0]
        sockets.prepare(near, self._priority(hello.reverse, peer), self._block)
        if network.is_local(peer):
            sockets.keep_shallow(near, self._window)

        def connected(far: socket.socket) -> None:
            if network.is_local(hop):
                sockets.keep_shallow(far, self._window)
            far.send(onward.encode())
            sent, returned = self._meter(hello.flow, hop), self._meter(hello.reverse, peer)
            self._splice(near, far, sent, returned)

        Dial(
            self._loop,
            (hop, PORT_PEER),
            connected,
            lambda _: self._loop.reset(near),
            reserve=self._block,
            priority=self._priority(hello.flow, hop),
        )

    def _attach(self, connection: socket.socket, hello: Hello) -> None:
        own, peer = connection.getsockname()[0], connection.getpeername()[0]
        if hello.address != own:
            raise ProtocolError(f"a stream for {hello.address} arrived at {own}")
        stripe = self._stripes.get(hello.stream)
        if stripe is None:
            if hello.established or hello.stream in self._ended:
                self._loop.reset(connection)  # it ended here; the opener will notice
                return
            stripe = self._accept(hello)
        sockets.prepare(connection, self._priority(hello.reverse, peer), self._block)
        stripe.join(connection, hello.lane, self._meter(hello.reverse, peer))

    def _accept(self, hello: Hello) -> Stripe:
        """The first lane of a new stream: connect to the application that it is for."""

        def ended(_: Stripe) -> None:
            dial.cancel()
            self._forget(hello.stream)

        def serve(app: socket.socket) -> None:
            stripe.stream.greet()
            stripe.serve(app)

        stripe = Stripe(self._loop, self._stream(hello), ended)
        dial = Dial(
            self._loop,
            (hello.address, hello.port),
            serve,
            lambda _: stripe.refuse(),
            reserve=self._block,
            patience=self._limits.refusal,
        )
        self._stripes[hello.stream] = stripe
        return stripe

    # What both have in common.

    def _stream(self, hello: Hello) -> Stream:
        """An end of the stream that a hello opens. A path holds what its lanes have in flight."""
        limit = max(1, hello.lanes // hello.paths) * self._window
        return Stream(hello.buffer, self._block, hello.paths, limit)

    def _splice(
        self, near: socket.socket, far: socket.socket, sent: Meter, returned: Meter
    ) -> None:
        splice = Splice(self._loop, near, far, sent, returned, self._splices.discard)
        self._splices.add(splice)

    def _forget(self, stream: bytes) -> None:
        self._stripes.pop(stream, None)
        self._ended[stream] = None
        if len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)

    def _priority(self, flow: int, address: str) -> int:
        """The class for what this pod sends to an address: none within the data centre."""
        network = self._view.network
        if network.data_center_of(address) is None:
            return 0
        ours = any(f.id == flow for f in network.flows_through(self._view.own))
        return priority_of(minor_of(flow) if ours else OTHER)

    def _meter(self, flow: int, address: str) -> Meter:
        return self.meters.of(flow, self._view.network.data_center_of(address))
