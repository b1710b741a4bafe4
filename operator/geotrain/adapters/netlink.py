"""The kernel's HTB on one interface, over rtnetlink. The only importer of pyroute2.

Classes change at every edge of a window, so those messages are encoded here: through pyroute2 one
takes 0.7 ms of CPU, this way some 20 µs. Layouts: linux/pkt_sched.h (tc_ratespec, tc_htb_opt) and
linux/rtnetlink.h. Integers are bytes per second there; rates from 2³² on need 64-bit attributes.
"""

import os
import socket
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from geotrain.errors import KernelError
from geotrain.shaping.diff import DeleteClass, DeleteQdisc, Operation, PutClass, ReplaceQdisc
from geotrain.shaping.tree import MAJOR, HtbClass, Tree
from geotrain.units import BitsPerSecond, Bytes, bits, bytes_per_second

T = TypeVar("T")

_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_TCMSG = struct.Struct("=BxxxiIII")  # family, interface, handle, parent, info
_ATTRIBUTE = struct.Struct("=HH")
_RATE = struct.Struct("=BBHhHI")  # cell log, link layer, overhead, cell align, mpu, rate
_OPTIONS = struct.Struct("=IIIII")  # buffer, cbuffer, quantum, level, priority
_ERROR = struct.Struct("=i")
_BASIC = struct.Struct("=Q")

_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_RTM_NEWTCLASS, _RTM_DELTCLASS, _RTM_GETTCLASS = 40, 41, 42
_REQUEST, _ACKNOWLEDGE, _CREATE, _DUMP = 0x1, 0x4, 0x400, 0x300
_TCA_KIND, _TCA_OPTIONS, _TCA_STATS2, _TCA_STATS_BASIC = 1, 2, 7, 1
_TCA_HTB_PARMS, _TCA_HTB_RATE64, _TCA_HTB_CEIL64 = 1, 6, 7
_NESTED = 0x8000
_LINK_LAYER_ETHERNET = 1
_ROOT: Final = 0xFFFFFFFF
_LARGEST_32 = (1 << 32) - 1
_TICK_NS = 64
_LEAST_BURST: Bytes = 16 * 1024
_BURST_SECONDS = 0.002
_ANSWER_BYTES: Bytes = 1 << 16


class Htb:
    """What ``roles.sidecar.ports.Htb`` asks for, of the interface ``name`` of this namespace.

    Raises KernelError where the interface is missing, or the caller lacks NET_ADMIN.
    """

    def __init__(self, name: str) -> None:
        try:
            self._index = socket.if_nametoindex(name)
        except OSError as error:
            raise KernelError(f"there is no interface {name}") from error
        self._name = name
        self._sequence = 0
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._socket.bind((0, 0))

    def close(self) -> None:
        """Close the socket; the kernel keeps what was set."""
        self._socket.close()

    def observe(self) -> Tree | None:
        """The HTB that the interface has; None where its root is something else."""
        return _aside(self._observe)

    def _observe(self) -> Tree | None:
        from pyroute2 import IPRoute  # here, since importing it reads /proc/net/psched

        with IPRoute() as route:
            roots = [
                q
                for q in route.get_qdiscs(index=self._index)
                if q["parent"] == _ROOT and q.get_attr("TCA_KIND") == "htb"
            ]
            if not roots or roots[0]["handle"] != MAJOR:
                return None
            initial = roots[0].get_attr("TCA_OPTIONS").get_attr("TCA_HTB_INIT")
            classes = [_class_of(c) for c in route.get_classes(index=self._index)]
        return Tree(initial["defcls"], tuple(sorted(classes)))

    def apply(self, operation: Operation) -> None:
        """Carry out one operation. Raises KernelError with what the kernel said."""
        match operation:
            case ReplaceQdisc(default):
                _aside(lambda: self._replace(default))
            case DeleteQdisc():
                _aside(self._delete_qdisc)
            case PutClass(htb):
                body = self._message(MAJOR + htb.minor, htb.parent) + _options(htb)
                self._ask(_RTM_NEWTCLASS, _CREATE | _ACKNOWLEDGE, body)
            case DeleteClass(minor):
                self._ask(_RTM_DELTCLASS, _ACKNOWLEDGE, self._message(MAJOR + minor, 0))

    def sent(self) -> dict[int, Bytes]:
        """Bytes that each class has put on the wire, headers included."""
        counts = {}
        for _, body in self._ask(_RTM_GETTCLASS, _DUMP, self._message(0, 0)):
            handle = _TCMSG.unpack_from(body)[2]
            statistics = dict(_attributes(body[_TCMSG.size :])).get(_TCA_STATS2, b"")
            basic = dict(_attributes(statistics)).get(_TCA_STATS_BASIC)
            if handle >> 16 == MAJOR >> 16 and basic is not None:
                counts[handle - MAJOR] = _BASIC.unpack_from(basic)[0]
        return counts

    def _replace(self, default: int) -> None:
        from pyroute2 import IPRoute
        from pyroute2.netlink.exceptions import NetlinkError

        self._delete_qdisc()
        try:
            with IPRoute() as route:
                route.tc("add", "htb", index=self._index, handle=MAJOR, default=default)
        except NetlinkError as error:
            raise self._refusal(error.code) from error

    def _delete_qdisc(self) -> None:
        from pyroute2 import IPRoute
        from pyroute2.netlink.exceptions import NetlinkError

        try:
            with IPRoute() as route:
                route.tc("del", index=self._index, parent=_ROOT)
        except NetlinkError as error:
            if error.code not in (2, 22):  # ENOENT, EINVAL: there is none but the kernel's own
                raise self._refusal(error.code) from error

    def _message(self, handle: int, parent: int) -> bytes:
        above = MAJOR + parent
        return _TCMSG.pack(socket.AF_UNSPEC, self._index, handle, above, 0) + _attribute(
            _TCA_KIND, b"htb\0"
        )

    def _ask(self, kind: int, flags: int, body: bytes) -> list[tuple[int, bytes]]:
        """Send one request; the answers up to the acknowledgement or the end of a dump."""
        self._sequence += 1
        length = _HEADER.size + len(body)
        flags |= _REQUEST
        self._socket.send(_HEADER.pack(length, kind, flags, self._sequence, 0) + body)
        answers: list[tuple[int, bytes]] = []
        while True:
            for answer, payload in _messages(self._socket.recv(_ANSWER_BYTES)):
                if answer == _NLMSG_ERROR:
                    code = -_ERROR.unpack_from(payload)[0]
                    if code:
                        raise self._refusal(code)
                    return answers
                if answer == _NLMSG_DONE:
                    return answers
                answers.append((answer, payload))

    def _refusal(self, code: int) -> KernelError:
        why = os.strerror(code)
        hint = "; the pod needs the capability NET_ADMIN" if code == 1 else ""
        return KernelError(f"HTB on {self._name}: {why}{hint}")


def _aside(call: Callable[[], T]) -> T:
    """Run what uses pyroute2 in another thread: it brings an event loop of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def _options(htb: HtbClass) -> bytes:
    rate, ceil = bytes_per_second(htb.rate), bytes_per_second(htb.ceil)
    parms = _rate(rate) + _rate(ceil) + _OPTIONS.pack(_burst(rate), _burst(ceil), htb.quantum, 0, 0)
    nested = _attribute(_TCA_HTB_PARMS, parms)
    if rate > _LARGEST_32:
        nested += _attribute(_TCA_HTB_RATE64, rate.to_bytes(8, "little"))
    if ceil > _LARGEST_32:
        nested += _attribute(_TCA_HTB_CEIL64, ceil.to_bytes(8, "little"))
    return _attribute(_TCA_OPTIONS, nested)


def _rate(rate: int) -> bytes:
    """With the link layer named, the kernel wants no rate table."""
    return _RATE.pack(0, _LINK_LAYER_ETHERNET, 0, -1, 0, min(rate, _LARGEST_32))


def _burst(rate: int) -> int:
    """The bucket's depth as a time, in ticks of 64 ns."""
    burst = max(_LEAST_BURST, rate * _BURST_SECONDS)
    return min(_LARGEST_32, round(burst / rate * 1e9 / _TICK_NS))


def _attribute(kind: int, payload: bytes) -> bytes:
    length = _ATTRIBUTE.size + len(payload)
    return _ATTRIBUTE.pack(length, kind) + payload + bytes(-length % 4)


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        yield kind & ~_NESTED, data[at + _ATTRIBUTE.size : at + length]
        at += max(length, _ATTRIBUTE.size) + -length % 4


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, *_ = _HEADER.unpack_from(data, at)
        yield kind, data[at + _HEADER.size : at + length]
        at += max(length, _HEADER.size) + -length % 4


def _class_of(message: Any) -> HtbClass:
    options = message.get_attr("TCA_OPTIONS")
    parms = options.get_attr("TCA_HTB_PARMS")
    parent = message["parent"]
    return HtbClass(
        minor=message["handle"] - MAJOR,
        parent=0 if parent == _ROOT else parent - MAJOR,
        rate=_bits(options.get_attr("TCA_HTB_RATE64"), parms["rate"]),
        ceil=_bits(options.get_attr("TCA_HTB_CEIL64"), parms["ceil"]),
        quantum=parms["quantum"],
    )


def _bits(wide: int | None, narrow: int) -> BitsPerSecond:
    return bits(wide or narrow)
