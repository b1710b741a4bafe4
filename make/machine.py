"""What is there on this machine, as far as the preflight asks: in a second, changing nothing.

Part of the preflight: the standard library of a Python as old as 3.9 alone, and no program.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import kernel

ROOT = Path(__file__).resolve().parents[1]
GIB = 1 << 30
CONTROLLERS = frozenset({"cpu", "memory", "pids"})
DEAD_PORTS = (1, 9)  # tests connect to them and expect nobody there
CLUSTERS = 3
INOTIFY = 28 * CLUSTERS  # instances, as the programs of a node were counted to open
NODES = quote('{"label":["io.x-k8s.kind.cluster"]}')

# What is looked for in another way than by a program's name on the PATH.
TORCH = "python3-torch"
VENV = "python3-venv"
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"


class Disk(NamedTuple):
    """A file system that the goal writes to."""

    use: str
    path: str
    device: int
    free: int  # bytes
    barred: bool  # mounted without devices or without running programs


class Facts(NamedTuple):
    """What was found on this machine; None stands for "cannot be told"."""

    user: str
    root: bool
    apt: bool
    distribution: str
    release: str
    python: tuple[int, int]
    found: frozenset[str] = frozenset()
    apparmor: bool = False
    system: tuple[int, int] = (6, 1)  # Linux
    cores: float = 2.0
    memory: int = 16 * GIB
    disks: tuple[Disk, ...] = ()
    state: str = "cold"  # warm: the programs are built; up: the clusters run, with their images
    kernel: Mapping[str, str | None] = {}
    inotify: int = INOTIFY  # instances that can be opened, of those that are wanted
    cgroups: frozenset[str] | None = CONTROLLERS
    docker: str = "silent"  # answers, denied or silent
    taken: tuple[int, ...] = ()
    loopback: bool = True


def observe(names: Iterable[str], *, bed: bool) -> Facts:
    """Looks for ``names``, and at the machine; ``bed``: also at what containers need."""
    release = _os_release()
    root = os.geteuid() == 0
    docker = _daemon() if bed else "silent"
    kept = docker_root() if bed else ""
    cache = Path(os.environ.get("GEOTRAIN_CACHE") or "~/.cache/geotrain").expanduser()
    state = _state(Path(os.environ.get("GEOTRAIN_PROGRAMS") or cache / "bin"), bed=bed)
    return Facts(
        user=_user(),
        root=root,
        apt=bool(shutil.which("apt-get")) and bool({"debian", "ubuntu"} & _kin(release)),
        distribution=release.get("ID", ""),
        release=release.get("VERSION_ID", ""),
        python=sys.version_info[:2],
        found=frozenset(name for name in names if _is_there(name)),
        apparmor=_read("/sys/module/apparmor/parameters/enabled").strip() == "Y",
        system=_linux(os.uname().release),
        cores=_cores(),
        memory=_memory(),
        disks=tuple(_disks(cache, kept)),
        state=state,
        kernel=kernel.features(kept) if bed and root else {},
        # The nodes' programs are root's: what another user could open says nothing of them.
        inotify=kernel.inotify(INOTIFY) if bed and root and state != "up" else INOTIFY,
        cgroups=_controllers() if bed else CONTROLLERS,
        docker=docker,
        taken=tuple(port for port in DEAD_PORTS if _answers(port)),
        loopback=_loopback(),
    )


def _state(programs: Path, *, bed: bool) -> str:
    """How much of what takes room is there already."""
    if not (programs / "kubelet").exists():
        return "cold"
    try:
        nodes = json.loads(_ask_docker(f"/containers/json?filters={NODES}")) if bed else ()
    except (OSError, ValueError):
        nodes = ()
    return "up" if len(nodes) >= CLUSTERS else "warm"


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a number without a name
        return str(os.geteuid())


def _linux(release: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", release)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _os_release() -> dict[str, str]:
    lines = (line.partition("=") for line in _read("/etc/os-release").splitlines())
    return {key: text.strip().strip('"') for key, _, text in lines}


def _kin(release: Mapping[str, str]) -> frozenset[str]:
    return frozenset([release.get("ID", ""), *release.get("ID_LIKE", "").split()])


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _is_there(name: str) -> bool:
    if name == VENV:
        made = os.access(ROOT / ".venv/bin/python", os.X_OK)
        return made or all(importlib.util.find_spec(module) for module in ("venv", "ensurepip"))
    if name == TORCH:
        return _has_torch()
    if name == AUTHORITIES:
        return os.path.exists(os.environ.get("SSL_CERT_FILE") or name)
    if name.startswith("/"):
        return os.path.exists(name)
    # sudo and cron drop the folders of administrators' programs from the PATH
    return bool(shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin"))


def _has_torch() -> bool:
    candidates = [os.environ.get("GEOTRAIN_TORCH_PYTHON"), sys.executable, "/usr/bin/python3"]
    code = "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"
    return any(
        subprocess.run([each, "-c", code], stderr=subprocess.DEVNULL).returncode == 0
        for each in candidates
        if each and os.path.exists(each)
    )


def _cores() -> float:
    """Processors that this process may use: its affinity, and its cgroup's share of time."""
    cores = float(len(os.sched_getaffinity(0)))
    quota, _, period = _read("/sys/fs/cgroup/cpu.max").partition(" ")
    if not quota:
        quota = _read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").strip()
        period = _read("/sys/fs/cgroup/cpu/cpu.cfs_period_us")
    if quota.isdigit() and period.strip().isdigit():
        cores = min(cores, int(quota) / int(period))
    return cores


def _memory() -> int:
    """Bytes that this machine, or this container, may have."""
    found = re.search(r"MemTotal:\s+(\d+) kB", _read("/proc/meminfo"))
    limits = [int(found.group(1)) << 10] if found else []
    for path in ("memory.max", "memory/memory.limit_in_bytes"):
        limit = _read(f"/sys/fs/cgroup/{path}").strip()
        limits += [int(limit)] if limit.isdigit() else []
    return min(limits) if limits else 1 << 62


def _disks(cache: Path, docker_root: str) -> list[Disk]:
    uses = {
        "project": str(ROOT),
        "cache": str(cache),
        "temporary": os.environ.get("TMPDIR", "/tmp"),
        "docker": docker_root or "/",
    }
    disks = []
    for use, path in uses.items():
        there = Path(path)
        while not there.exists():
            there = there.parent
        state = os.statvfs(there)
        barred = bool(state.f_flag & (os.ST_NODEV | os.ST_NOEXEC))
        disks.append(Disk(use, path, there.stat().st_dev, state.f_bavail * state.f_frsize, barred))
    return disks


def _controllers() -> frozenset[str] | None:
    """The cgroup controllers, of version 2 or else of version 1; None where none are mounted."""
    folder = Path("/sys/fs/cgroup")
    unified = _read(str(folder / "cgroup.controllers")).split()
    if unified:
        return frozenset(unified)
    names = [each.name for each in folder.glob("*") if (each / "cgroup.procs").exists()]
    return frozenset(",".join(names).split(",")) if names else None


def _daemon() -> str:
    """Whether the docker daemon answers this user."""
    if os.environ.get("DOCKER_HOST", "unix://").startswith("unix://"):
        try:
            return "answers" if _ask_docker("/_ping") else "silent"
        except PermissionError:
            return "denied"
        except OSError:
            return "silent"
    return "answers"  # elsewhere: docker itself will say


def _ask_docker(path: str) -> bytes:
    """What the daemon answers on its socket: the program docker may be absent."""
    host = os.environ.get("DOCKER_HOST", "")
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.settimeout(2)
        daemon.connect(host[len("unix://") :] or "/var/run/docker.sock")
        daemon.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        with daemon.makefile("rb") as answer:
            return answer.read().partition(b"\r\n\r\n")[2]


def docker_root() -> str:
    """Where docker keeps images: as its daemon says, or its settings, or as usual."""
    try:
        found = json.loads(_ask_docker("/info")).get("DockerRootDir")
    except (OSError, ValueError):
        found = None
    if not found:
        try:
            found = json.loads(_read("/etc/docker/daemon.json")).get("data-root")
        except ValueError:
            found = None
    return found or "/var/lib/docker"


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=0.5).close()
    except OSError:
        return False
    return True


def _loopback() -> bool:
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname()[:2], timeout=1).close()
    except OSError:
        return False
    return True
