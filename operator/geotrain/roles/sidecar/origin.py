"""Where a redirected connection wanted to go (SO_ORIGINAL_DST, linux/netfilter_ipv4.h)."""

import socket
import struct

_SO_ORIGINAL_DST = 80
_SOCKADDR_IN = struct.Struct("!2xH4s8x")


def destination(connection: socket.socket) -> tuple[str, int]:
    """Address and port before the redirection. Raises OSError where there was none."""
    raw = connection.getsockopt(socket.SOL_IP, _SO_ORIGINAL_DST, _SOCKADDR_IN.size)
    port, packed = _SOCKADDR_IN.unpack(raw)
    return socket.inet_ntoa(packed), port
