"""TCP sockets as the data path needs them: never blocking, never waiting to fill a segment."""

import contextlib
import errno
import os
import socket
from pathlib import Path
from typing import Final

from geotrain.roles.sidecar.intercept import MARK
from geotrain.striping.frames import HEADER
from geotrain.units import Bytes

_TCP_USER_TIMEOUT = 18
_TCP_NOTSENT_LOWAT = 25
_SO_MARK = 36
_SO_RCVBUFFORCE = 33
USER_TIMEOUT_MS: Final = 20_000
"""A connection whose bytes are not acknowledged for so long is dead."""
_WINDOW_SHARE: Final = 0.57
"""Of a socket's receive buffer, what the kernel offers as a window (measured)."""
_RELAY_BUFFER: Final[Bytes] = 32 * 1024
_LARGEST_BLOCK: Final[Bytes] = 16 * 1024
_SMALLEST_BUFFER: Final[Bytes] = 1 << 20
_LARGEST_BUFFER: Final[Bytes] = 32 << 20

GONE: Final = (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT)


def listen(address: str, port: int, buffer: Bytes = 0) -> socket.socket:
    """A listening socket; connections may be many at once, since lanes open side by side.

    ``buffer`` is what each accepted connection may hold unread, whatever net.ipv4.tcp_rmem says.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if buffer:
        with contextlib.suppress(PermissionError):
            listener.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, buffer)
    listener.bind((address, port))
    listener.listen(1024)
    listener.setblocking(False)
    return listener


def dial(address: str, port: int, priority: int = 0) -> socket.socket:
    """Begin to connect, past the redirection; the socket becomes writable when it is decided."""
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    connection.setblocking(False)
    with contextlib.suppress(PermissionError):  # without NET_ADMIN there is no redirection
        connection.setsockopt(socket.SOL_SOCKET, _SO_MARK, MARK)
    prepare(connection, priority)
    code = connection.connect_ex((address, port))
    if code not in (0, errno.EINPROGRESS):
        connection.close()
        raise OSError(code, os.strerror(code))
    return connection


def prepare(connection: socket.socket, priority: int = 0) -> None:
    """Set what every carried connection needs.

    With TCP_NOTSENT_LOWAT of one byte "writable" means that everything given so far is on the
    wire, so the connection can take a frame now. ``priority`` is the class of the shaper.
    """
    connection.setblocking(False)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, 1)
    connection.setsockopt(socket.IPPROTO_TCP, _TCP_USER_TIMEOUT, USER_TIMEOUT_MS)
    if priority:
        with contextlib.suppress(PermissionError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, priority)


def keep_shallow(connection: socket.socket) -> None:
    """Hold little of what arrives on the local network to be passed on over the wide area.

    A deep buffer here would look like a fast path to the sender, which would then give this lane
    far more than its share.
    """
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RELAY_BUFFER)


def window() -> Bytes:
    """The most that one connection keeps in flight towards this pod: from net.ipv4.tcp_rmem."""
    try:
        largest = int(Path("/proc/sys/net/ipv4/tcp_rmem").read_text().split()[2])
    except (OSError, ValueError, IndexError):
        largest = 6 << 20  # the kernel's default
    return round(largest * _WINDOW_SHARE)


def block_for(one_window: Bytes) -> Bytes:
    """The largest frame: with its header at most half of a connection's window."""
    return max(512, min(_LARGEST_BLOCK, one_window // 2 - HEADER.size))


def buffer_for(one_window: Bytes, lanes: int) -> Bytes:
    """What a stream holds per direction: twice what all its lanes can have in flight."""
    return min(_LARGEST_BUFFER, max(_SMALLEST_BUFFER, 2 * lanes * one_window))
