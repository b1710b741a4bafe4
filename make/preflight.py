"""Says at once, in one list, what this machine lacks for a goal; as root it installs packages.

    python3 make/preflight.py GOAL        GOAL is check, programs, clusters, demo or test

Exit code 0: nothing is missing (any more). 2: something is, and the list says what, what it is for
and which command brings it. As root on Debian or Ubuntu the packages are installed after they were
named; ``INSTALL=no`` refuses that. ``PREFLIGHT=no`` skips everything, on your own account.

This is the one place that lists what the project needs of a machine. It runs before anything else
is there: with the standard library of a Python as old as 3.9, and no program that it looks for.
What it finds (``observe``) and what that means (``decide``) are apart.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))  # also where Python is told to be safe
import kernel

GOALS = ("check", "programs", "clusters", "demo", "test")
ROOT = Path(__file__).resolve().parents[1]
PYTHON = (3, 11)
LINUX = (5, 18)  # nftables removes TCP options since then, by which the WAN's window is set
GIB = 1 << 30

_ALL = frozenset(GOALS)
_BED = frozenset({"clusters", "demo", "test"})
_BUILD = _BED | {"programs"}
_TEST = frozenset({"test"})


class Need(NamedTuple):
    """Something that a Debian package brings."""

    name: str  # a program on the PATH, or a file where it begins with /
    package: str
    use: str
    goals: frozenset[str]


TORCH = "python3-torch"
VENV = "python3-venv"
APPARMOR = "apparmor_parser"
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
NEEDS = (
    Need(VENV, "python3-venv", "makes .venv", _ALL),
    Need(AUTHORITIES, "ca-certificates", "checks who answers a download", _ALL),
    Need("go", "golang-go", "compiles Kubernetes, or fetches the Go that does", _BUILD),
    Need("docker", "docker.io", "runs the clusters' nodes", _BED),
    Need("dockerd", "docker.io", "runs the clusters' nodes", _BED),
    Need("runc", "runc", "starts docker's containers", _BED),
    Need("iptables", "iptables", "docker's networks", _BED),
    Need(APPARMOR, "apparmor", "docker's profile, where the kernel has AppArmor", _BED),
    Need("debootstrap", "debootstrap", "makes the images' file systems", _BED),
    Need(KEYRING, "debian-archive-keyring", "checks what debootstrap fetches", _BED),
    Need("nft", "nftables", "the sidecar's tests", _TEST),
    Need("ip", "iproute2", "the sidecar's tests", _TEST),
    Need("sysctl", "procps", "the sidecar's tests", _TEST),
    Need("openssl", "openssl", "keys of the tests' control planes", _TEST),
    Need("node", "nodejs", "runs the script of the timeline's page", _TEST),
    Need(TORCH, "python3-torch", "the trainer's losses against PyTorch's", _TEST),
)

MEMORY = {"check": 2, "programs": 3, "clusters": 9, "demo": 13, "test": 13}  # GiB
CORES = {"check": 1, "programs": 1, "clusters": 2, "demo": 2, "test": 2}
CACHE_GIB = {"cold": 14, "warm": 4}  # Go's caches, programs and image archives
DOCKER_GIB = {"cold": 12, "warm": 9}  # images, and what the nodes write
TEMPORARY_GIB = 4  # a root file system, and what Go links
CHECK_GIB = 3  # .venv and caches of tools
DEAD_PORTS = (1, 9)  # tests connect to them and expect nobody there
CONTROLLERS = frozenset({"cpu", "memory", "pids"})
DOCKER_ROOT = "/var/lib/docker"


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
    cold: bool = True  # whether Kubernetes has to be built first
    kernel: Mapping[str, str | None] = {}
    cgroups: frozenset[str] | None = CONTROLLERS
    docker: str = "silent"  # answers, denied or silent
    taken: tuple[int, ...] = ()
    loopback: bool = True


class Verdict(NamedTuple):
    """What is missing: what packages bring, and what they do not."""

    needs: tuple[Need, ...]
    faults: tuple[tuple[str, str], ...]  # what, and what to do about it

    @property
    def good(self) -> bool:
        """Whether nothing is missing."""
        return not self.needs and not self.faults


# --- what it means -------------------------------------------------------------------------------


def decide(facts: Facts, goal: str) -> Verdict:
    """What ``goal`` needs and this machine lacks, whole."""
    needs = tuple(
        need
        for need in NEEDS
        if goal in need.goals
        and need.name not in facts.found
        and (need.name != APPARMOR or facts.apparmor)
    )
    faults = [*_python(facts), *_size(facts, goal), *_disk(facts, goal)]
    if goal in _BED:
        faults += [*_system(facts)]
        faults += [
            *_cgroups(facts),
            *_kernel(facts),
            *_docker(facts, needs),
            *_network(facts, goal),
        ]
    return Verdict(needs, tuple(faults))


def _python(facts: Facts) -> list[tuple[str, str]]:
    if facts.python >= PYTHON:
        return []
    said = ".".join(map(str, facts.python))
    wanted = ".".join(map(str, PYTHON))
    do = f"install {wanted} or newer, and say PYTHON_BASE=python{wanted} if it is not python3"
    return [(f"Python {said} is older than {wanted}", do)]


def _system(facts: Facts) -> list[tuple[str, str]]:
    if facts.system >= LINUX:
        return []
    said, wanted = (".".join(map(str, version)) for version in (facts.system, LINUX))
    return [(f"Linux {said} is older than {wanted}", "a newer kernel")]


def _size(facts: Facts, goal: str) -> list[tuple[str, str]]:
    faults = []
    if facts.cores < CORES[goal]:
        do = f"{CORES[goal]} at least, or what is measured is the machine"
        faults.append((f"{facts.cores:g} cores", do))
    if facts.memory < MEMORY[goal] * GIB:
        do = f"{MEMORY[goal]} GiB at least: 16 are advised"
        faults.append((f"{facts.memory / GIB:.1f} GiB of memory", do))
    return faults


def _disk(facts: Facts, goal: str) -> list[tuple[str, str]]:
    """What each file system lacks; uses on the same one add up."""
    state = "cold" if facts.cold else "warm"
    wanted = {
        "project": CHECK_GIB,
        "cache": CACHE_GIB[state] if goal in _BUILD else 0,
        "temporary": TEMPORARY_GIB if goal in _BUILD else 0,
        "docker": DOCKER_GIB[state] if goal in _BED else 0,
    }
    faults = []
    by_device: dict[int, list[Disk]] = {}
    for disk in facts.disks:
        if wanted.get(disk.use):
            by_device.setdefault(disk.device, []).append(disk)
    for disks in by_device.values():
        total, free = sum(wanted[disk.use] for disk in disks), disks[0].free
        if free < total * GIB:
            places = ", ".join(disk.path for disk in disks)
            faults.append(
                (f"{free / GIB:.1f} GiB of disk free for {places}", f"{total} GiB at least")
            )
    faults += [
        (
            f"{disk.path} forbids devices or programs (nodev, noexec)",
            "say TMPDIR=/a/folder/that/allows/them",
        )
        for disk in facts.disks
        if disk.barred and disk.use == "temporary" and goal in _BED
    ]
    return faults


def _cgroups(facts: Facts) -> list[tuple[str, str]]:
    if facts.cgroups is None:
        return [("no cgroups at /sys/fs/cgroup", "mount -t cgroup2 cgroup2 /sys/fs/cgroup")]
    absent = sorted(CONTROLLERS - facts.cgroups)
    if not absent:
        return []
    return [
        (f"no cgroup controller {', '.join(absent)}", "enable it (kernel parameter cgroup_enable=)")
    ]


def _kernel(facts: Facts) -> list[tuple[str, str]]:
    return [
        (
            f"the kernel gives no {feature}: {why}",
            "a kernel with it, or more rights in this container",
        )
        for feature, why in facts.kernel.items()
        if why
    ]


def _docker(facts: Facts, needs: tuple[Need, ...]) -> list[tuple[str, str]]:
    """Root starts the daemon itself; another user needs one that runs, and the group."""
    if facts.root or facts.docker == "answers":
        return []
    join = f"sudo usermod -aG docker {facts.user}, and log in again"
    if facts.docker == "denied":
        return [(f"{facts.user} may not talk to docker", join)]
    start = "" if any(need.name == "dockerd" for need in needs) else "sudo systemctl start docker; "
    return [("no docker daemon answers", f"{start}{join}")]


def _network(facts: Facts, goal: str) -> list[tuple[str, str]]:
    faults = []
    if not facts.loopback:
        faults.append(("loopback carries nothing", "ip link set lo up"))
    if goal in _TEST:
        faults += [
            (
                f"somebody listens on port {port} of 127.0.0.1",
                "stop it: a test expects nobody there",
            )
            for port in facts.taken
        ]
    return faults


def packages(needs: tuple[Need, ...], facts: Facts) -> list[str]:
    """The Debian packages that bring ``needs``."""
    names = {need.package for need in needs}
    if facts.distribution == "debian" and "docker.io" in names and facts.release >= "13":
        names.add("docker-cli")  # a package of its own since Debian 13
    return sorted(names)


def command(needs: tuple[Need, ...], facts: Facts) -> str:
    """The one command that installs them."""
    sudo = "" if facts.root else "sudo "
    names = " ".join(packages(needs, facts))
    return f"{sudo}apt-get update && {sudo}apt-get install -y --no-install-recommends {names}"


def report(verdict: Verdict, facts: Facts, goal: str) -> list[str]:
    """The list as a person reads it."""
    rows = [(need.name, need.use) for need in verdict.needs] + list(verdict.faults)
    width = min(40, max(len(row[0]) for row in rows))
    lines = [f"make {goal} needs what this machine lacks:", ""]
    lines += [f"  {what:<{width}}  {use}" for what, use in rows]
    if verdict.needs and facts.apt:
        lines += ["", "This installs the packages:", "", f"  {command(verdict.needs, facts)}"]
    elif verdict.needs:
        listed = " ".join(packages(verdict.needs, facts))
        lines += ["", f"Install these programs; Debian's packages of them are {listed}"]
    return lines


# --- what is there -------------------------------------------------------------------------------


def observe(goal: str) -> Facts:
    """Looks at this machine: in a second, changing nothing."""
    release = _os_release()
    root = os.geteuid() == 0
    bed = goal in _BED
    cache = Path(os.environ.get("GEOTRAIN_CACHE") or "~/.cache/geotrain").expanduser()
    return Facts(
        user=os.environ.get("USER") or str(os.geteuid()),
        root=root,
        apt=bool(shutil.which("apt-get")) and bool({"debian", "ubuntu"} & _kin(release)),
        distribution=release.get("ID", ""),
        release=release.get("VERSION_ID", ""),
        python=sys.version_info[:2],
        found=frozenset(need.name for need in NEEDS if _is_there(need.name)),
        apparmor=_read("/sys/module/apparmor/parameters/enabled").strip() == "Y",
        system=_linux(os.uname().release),
        cores=_cores(),
        memory=_memory(),
        disks=tuple(_disks(cache)),
        cold=not (Path(os.environ.get("GEOTRAIN_PROGRAMS") or cache / "bin") / "kubelet").exists(),
        kernel=kernel.features(DOCKER_ROOT) if bed and root else {},
        cgroups=_controllers() if bed else CONTROLLERS,
        docker=_daemon() if bed else "silent",
        taken=tuple(port for port in DEAD_PORTS if _answers(port)),
        loopback=_loopback(),
    )


def _linux(release: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", release)
    return (int(found[1]), int(found[2])) if found else LINUX


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


def _disks(cache: Path) -> list[Disk]:
    uses = {
        "project": str(ROOT),
        "cache": str(cache),
        "temporary": os.environ.get("TMPDIR", "/tmp"),
        "docker": DOCKER_ROOT,
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
    """Whether the docker daemon answers this user; asked by its socket, docker may be absent."""
    host = os.environ.get("DOCKER_HOST", "")
    path = host[len("unix://") :] if host.startswith("unix://") else "/var/run/docker.sock"
    if host and not host.startswith("unix://"):
        return "answers"  # elsewhere: docker itself will say
    try:
        with socket.socket(socket.AF_UNIX) as asked:
            asked.settimeout(2)
            asked.connect(path)
            asked.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return "answers" if asked.recv(64).startswith(b"HTTP/1") else "silent"
    except PermissionError:
        return "denied"
    except OSError:
        return "silent"


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


# --- acting --------------------------------------------------------------------------------------


def install(verdict: Verdict, facts: Facts) -> bool:
    """Installs what packages bring, after naming them; whether that went well."""
    names = packages(verdict.needs, facts)
    print(f"installing {len(names)} Debian packages (about 2 min; INSTALL=no refuses):")
    for need in verdict.needs:
        print(f"  {need.package:<22} {need.use}")
    sys.stdout.flush()
    began = time.monotonic()
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_MODE": "a"}
    for words in (["update"], ["install", "-y", "--no-install-recommends", *names]):
        done = subprocess.run(
            ["apt-get", "-q", *words], env=quiet, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        if done.returncode:
            print(done.stdout.decode(errors="replace")[-2000:])
            print(f"apt-get {words[0]} failed; the command was: {command(verdict.needs, facts)}")
            return False
    print(f"installed in {time.monotonic() - began:.0f} s")
    return True


def main(arguments: list[str]) -> int:
    """Looks, says, installs where it may; the exit code."""
    goal = arguments[0] if arguments else "demo"
    if goal not in GOALS:
        print(f"no goal {goal}: one of {', '.join(GOALS)}")
        return 2
    if os.environ.get("PREFLIGHT") == "no":
        return 0
    facts = observe(goal)
    verdict = decide(facts, goal)
    may = facts.root and facts.apt and os.environ.get("INSTALL") != "no"
    if verdict.needs and not verdict.faults and may:
        if not install(verdict, facts):
            return 2
        importlib.invalidate_caches()
        facts = observe(goal)
        verdict = decide(facts, goal)
    if verdict.good:
        return 0
    print("\n".join(report(verdict, facts, goal)))
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
