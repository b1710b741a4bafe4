"""TCP sockets as the data path needs them: never blocking, never waiting to fill a segment."""

import contextlib
import errno
import functools
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
USER_TIMEOUT_MS: Final = 20_000
"""A connection whose bytes are not acknowledged for so long is dead."""
_WINDOW_SHARE: Final = 0.57
"""Of a socket's receive buffer, what the kernel offers as a window (measured)."""
_SEGMENT: Final[Bytes] = 1448
"""Payload of a TCP segment on Ethernet, time stamps included."""
_SHALLOWEST: Final[Bytes] = 4 * 1024
_LARGEST_SHALLOW: Final[Bytes] = 32 * 1024
_LARGEST_BLOCK: Final[Bytes] = 16 * 1024
_SMALLEST_BUFFER: Final[Bytes] = 1 << 20
_LARGEST_BUFFER: Final[Bytes] = 32 << 20

GONE: Final = (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT)


def listen(address: str, port: int) -> socket.socket:
    """A listening socket; connections may be many at once, since lanes open side by side."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen(1024)
    listener.setblocking(False)
    return listener


def dial(address: str, port: int, priority: int, reserve: Bytes) -> socket.socket:
    """Begin to connect, past the redirection; the socket becomes writable when it is decided.

    ``priority`` and ``reserve`` as in ``prepare``.
    """
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    connection.setblocking(False)
    with contextlib.suppress(PermissionError):  # without NET_ADMIN there is no redirection
        connection.setsockopt(socket.SOL_SOCKET, _SO_MARK, MARK)
    prepare(connection, priority, reserve)
    code = connection.connect_ex((address, port))
    if code not in (0, errno.EINPROGRESS):
        connection.close()
        raise OSError(code, os.strerror(code))
    return connection


def prepare(connection: socket.socket, priority: int, reserve: Bytes) -> None:
    """Set what every carried connection needs.

    ``priority`` is the class of the shaper, 0 for none. ``reserve`` is a frame: with it as
    TCP_NOTSENT_LOWAT the kernel holds one to send when the window opens, and "writable" means that
    less than half of it is left.
    """
    connection.setblocking(False)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, reserve)
    connection.setsockopt(socket.IPPROTO_TCP, _TCP_USER_TIMEOUT, USER_TIMEOUT_MS)
    if priority:
        with contextlib.suppress(PermissionError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, priority)


def keep_shallow(connection: socket.socket, one_window: Bytes) -> None:
    """Hold little of what arrives on the local network to be passed on over the wide area.

    A deep buffer here would look like a fast path to the sender, which would then give this lane
    far more than its share. The kernel doubles the number, and offers half of that as a window.
    """
    shallow = max(_SHALLOWEST, min(_LARGEST_SHALLOW, 2 * one_window))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, shallow)


@functools.cache
def default_window() -> Bytes:
    """The most that one connection keeps in flight where nobody says: from net.ipv4.tcp_rmem."""
    try:
        largest = int(Path("/proc/sys/net/ipv4/tcp_rmem").read_text().split()[2])
    except (OSError, ValueError, IndexError):
        largest = 6 << 20  # the kernel's default
    return round(largest * _WINDOW_SHARE)


def block_for(one_window: Bytes) -> Bytes:
    """The largest frame: with its header so many whole segments as a connection's window holds.

    A window of less than two segments is the exception; then it is half a window.
    """
    segments = min(_LARGEST_BLOCK, one_window) // _SEGMENT
    if segments < 2:
        return max(512, one_window // 2 - HEADER.size)
    return segments * _SEGMENT - HEADER.size


def buffer_for(one_window: Bytes, lanes: int) -> Bytes:
    """What a stream holds per direction: twice what all its lanes can have in flight."""
    return min(_LARGEST_BUFFER, max(_SMALLEST_BUFFER, 2 * lanes * one_window))
