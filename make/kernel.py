"""What the kernel gives to the clusters, tried in namespaces of their own, so that nothing is left.

Part of the preflight: the standard library of a Python as old as 3.9 alone, and no program.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import socket
import struct
from collections.abc import Callable
from pathlib import Path

_NEW = {"mount": 0x20000, "uts": 0x4000000, "ipc": 0x8000000, "pid": 0x20000000, "net": 0x40000000}
_ROUTE, _NETFILTER = 0, 12  # netlink families
_NEW_LINK, _NEW_QDISC, _GET_GENERATION = 16, 36, (10 << 8) | 16
_ACK, _CREATE, _REQUEST = 4, 0x400 | 0x200, 1
_TUN_SET, _TUN_FLAGS = 0x400454CA, 0x1001


def features(docker_root: str) -> dict[str, str | None]:
    """Each kernel feature that the clusters need, and why it is not there."""
    tries: dict[str, Callable[[], None]] = {
        "namespaces": lambda: None,  # every other try begins with them
        "way into containers": _root,
        "bridge": lambda: _netlink(_ROUTE, _NEW_LINK, _link("bridge")),
        "veth": lambda: _netlink(_ROUTE, _NEW_LINK, _link("veth")),
        "HTB": lambda: _netlink(_ROUTE, _NEW_QDISC, _htb()),
        "nf_tables": lambda: _netlink(_NETFILTER, _GET_GENERATION, bytes(4)),
        "TUN (/dev/net/tun)": _tun,
        "overlay file system": lambda: _overlay(docker_root),
    }
    found: dict[str, str | None] = {}
    for feature, attempt in tries.items():
        found[feature] = _in_namespaces(attempt)
        if feature == "namespaces" and found[feature]:
            break
    return found


def device(kind: str) -> str | None:
    """Why the kernel makes no network device of a kind, or None."""
    return _in_namespaces(lambda: _netlink(_ROUTE, _NEW_LINK, _link(kind)))


def inotify(wanted: int) -> int:
    """How many of so many inotify instances this user can open beside those that are open."""
    libc = ctypes.CDLL(None, use_errno=True)
    opened: list[int] = []
    try:
        while len(opened) < wanted and (one := libc.inotify_init1(os.O_CLOEXEC)) >= 0:
            opened.append(one)
    finally:
        for one in opened:
            os.close(one)
    return len(opened)


def _in_namespaces(attempt: Callable[[], None]) -> str | None:
    """Runs ``attempt`` in a child with new namespaces; what went wrong, or None."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = ""
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.unshare(sum(_NEW.values())):
                raise OSError(ctypes.get_errno(), "unshare")
            libc.mount(b"none", b"/", None, 0x44000, None)  # private, with all below
            attempt()
        except OSError as error:
            said = os.strerror(error.errno) if error.errno else str(error)
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said or None


def _attribute(kind: int, content: bytes) -> bytes:
    return struct.pack("HH", 4 + len(content), kind) + content + bytes(-len(content) % 4)


def _link(kind: str) -> bytes:
    """A request for a new network device: ifinfomsg, and IFLA_LINKINFO's IFLA_INFO_KIND."""
    return struct.pack("BxHiII", 0, 0, 0, 0, 0) + _attribute(18, _attribute(1, kind.encode()))


def _htb() -> bytes:
    """A request for HTB on loopback: tcmsg, TCA_KIND, and TCA_OPTIONS' TCA_HTB_INIT."""
    message = struct.pack("BxxxiIII", 0, socket.if_nametoindex("lo"), 1 << 16, 0xFFFFFFFF, 0)
    setup = _attribute(2, struct.pack("IIIII", 3, 10, 1, 0, 0))
    return message + _attribute(1, b"htb\0") + _attribute(2, setup)


def _netlink(family: int, kind: int, content: bytes) -> None:
    """Sends a request to the kernel. Raises OSError with what it answers."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, family) as kernel:
        kernel.settimeout(2)
        flags = _REQUEST | _ACK | (_CREATE if family == _ROUTE else 0)
        kernel.send(struct.pack("IHHII", 16 + len(content), kind, flags, 1, 0) + content)
        answer = kernel.recv(8192)
    if struct.unpack_from("H", answer, 4)[0] == 2:  # NLMSG_ERROR, which is an acknowledgement at 0
        number = -struct.unpack_from("i", answer, 16)[0]
        if number:
            raise OSError(number, os.strerror(number))


def _root() -> None:
    """Joins its own mount namespace, as ``docker exec`` joins a container's, and looks where it is.

    In a plain chroot containers' file systems hang below the true root: a command that is to run
    in a container then runs, as root, in the file system outside the chroot.
    """
    before = os.stat("/")
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/ns/mnt") as namespace:
        if libc.setns(namespace.fileno(), _NEW["mount"]):
            raise OSError(ctypes.get_errno(), "setns")
    after = os.stat("/")
    if (before.st_dev, before.st_ino) != (after.st_dev, after.st_ino):
        raise OSError("/ is a chroot, and docker exec would leave it (pivot_root, nspawn do not)")


def _tun() -> None:
    with open("/dev/net/tun", "r+b", buffering=0) as device:
        fcntl.ioctl(device, _TUN_SET, struct.pack("16sH22x", b"preflight", _TUN_FLAGS))


def _overlay(docker_root: str) -> None:
    """Mounts an overlay on the file system that docker would keep its layers on."""
    there = Path(docker_root)
    while not there.exists():
        there = there.parent
    folder = there / f".preflight-{os.getpid()}"
    parts = [folder / name for name in ("lower", "upper", "work", "merged")]
    try:
        for part in parts:
            part.mkdir(parents=True)
        options = "lowerdir={},upperdir={},workdir={}".format(*parts[:3])
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mount(b"overlay", bytes(parts[3]), b"overlay", 0, options.encode()):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        libc.umount(bytes(parts[3]))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
