"""Pods of several data centres as network namespaces, joined by a WAN with a real round trip.

The kernel of many test machines has no netem, so packets between data centres pass through a TUN
device that holds each for the one-way delay. Within a data centre they are routed directly.
Needs root. ``python wan.py DEVICE ONE_WAY_MS`` is the delay itself.
"""

import collections
import contextlib
import fcntl
import itertools
import os
import select
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

_TUNSETIFF, _TUNSETOFFLOAD, _TUNSETVNETHDRSZ = 0x400454CA, 0x400454D0, 0x400454D8
_IFF_TUN, _IFF_NO_PI, _IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
_TUN_F_CSUM, _TUN_F_TSO4, _TUN_F_TSO6 = 0x01, 0x02, 0x04
_VNET_HEADER_BYTES = 10
_LARGEST_PACKET = 65536 + _VNET_HEADER_BYTES
_QUEUE_BYTES = 64 << 20
_GATEWAY = "169.254.1.1"
_WINDOW = """
table ip lab {{
  chain window {{
    type filter hook postrouting priority mangle; policy accept;
    oifname != wan0 accept
    tcp flags & syn == syn reset tcp option window
    tcp window > {window} tcp window set {window}
  }}
}}"""
"""No connection over the WAN has more in flight: no end may scale its window (RFC 7323, 2.2)."""
_numbers = itertools.count()


def why_not() -> str | None:
    """Why namespaces cannot be made here; None where they can."""
    if os.geteuid() != 0:
        return "needs root to make network namespaces"
    if not Path("/dev/net/tun").exists():
        return "needs /dev/net/tun for the WAN's delay"
    probe = subprocess.run(
        ["unshare", "--net", "true"], capture_output=True, text=True, check=False
    )
    return f"cannot make network namespaces: {probe.stderr.strip()}" if probe.returncode else None


class Lab:
    """Namespaces ``name`` → pod. The address of a pod is 10.(1 + data centre).0.(1 + number)."""

    def __init__(self, one_way_ms: float, window: int | None = None) -> None:
        self._prefix = f"gt{os.getpid() % 10000}x{next(_numbers)}"
        self._pods: dict[str, str] = {}
        self.window = window
        self._router = f"{self._prefix}r"
        self._processes: list[subprocess.Popen[bytes]] = []
        sh("ip", "netns", "add", self._router)
        self._in(self._router, "ip", "link", "set", "lo", "up")
        self.sysctl(self._router, "net.ipv4.ip_forward", "1")
        delay = self.start(self._router, [sys.executable, __file__, "wan0", str(one_way_ms)])
        assert delay.stdout is not None
        delay.stdout.readline()
        self._in(self._router, "ip", "link", "set", "wan0", "up")
        for device in ("all", "default", "wan0"):
            self.sysctl(self._router, f"net.ipv4.conf.{device}.rp_filter", "0")
        self._in(self._router, "ip", "rule", "add", "iif", "wan0", "lookup", "100")
        if window is not None:
            self._in(self._router, "nft", _WINDOW.format(window=window))

    def __enter__(self) -> "Lab":
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
        for namespace in (*self._pods, self._router):
            sh("ip", "netns", "del", self.namespace(namespace))

    def namespace(self, name: str) -> str:
        """The system's name of a pod's namespace."""
        return name if name == self._router else f"{self._prefix}{name}"

    def pod(self, name: str, data_center: int) -> str:
        """Add a pod; returns its address."""
        number = len(self._pods) + 1
        subnet = f"10.{data_center + 1}.0.0/16"
        address = f"10.{data_center + 1}.0.{number + 1}"
        namespace, veth = self.namespace(name), f"v{number}"
        self._pods[name] = address
        sh("ip", "netns", "add", namespace)
        sh("ip", "-n", self._router, "link", "add", veth, "type", "veth", "peer", "name", "eth0")
        sh("ip", "-n", self._router, "link", "set", "eth0", "netns", namespace)
        for words in (
            f"addr add {_GATEWAY}/32 dev {veth}",
            f"link set {veth} up",
            f"route add {address} dev {veth} table 100",
            f"route replace {subnet} dev wan0",
            f"rule add iif {veth} from {subnet} to {subnet} lookup 100",
        ):
            self._in(self._router, "ip", *words.split())
        self.sysctl(self._router, f"net.ipv4.conf.{veth}.rp_filter", "0")
        for words in (
            "link set lo up",
            f"addr add {address}/32 dev eth0",
            "link set eth0 up",
            f"route add {_GATEWAY} dev eth0 scope link",
            f"route add default via {_GATEWAY} dev eth0 src {address}",
        ):
            self._in(namespace, "ip", *words.split())
        return address

    def sysctl(self, name: str, key: str, value: str) -> None:
        """Set a kernel parameter in a namespace."""
        self.run(name, "sysctl", "-qw", f"{key}={value}")

    def run(self, name: str, *command: str) -> str:
        """Run a command in a pod; its output."""
        return self._in(self.namespace(name), *command)

    def start(
        self, name: str, command: Sequence[str], **options: object
    ) -> subprocess.Popen[bytes]:
        """Start a process in a pod; it is killed with the lab."""
        process = subprocess.Popen(  # type: ignore[call-overload]
            ["ip", "netns", "exec", self.namespace(name), *command],
            **{"stdout": subprocess.PIPE, **options},
        )
        self._processes.append(process)
        return process

    def _in(self, namespace: str, *command: str) -> str:
        return sh("ip", "netns", "exec", namespace, *command)


def sh(*command: str) -> str:
    """Run a command; its output. Raises with what it printed where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _open_tun(name: str) -> int:
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    flags = _IFF_TUN | _IFF_NO_PI | _IFF_VNET_HDR
    fcntl.ioctl(tun, _TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
    fcntl.ioctl(tun, _TUNSETVNETHDRSZ, struct.pack("i", _VNET_HEADER_BYTES))
    fcntl.ioctl(tun, _TUNSETOFFLOAD, _TUN_F_CSUM | _TUN_F_TSO4 | _TUN_F_TSO6)
    return tun


def _delay(tun: int, delay: float) -> None:
    line: collections.deque[tuple[float, bytes]] = collections.deque()
    held = 0
    poll = select.poll()
    poll.register(tun, select.POLLIN)
    while True:
        now = time.monotonic()
        while line and line[0][0] <= now:
            _, packet = line.popleft()
            held -= len(packet)
            try:
                os.write(tun, packet)
            except OSError:  # the kernel dropped it, as a router would
                continue
        wait_ms = (line[0][0] - now) * 1e3 if line else 1000.0
        if not poll.poll(int(wait_ms)):  # under a millisecond: 0, so it spins and stays accurate
            continue
        due = time.monotonic() + delay
        for _ in range(64):
            try:
                packet = os.read(tun, _LARGEST_PACKET)
            except BlockingIOError:
                break
            if held + len(packet) <= _QUEUE_BYTES:
                held += len(packet)
                line.append((due, packet))


if __name__ == "__main__":
    device, one_way_ms = sys.argv[1:]
    descriptor = _open_tun(device)
    print("ready", flush=True)
    _delay(descriptor, float(one_way_ms) / 1e3)
