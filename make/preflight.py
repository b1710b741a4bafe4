"""Says at once, in one list, what this machine lacks for a goal; as root it installs packages.

    python3 make/preflight.py GOAL        GOAL is check, programs, clusters, demo or test

Exit code 0: nothing is missing (any more). 2: something is, and the list says what, what it is for
and which command brings it. As root on Debian or Ubuntu the packages are installed after they were
named; ``INSTALL=no`` refuses that. ``PREFLIGHT=no`` skips everything, on your own account.

This is the one place that lists what the project needs of a machine. It runs before anything else
is there: with the standard library of a Python as old as 3.9, and no program that it looks for.
What is there (``machine.py``, ``kernel.py``) and what that means (``decide``) are apart.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))  # also where Python is told to be safe
from machine import AUTHORITIES, CONTROLLERS, GIB, INOTIFY, TORCH, VENV, Disk, Facts, observe

GOALS = ("check", "programs", "clusters", "demo", "test")
PYTHON = (3, 11)
LINUX = (5, 18)  # nftables removes TCP options since then, by which the WAN's window is set

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


APPARMOR = "apparmor_parser"
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
CACHE_GIB = {"cold": 14, "warm": 4, "up": 1}  # Go's caches, programs and image archives
DOCKER_GIB = {"cold": 12, "warm": 9, "up": 2}  # images, and what the nodes write
TEMPORARY_GIB = {"cold": 4, "warm": 4, "up": 2}  # a root file system, and what Go links
CHECK_GIB = 3  # .venv and caches of tools


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
            *_inotify(facts),
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
    wanted = {
        "project": CHECK_GIB,
        "cache": CACHE_GIB[facts.state] if goal in _BUILD else 0,
        "temporary": TEMPORARY_GIB[facts.state] if goal in _BUILD else 0,
        "docker": DOCKER_GIB[facts.state] if goal in _BED else 0,
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


def _inotify(facts: Facts) -> list[tuple[str, str]]:
    if facts.inotify >= INOTIFY:
        return []
    said = f"{facts.inotify} inotify instances free, {INOTIFY} needed"
    return [(said, "sysctl fs.inotify.max_user_instances=512, or end what holds them")]


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


# --- acting --------------------------------------------------------------------------------------


def install(verdict: Verdict, facts: Facts) -> bool:
    """Installs what packages bring, after naming them; whether that went well."""
    names = packages(verdict.needs, facts)
    print(f"installing {len(names)} Debian packages (about 2 min; INSTALL=no refuses):")
    for package, use in dict.fromkeys((need.package, need.use) for need in verdict.needs):
        print(f"  {package:<22} {use}")
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
    names = [need.name for need in NEEDS]
    facts = observe(names, bed=goal in _BED)
    verdict = decide(facts, goal)
    may = facts.root and facts.apt and os.environ.get("INSTALL") != "no"
    if verdict.needs and not verdict.faults and may:
        if not install(verdict, facts):
            return 2
        importlib.invalidate_caches()
        facts = observe(names, bed=goal in _BED)
        verdict = decide(facts, goal)
    if verdict.good:
        return 0
    print("\n".join(report(verdict, facts, goal)))
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
