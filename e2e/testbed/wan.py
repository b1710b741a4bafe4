"""A WAN for a kernel without netem: delays every packet that is routed into its TUN devices.

    python3 wan.py DEVICE=ONE_WAY_MS…

Route the far side's addresses into a device, and send what comes out of it on by a table of its own
(``ip rule add iif DEVICE lookup 100``), or it would turn in circles. Segmentation offload stays on,
so one read carries up to 64 KiB. Uses the standard library alone: it runs in whatever image has
Python. A rate is not its business: a qdisc on the device holds it.
"""

import collections
import contextlib
import fcntl
import os
import select
import struct
import sys
import time
from dataclasses import dataclass, field

TUNSETIFF, TUNSETOFFLOAD, TUNSETVNETHDRSZ = 0x400454CA, 0x400454D0, 0x400454D8
IFF_TUN, IFF_NO_PI, IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
TUN_F_CSUM, TUN_F_TSO4, TUN_F_TSO6 = 0x01, 0x02, 0x04
VNET_HEADER_BYTES = 10
LARGEST_PACKET = 65536 + VNET_HEADER_BYTES
QUEUE_BYTES = (
    64 << 20
)  # far above rate · delay: what the queue drops is dropped by the qdisc before
BATCH = 64  # packets read before the due ones are looked at again
IDLE_WAIT = 1.0  # seconds
TICK = 0.002  # seconds between two rounds: under load each moves several packets, for less CPU


@dataclass
class Line:
    """One direction to one far side: packets and when each is due."""

    tun: int
    delay: float  # seconds
    packets: collections.deque[tuple[float, bytes]] = field(default_factory=collections.deque)
    held: int = 0  # bytes

    def take(self, packet: bytes, now: float) -> None:
        """Queues a packet that was read, or drops it where the queue is full."""
        if self.held + len(packet) <= QUEUE_BYTES:
            self.held += len(packet)
            self.packets.append((now + self.delay, packet))

    def due(self, now: float) -> list[bytes]:
        """Takes out the packets whose time has come."""
        out = []
        while self.packets and self.packets[0][0] <= now:
            _, packet = self.packets.popleft()
            self.held -= len(packet)
            out.append(packet)
        return out

    def wait(self, now: float) -> float:
        """Seconds until the next packet is due."""
        return max(0.0, self.packets[0][0] - now) if self.packets else IDLE_WAIT


def open_tun(name: str) -> int:
    """Makes a TUN device that hands over segments unsplit and lasts as long as this process."""
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
    fcntl.ioctl(tun, TUNSETVNETHDRSZ, struct.pack("i", VNET_HEADER_BYTES))
    fcntl.ioctl(tun, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6)
    return tun


def forward(lines: list[Line]) -> None:
    """Moves packets for ever. select, not epoll: its timeout has microseconds."""
    by_descriptor = {line.tun: line for line in lines}
    while True:
        now = time.monotonic()
        for line in lines:
            for packet in line.due(now + TICK / 2):
                _write(line.tun, packet)
        time.sleep(TICK)
        timeout = min(line.wait(time.monotonic()) for line in lines)
        readable, _, _ = select.select(list(by_descriptor), [], [], timeout)
        for descriptor in readable:
            _read(by_descriptor[descriptor])


def _read(line: Line) -> None:
    now = time.monotonic()
    for _ in range(BATCH):
        try:
            line.take(os.read(line.tun, LARGEST_PACKET), now)
        except BlockingIOError:
            return
        except OSError:
            time.sleep(0.05)  # the device is down until the node is set up
            return


def _write(tun: int, packet: bytes) -> None:
    with contextlib.suppress(OSError):  # the kernel dropped it, as a router would
        os.write(tun, packet)


def main(arguments: list[str]) -> None:
    """Opens the devices and forwards."""
    lines = []
    for argument in arguments:
        device, _, one_way_ms = argument.partition("=")
        lines.append(Line(open_tun(device), float(one_way_ms) / 1e3))
    print("ready", flush=True)
    forward(lines)


if __name__ == "__main__":
    main(sys.argv[1:])
