"""What a machine lacks for a goal: all of it, in one list, with what brings it."""

import ast
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from support import preflight as script

preflight = script.load()
GIB = preflight.GIB
EVERYTHING = frozenset(need.name for need in preflight.NEEDS)


def disk(use: str, free: float, device: int = 1, *, barred: bool = False) -> Any:
    return preflight.Disk(use, f"/{use}", device, int(free * GIB), barred)


def facts(**changes: Any) -> Any:
    """A machine that lacks nothing, but for the changes."""
    whole = {
        "user": "ada",
        "root": True,
        "apt": True,
        "distribution": "debian",
        "release": "12",
        "python": (3, 11),
        "found": EVERYTHING,
        "system": (6, 1),
        "cores": 2.0,
        "memory": 16 * GIB,
        "disks": tuple(disk(use, 60) for use in ("project", "cache", "temporary", "docker")),
        "kernel": {"bridge": None, "overlay file system": None},
        "docker": "answers",
    }
    return preflight.Facts(**{**whole, **changes})


def said(goal: str = "demo", **changes: Any) -> str:
    machine = facts(**changes)
    verdict = preflight.decide(machine, goal)
    return "" if verdict.good else "\n".join(preflight.report(verdict, machine, goal))


@pytest.mark.parametrize("goal", preflight.GOALS)
def test_a_machine_that_has_everything_lacks_nothing(goal: str) -> None:
    assert said(goal) == ""


def test_a_bare_machine_is_told_everything_at_once_and_the_one_command() -> None:
    text = said(found=frozenset())
    for program in ("go", "docker", "dockerd", "runc", "iptables", "debootstrap", "python3-venv"):
        assert re.search(rf"^  {re.escape(program)} ", text, re.MULTILINE), program
    assert text.count("apt-get install") == 1
    assert "  apt-get update && apt-get install -y --no-install-recommends ca-certificates " in text
    assert " docker.io golang-go iptables python3-venv runc" in text
    assert "nodejs" not in text  # that is for the tests


def test_the_tests_need_more_than_the_demo_and_a_check_needs_less() -> None:
    def packages(goal: str) -> set[str]:
        verdict = preflight.decide(facts(found=frozenset()), goal)
        return set(preflight.packages(verdict.needs, facts()))

    assert packages("check") == {"python3-venv", "ca-certificates"}
    assert packages("check") < packages("programs") < packages("demo") < packages("test")
    assert packages("test") - packages("demo") == {
        *("nftables", "iproute2", "procps", "openssl", "nodejs", "python3-torch")
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"python": (3, 10)}, "Python 3.10 is older than 3.11"),
        ({"system": (5, 15)}, "Linux 5.15 is older than 5.18"),
        ({"memory": 8 * GIB}, "8.0 GiB of memory"),
        ({"cores": 1.0}, "1 cores"),
        ({"cores": 1.5}, "1.5 cores"),
        ({"cgroups": None}, "no cgroups at /sys/fs/cgroup"),
        ({"cgroups": frozenset({"cpu", "pids"})}, "no cgroup controller memory"),
        (
            {"kernel": {"bridge": "Operation not supported"}},
            "the kernel gives no bridge: Operation",
        ),
        ({"inotify": 40}, "40 inotify instances free, 84 needed"),
        ({"loopback": False}, "loopback carries nothing"),
        ({"docker": "silent", "root": False}, "no docker daemon answers"),
        ({"docker": "denied", "root": False}, "ada may not talk to docker"),
        ({"disks": (disk("docker", 5),)}, "5.0 GiB of disk free for /docker"),
        ({"disks": (disk("cache", 60), disk("temporary", 60, 2, barred=True))}, "TMPDIR="),
    ],
)
def test_what_no_package_brings_is_said_with_what_to_do(
    changes: dict[str, Any], expected: str
) -> None:
    text = said(**changes)
    assert expected in text
    assert "apt-get" not in text
    line = next(line for line in text.splitlines() if expected in line)
    assert re.search(r"\S  +\S", line.strip())  # two columns: what, and what to do


def test_uses_of_one_file_system_add_up() -> None:
    uses = ("cache", "temporary", "docker")
    apart = tuple(disk(use, 16, device) for device, use in enumerate(uses))
    assert said(disks=apart) == ""
    together = tuple(disk(use, 16, 1) for use in uses)
    assert "16.0 GiB of disk free for /cache, /temporary, /docker" in said(disks=together)


def test_a_machine_that_has_the_programs_needs_less_disk() -> None:
    disks = tuple(disk(use, 22, 1) for use in ("project", "cache", "temporary", "docker"))
    assert "disk free" in said(disks=disks, state="cold")
    assert said(disks=disks, state="warm") == ""


def test_a_machine_on_which_the_clusters_run_needs_little_disk() -> None:
    disks = tuple(disk(use, 9, 1) for use in ("project", "cache", "temporary", "docker"))
    assert "disk free" in said(disks=disks, state="warm")
    assert said(disks=disks, state="up") == ""


def test_a_port_that_somebody_listens_on_stops_the_tests_alone() -> None:
    assert said("demo", taken=(9,)) == ""
    assert "somebody listens on port 9 of 127.0.0.1" in said("test", taken=(9,))


def test_a_check_needs_neither_docker_nor_much_of_a_machine() -> None:
    small = facts(docker="silent", root=False, memory=4 * GIB, cores=1.0, cgroups=None)
    assert preflight.decide(small, "check").good


def test_apparmor_is_wanted_where_the_kernel_has_it() -> None:
    found = EVERYTHING - {preflight.APPARMOR}
    assert said(found=found, apparmor=False) == ""
    assert "apparmor_parser" in said(found=found, apparmor=True)


def test_a_user_is_told_the_same_command_with_sudo() -> None:
    text = said(found=frozenset(), root=False, docker="silent")
    assert "sudo apt-get update && sudo apt-get install" in text
    assert "sudo usermod -aG docker ada" in text


def test_another_distribution_is_told_the_programs() -> None:
    text = said(found=frozenset(), apt=False, distribution="fedora", release="43")
    assert "apt-get" not in text
    assert "Install these programs" in text
    assert "dockerd" in text


@pytest.mark.parametrize(("release", "apart"), [("12", False), ("13", True)])
def test_dockers_client_is_a_package_of_its_own_since_debian_13(release: str, apart: bool) -> None:
    text = said(found=frozenset(), release=release)
    assert ("docker-cli" in text) is apart


# --- the script itself ---------------------------------------------------------------------------


def run(*arguments: str, path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(path), "HOME": os.environ.get("HOME", "/"), **variables}
    command = [sys.executable, str(script.SCRIPT), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def test_with_an_empty_path_it_lists_all_in_seconds_and_changes_nothing(tmp_path: Path) -> None:
    begin = time.monotonic()
    done = run("demo", path=tmp_path, INSTALL="no")
    assert time.monotonic() - begin < 5
    assert done.returncode == 2
    assert not done.stderr
    assert "  docker " in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("install", ["no", "yes"])
def test_it_installs_only_where_it_may(tmp_path: Path, install: str) -> None:
    """With an apt-get that notes what it is asked, and installs nothing."""
    program(tmp_path, "apt-get", f'echo "$@" >> {tmp_path}/asked')
    done = run("programs", path=tmp_path, INSTALL=install)
    asked = tmp_path / "asked"
    assert done.returncode == 2
    debian = Path("/etc/debian_version").exists()
    if install == "yes" and os.geteuid() == 0 and debian:
        update, wanted = asked.read_text().splitlines()
        assert update == "-q update"
        assert wanted.startswith("-q install -y --no-install-recommends ")
        assert "golang-go" in wanted
        assert "golang-go" in done.stdout.partition("installed in")[0]  # told before it is done
    else:
        assert not asked.exists()
    assert "make programs needs what this machine lacks" in done.stdout


def test_an_unknown_goal_is_refused_and_no_preflight_is_a_choice(tmp_path: Path) -> None:
    assert "one of check, programs" in run("fly", path=tmp_path).stdout
    assert run("demo", path=tmp_path, PREFLIGHT="no").returncode == 0


@pytest.mark.parametrize(
    "path", sorted(script.SCRIPT.parent.glob("*.py")), ids=lambda path: path.name
)
def test_an_old_python_reads_the_script(path: Path) -> None:
    """It must say that Python is old, not fail to be read by it."""
    ast.parse(path.read_text(), feature_version=(3, 9))
