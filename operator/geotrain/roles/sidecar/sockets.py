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
_SO_RCVBUFFORCE = 33
_DEEP: Final[Bytes] = 256 * 1024
"""What a connection within the data centre or the pod may hold, whatever net.ipv4.tcp_rmem says."""
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


def dial(address: str, port: int, priority: int = 0, *, is_near: bool = False) -> socket.socket:
    """Begin to connect, past the redirection; the socket becomes writable when it is decided.

    ``is_near``: the address is in this data centre, so the window is not the network's to set.
    """
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    connection.setblocking(False)
    with contextlib.suppress(PermissionError):  # without NET_ADMIN there is no redirection
        connection.setsockopt(socket.SOL_SOCKET, _SO_MARK, MARK)
    prepare(connection, priority)
    if is_near:
        deepen(connection)  # before the connection is made, so that the window's scale allows it
    code = connection.connect_ex((address, port))
    if code not in (0, errno.EINPROGRESS):
        connection.close()
        raise OSError(code, os.strerror(code))
    return connection


def prepare(connection: socket.socket, priority: int = 0) -> None:
    """Set what every carried connection needs.

    With TCP_NOTSENT_LOWAT of a frame the kernel holds one in reserve, to send when the window
    opens, and "writable" means that less than half of it is left. ``priority`` is the class of the
    shaper.
    """
    connection.setblocking(False)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, block_for(window()))
    connection.setsockopt(socket.IPPROTO_TCP, _TCP_USER_TIMEOUT, USER_TIMEOUT_MS)
    if priority:
        with contextlib.suppress(PermissionError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, priority)


def deepen(connection: socket.socket) -> None:
    """Receive much at once: for connections that never leave the data centre.

    A window of a few kB, where the pod's is so small, costs a packet and a wake-up for each 1.4 kB.
    """
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _DEEP)


def serve_application(connection: socket.socket) -> None:
    """Let the kernel hold what the application has not read yet, and hand it over by itself.

    The application's own window may be small; otherwise each time that it has read one, this
    process would have to wake up to send the next.
    """
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _DEEP)
    connection.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, _DEEP)


def keep_shallow(connection: socket.socket, one_window: Bytes) -> None:
    """Hold little of what arrives on the local network to be passed on over the wide area.

    A deep buffer here would look like a fast path to the sender, which would then give this lane
    far more than its share. The kernel doubles the number, and offers half of that as a window.
    """
    shallow = max(_SHALLOWEST, min(_LARGEST_SHALLOW, 2 * one_window))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, shallow)


@functools.cache
def window() -> Bytes:
    """The most that one connection keeps in flight towards this pod: from net.ipv4.tcp_rmem."""
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
