"""Connections that are being made: quietly tried again while the far end is not there yet."""

import os
import socket
from collections.abc import Callable

from geotrain.roles.sidecar import sockets
from geotrain.roles.sidecar.loop import Loop, Timer
from geotrain.units import Bytes, Seconds

_FIRST_PAUSE: Seconds = 0.05
_LONGEST_PAUSE: Seconds = 1.0


class Dial:
    """Connects to one address, again and again until ``patience`` is used up.

    ``connected`` gets the socket, ``failed`` the last error. ``cancel`` ends it without either.
    ``priority`` and ``reserve`` are for ``sockets.prepare``.
    """

    def __init__(
        self,
        loop: Loop,
        target: tuple[str, int],
        connected: Callable[[socket.socket], None],
        failed: Callable[[OSError], None],
        *,
        reserve: Bytes,
        priority: int = 0,
        patience: Seconds = 0.0,
    ) -> None:
        self._loop = loop
        self._target = target
        self._connected = connected
        self._failed = failed
        self._priority = priority
        self._reserve = reserve
        self._left = patience
        self._pause = _FIRST_PAUSE
        self._socket: socket.socket | None = None
        self._timer: Timer | None = None
        self._try()

    def cancel(self) -> None:
        """Stop trying."""
        if self._timer is not None:
            self._timer.cancel()
        if self._socket is not None:
            self._loop.close(self._socket)
            self._socket = None

    def _try(self) -> None:
        try:
            self._socket = sockets.dial(*self._target, self._priority, self._reserve)
        except OSError as error:
            self._again(error)
            return
        self._loop.watch(self._socket, self._decided)

    def _decided(self, _mask: int) -> None:
        connection = self._socket
        if connection is None:
            return
        code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        self._socket = None
        if code:
            self._loop.close(connection)
            self._again(OSError(code, os.strerror(code)))
        else:
            self._connected(connection)

    def _again(self, error: OSError) -> None:
        if self._left <= 0 or error.errno not in sockets.GONE:
            # Later, so that the caller never hears of a failure before its constructor returns.
            self._timer = self._loop.later(0.0, lambda: self._failed(error))
            return
        self._left -= self._pause
        self._timer = self._loop.later(self._pause, self._try)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
