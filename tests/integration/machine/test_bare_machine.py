"""The preflight on a Debian that has make and python3 and nothing else."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.testbed import places
from support import preflight as script

preflight = script.load()
ARCHIVE = places.IMAGES / "bare-machine.tar"
MAKES_THE_ARCHIVE = "debootstrap --variant=minbase --include=make,python3 bookworm"
SECONDS = 5.0  # until a person is told, on whatever machine
IN_SECONDS = 3 * SECONDS  # where tests share the processors
MOUNTS = (
    "mount -t proc proc {root}/proc; mount --rbind /sys {root}/sys; mount --rbind /dev {root}/dev;"
)
USER = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The root of a bare Debian 12 with this project's Makefile in /src."""
    if os.geteuid() or not shutil.which("debootstrap"):
        pytest.skip("needs root and debootstrap")
    root = tmp_path_factory.mktemp("bare")
    if not ARCHIVE.exists():
        _make_archive(root.with_name("new-bare"))
    subprocess.run(["tar", "-C", root, "-xf", ARCHIVE], check=True)
    shutil.copytree(script.ROOT / "make", root / "src" / "make")
    shutil.copy(script.ROOT / "Makefile", root / "src")
    yield root
    subprocess.run(["rm", "-rf", root], check=True)


def _make_archive(root: Path) -> None:
    ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    part = ARCHIVE.with_suffix(".part")
    subprocess.run([*MAKES_THE_ARCHIVE.split(), root], check=True, capture_output=True)
    subprocess.run(["tar", "-C", root, "-cf", part, "--exclude=./dev/*", "."], check=True)
    part.replace(ARCHIVE)
    shutil.rmtree(root)


@pytest.fixture
def run(bare: Path) -> Run:
    """Runs a command in /src, with mounts that end with it (or with none), as root or as a user."""

    def inside(
        *command: str, mounted: bool = True, user: bool = False, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        prepare = MOUNTS.format(root=bare) if mounted else ""
        enter = [*(USER if user else ()), "env", "-C", "/src", *command]
        words = ["unshare", "--mount", "bash", "-euc", f'{prepare} exec chroot {bare} "$@"', "bash"]
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "INSTALL": "no", **variables}
        return subprocess.run(
            [*words, *enter], env=environment, capture_output=True, text=True, check=False
        )

    return inside


def lacking(goal: str) -> tuple[set[str], set[str]]:
    """The names and the packages that a bare Debian lacks for a goal."""
    there = {preflight.KEYRING, preflight.APPARMOR}  # apt's, and another kernel's
    needs = [need for need in preflight.NEEDS if goal in need.goals and need.name not in there]
    return {need.name for need in needs}, {need.package for need in needs}


@pytest.mark.parametrize("goal", ["demo", "test"])
@pytest.mark.parametrize("user", [False, True], ids=["root", "user"])
def test_a_bare_machine_is_told_all_at_once_in_seconds(run: Run, goal: str, user: bool) -> None:
    begin = time.monotonic()
    done = run("make", goal, user=user)
    assert time.monotonic() - begin < IN_SECONDS
    assert done.returncode == 2
    names, packages = lacking(goal)
    assert names <= {line.split("  ")[1] for line in done.stdout.splitlines() if line[:2] == "  "}
    [command] = [line.strip() for line in done.stdout.splitlines() if "apt-get install" in line]
    assert (
        set(re.findall(r"[\w.+-]+", command.partition("--no-install-recommends ")[2])) == packages
    )
    assert command.startswith("sudo apt-get" if user else "apt-get")
    assert ("no docker daemon answers" in done.stdout) is user
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("goal", ["demo", "test"])
def test_debian_has_every_package_that_is_named(run: Run, goal: str) -> None:
    _, packages = lacking(goal)
    done = run("apt-get", "install", "--simulate", "--no-install-recommends", *sorted(packages))
    assert done.returncode == 0, done.stderr
    assert "Inst docker.io" in done.stdout


def test_a_container_without_kernel_file_systems_is_told_so(run: Run) -> None:
    done = run("make", "demo", mounted=False)
    assert done.returncode == 2
    assert "no cgroups at /sys/fs/cgroup" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_goal_that_needs_little_is_told_little(run: Run) -> None:
    done = run("make", "preflight", "GOAL=check", user=True)
    assert "python3-venv" in done.stdout
    assert "docker" not in done.stdout


def test_nothing_is_made_before_all_is_there(run: Run, bare: Path) -> None:
    run("make", "demo")
    assert not (bare / "src" / ".venv").exists()


def test_a_machine_without_python_is_told_so_too(run: Run) -> None:
    done = run("make", "demo", "PYTHON_BASE=python9")
    assert done.returncode == 2
    assert "python9 is missing" in done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may try the kernel")
def test_what_the_kernel_gives_is_tried_and_not_believed(tmp_path: Path) -> None:
    kernel = script.kernel()
    assert kernel.features(str(tmp_path)) == dict.fromkeys(kernel.features(str(tmp_path)))
    assert kernel.device("nonesuch") == "Operation not supported"
    assert list(tmp_path.iterdir()) == []
    links = subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout
    assert "preflight" not in links
