"""The wire format: a hello that opens a connection, then frames with a 16-byte header.

    hello   64 bytes: magic, version, kind, lane, lanes, stream, destination, flows, buffer, hops,
            paths
    frame   kind u8, 3 bytes of padding, length u32, offset u64, then the payload

    kind    offset                          length
    DATA    of the first payload byte       payload bytes that follow
    ACK     first byte not received yet     credit: so many bytes beyond ``offset`` may be sent
    FIN     the end of the stream           0
    RESET   0                               0
    PATH    payload bytes that arrived      the path, from 0
            on the path in all

All numbers are big endian. A FIN takes one place in the sequence, as in TCP, so an ACK that is
one beyond the end acknowledges it.
"""

import ipaddress
import struct
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from geotrain.errors import GeotrainError
from geotrain.units import Bytes

MAGIC: Final = b"GEOT"
VERSION: Final = 2
MAX_FRAME: Final[Bytes] = 1 << 20
MAX_BUFFER: Final[Bytes] = 1 << 28
MAX_HOPS: Final = 2
STREAM_BYTES: Final = 16

DATA: Final = 0
ACK: Final = 1
FIN: Final = 2
RESET: Final = 3
PATH: Final = 4

HEADER: Final = struct.Struct("!BxxxIQ")
_HELLO = struct.Struct("!4sBBHHB?16s4sHIII4s4sH8x")
HELLO_BYTES: Final[Bytes] = _HELLO.size


class ProtocolError(GeotrainError):
    """The far end broke the striping protocol; the connection or the stream cannot go on."""


class Kind(IntEnum):
    """Where a connection ends: at this sidecar, or at the next hop."""

    DIRECT = 1
    RELAY = 2


@dataclass(frozen=True, slots=True)
class Hello:
    """What the opener of a connection says first.

    Lane n takes path n modulo ``paths``. ``address`` and ``port`` are the original destination,
    ``flow`` the flow whose bytes leave the opener and ``reverse`` that of the other direction
    (0: none). ``buffer`` is the credit both ends start with. ``established`` says that the far end
    has answered this stream before: a far end that does not know it must then refuse. ``hops`` are
    the sidecars still to pass, the last being the one of the destination's pod; a direct
    connection has none.
    """

    stream: bytes
    address: str
    port: int
    lane: int = 0
    lanes: int = 1
    paths: int = 1
    flow: int = 0
    reverse: int = 0
    buffer: Bytes = 1 << 20
    established: bool = False
    hops: tuple[str, ...] = ()

    @property
    def kind(self) -> Kind:
        """Whether the receiver of this hello passes the connection on."""
        return Kind.RELAY if self.hops else Kind.DIRECT

    def passed_on(self) -> tuple[str, "Hello"]:
        """The next hop's address, and the hello to say there."""
        return self.hops[0], replace(self, hops=self.hops[1:])

    def encode(self) -> bytes:
        """The 64 bytes that open a connection."""
        if len(self.hops) > MAX_HOPS:
            raise ValueError(f"at most {MAX_HOPS} hops, not {len(self.hops)}")
        hops = [ipaddress.IPv4Address(h).packed for h in self.hops]
        hops += [bytes(4)] * (MAX_HOPS - len(hops))
        return _HELLO.pack(
            MAGIC,
            VERSION,
            self.kind,
            self.lane,
            self.lanes,
            len(self.hops),
            self.established,
            self.stream,
            ipaddress.IPv4Address(self.address).packed,
            self.port,
            self.flow,
            self.reverse,
            self.buffer,
            *hops,
            self.paths,
        )

    @classmethod
    def decode(cls, data: bytes) -> "Hello":
        """Read a hello. Raises ProtocolError where it is none, or of another version."""
        magic, version, kind, lane, lanes, count, established, *rest = _HELLO.unpack(data)
        if magic != MAGIC:
            raise ProtocolError("the connection does not open with a hello of geotrain")
        if version != VERSION:
            raise ProtocolError(f"the far sidecar speaks version {version}, this one {VERSION}")
        stream, address, port, flow, reverse, buffer, *hops, paths = rest
        if count > MAX_HOPS or (kind == Kind.RELAY) != (count > 0):
            raise ProtocolError(f"a hello of kind {kind} cannot have {count} hops")
        if not 1 <= buffer <= MAX_BUFFER:
            raise ProtocolError(f"a buffer of {buffer} bytes is not within 1 and {MAX_BUFFER}")
        return cls(
            stream=stream,
            address=str(ipaddress.IPv4Address(address)),
            port=port,
            lane=lane,
            lanes=lanes,
            paths=max(1, paths),
            flow=flow,
            reverse=reverse,
            buffer=buffer,
            established=established,
            hops=tuple(str(ipaddress.IPv4Address(h)) for h in hops[:count]),
        )
