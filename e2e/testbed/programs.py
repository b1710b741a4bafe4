"""Builds the Kubernetes programs from Go modules: a machine without registries has them too.

``modules/bed`` is one module of all programs but kwok: what they share is compiled once, and one
``go build`` keeps all cores busy. A program that is there at the wanted version is left alone;
versions are those of the modules' ``go.mod``. A Go that is too old fetches a newer one as a module.
"""

import fcntl
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.testbed import places
from e2e.testbed.shell import TestbedError, console, run

GO = "1.26.8"  # what is fetched where this machine's is older than 1.26
LEAST_GO = (1, 26)
TOOLCHAIN = "golang.org/toolchain@v0.0.1-go{go}.linux-{machine}"
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
MODULES = places.HERE / "modules"
SECONDS_BETWEEN_LINES = 30.0
COLD_SECONDS = 12 * 60.0  # all programs on two cores from nothing
KUBERNETES = "k8s.io/kubernetes"
TAGS = "no_btrfs,no_devmapper,no_zfs"  # containerd's: snapshotters that would need C libraries
# The compiler with fewer collections and without debug information is a third faster.
FASTER = {"GOGC": "400", "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}


@dataclass(frozen=True)
class Program:
    """A program, the package that it is built from and the module that has its version."""

    name: str
    package: str
    module: str
    folder: str = "bed"  # of MODULES
    recipe: int = 1  # raised when the way of building changes what comes out

    def stamp(self, versions: Mapping[str, str]) -> str:
        """What its version file says when it is as wanted."""
        return f"{versions[self.module]} r{self.recipe}"


def _kubernetes(name: str) -> Program:
    return Program(name, f"{KUBERNETES}/cmd/{name}", KUBERNETES)


def _containerd(name: str) -> Program:
    module = "github.com/containerd/containerd/v2"
    return Program(name, f"{module}/cmd/{name}", module)


_ALL = (
    *map(_kubernetes, ("kube-apiserver", "kube-controller-manager", "kube-scheduler")),
    *map(_kubernetes, ("kube-proxy", "kubelet", "kubeadm", "kubectl")),
    Program("etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"),
    Program("kind", "sigs.k8s.io/kind", "sigs.k8s.io/kind"),
    *map(_containerd, ("containerd", "containerd-shim-runc-v2", "ctr")),
    Program("coredns", "./coredns", "github.com/coredns/coredns"),
    Program("pause", "./pause", KUBERNETES),
    Program("kube-router", "./kube-router", "github.com/cloudnativelabs/kube-router/v2"),
    Program("helm", "helm.sh/helm/v3/cmd/helm", "helm.sh/helm/v3"),
    Program("kwok", "sigs.k8s.io/kwok/cmd/kwok", "sigs.k8s.io/kwok", folder="kwok"),
)
PROGRAMS = {program.name: program for program in _ALL}
BED = tuple(name for name in PROGRAMS if name != "kwok")
TESTS = tuple(PROGRAMS)
ON_HOST = ("kind", "kubectl", "kube-router", "helm")  # the others are in images only
PULLED = tuple(name for name in BED if name not in ON_HOST)  # where a registry has the images


def versions(go_mod: str) -> dict[str, str]:
    """Each required module's version, from the text of a ``go.mod``."""
    return dict(re.findall(r"^(?:require )?\s*([\w.~/-]+) (v\S+)", go_mod, re.MULTILINE))


def wanted_versions() -> dict[str, str]:
    """The versions of all programs' modules."""
    found: dict[str, str] = {}
    for folder in ("kwok", "bed"):
        found |= versions((MODULES / folder / "go.mod").read_text())
    return found


def version_of(name: str) -> str:
    """The wanted version of a program, with its v."""
    return wanted_versions()[PROGRAMS[name].module]


def source_of(name: str) -> Path:
    """The folder in which Go keeps the source of a program's module; fetched where it is not."""
    module = f"{PROGRAMS[name].module}@{version_of(name)}"
    said = run("go", "mod", "download", "-json", module, cwd="/", environment=go_environment())
    return Path(json.loads(said)["Dir"])


def missing(names: Iterable[str], folder: Path | None = None) -> list[Program]:
    """Those programs that are not in the folder at their wanted version."""
    folder, wanted = folder or places.PROGRAMS, wanted_versions()
    return [PROGRAMS[name] for name in names if not _is_there(PROGRAMS[name], folder, wanted)]


def _is_there(program: Program, folder: Path, wanted: Mapping[str, str]) -> bool:
    stamp = folder / ".versions" / program.name
    there = os.access(folder / program.name, os.X_OK) and stamp.exists()
    return there and stamp.read_text().strip() == program.stamp(wanted)


def ensure(names: Collection[str]) -> None:
    """Builds those of the programs that are not there.

    Raises:
        TestbedError: no Go, or a build failed; holds what the compiler said.
    """
    if not missing(names):
        return
    with _alone():
        todo = missing(names)
        if not todo:
            return
        environment = go_environment()
        for folder in dict.fromkeys(program.folder for program in todo):
            _build(folder, [p for p in todo if p.folder == folder], environment)


@contextmanager
def _alone() -> Iterator[None]:
    """One build at a time; another one that was asked for waits, and then finds nothing to do."""
    (places.PROGRAMS / ".versions").mkdir(parents=True, exist_ok=True)
    with (places.PROGRAMS / ".versions" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in places.PROGRAMS.glob(".build.*"):
            shutil.rmtree(left, ignore_errors=True)
        yield


def parse_go(said: str) -> tuple[int, int]:
    """The version in what ``go version`` printed."""
    found = re.search(r"go(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def go_environment() -> dict[str, str]:
    """The environment in which ``go`` is new enough: where it is not, a newer one is fetched.

    It comes as a module, checked by Go's checksums, into Go's cache.

    Raises:
        TestbedError: there is no go, or none can be fetched.
    """
    environment = {**os.environ, **FASTER}
    if not shutil.which("go"):
        raise TestbedError("go is not installed, which compiles the Kubernetes programs")
    if parse_go(run("go", "version", cwd=places.HERE, environment=environment)) >= LEAST_GO:
        return environment
    machine = MACHINES.get(platform.machine(), platform.machine())
    name = TOOLCHAIN.format(go=GO, machine=machine)
    said = run("go", "mod", "download", "-json", name, cwd="/", environment=environment)
    toolchain = Path(json.loads(said)["Dir"])
    # Module archives know no permissions, and older Go does not know that this one needs them.
    for program in (*toolchain.glob("bin/*"), *toolchain.glob("pkg/tool/*/*")):
        program.chmod(0o555)
    return {**environment, "PATH": f"{toolchain / 'bin'}:{os.environ['PATH']}"}


def _build(folder: str, programs: list[Program], environment: Mapping[str, str]) -> None:
    """Compiles and links programs of one module, and puts each in its place."""
    begin = time.monotonic()
    work = Path(tempfile.mkdtemp(prefix=".build.", dir=places.PROGRAMS))
    said = ", ".join(program.name for program in programs)
    console.print(f"[bold]·[/] build {said}")
    try:
        packages = [program.package for program in programs]
        _compile(MODULES / folder, packages, work, environment)
        wanted = wanted_versions()
        for program in programs:
            (work / _output(program)).replace(places.PROGRAMS / program.name)
            stamp = places.PROGRAMS / ".versions" / program.name
            stamp.write_text(f"{program.stamp(wanted)}\n")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    count = f"{len(programs)} program{'s' if len(programs) > 1 else ''}"
    console.print(f"[green]✓[/] {count} built [dim]{time.monotonic() - begin:.0f} s[/]")


def _output(program: Program) -> str:
    """The name that go gives what it builds from a package: its last part that is no version."""
    parts = program.package.split("/")
    return parts[-2] if re.fullmatch(r"v\d+", parts[-1]) else parts[-1]


def _compile(module: Path, packages: list[str], out: Path, environment: Mapping[str, str]) -> None:
    version = versions((MODULES / "bed" / "go.mod").read_text())[KUBERNETES]
    command = [
        *("go", "build", "-v", "-trimpath", "-buildvcs=false", "-mod=readonly"),
        *(f"-tags={TAGS}", "-gcflags=all=-dwarf=false", f"-ldflags={link_flags(version)}"),
        *(f"-o={out}/", *packages),
    ]
    progress = Progress(_sizes(module, packages, environment))
    with subprocess.Popen(
        command, cwd=module, env=dict(environment), stderr=subprocess.PIPE, text=True
    ) as compiler:
        assert compiler.stderr
        with _telling(progress):
            said = [line for line in compiler.stderr if not progress.take(line.strip())]
    if compiler.returncode:
        raise TestbedError(f"go build failed: {''.join(said)[-3000:].strip()}")


def link_flags(version: str) -> str:
    """What the linker writes into the Kubernetes programs; to the others it means nothing."""
    _, minor, _ = version.split(".")
    facts = {
        "gitVersion": version,
        "gitMajor": "1",
        "gitMinor": minor,
        "gitTreeState": "clean",
        "gitCommit": "0" * 40,
        "buildDate": "2026-01-01T00:00:00Z",
    }
    flags = [f"-X k8s.io/component-base/version.{key}={text}" for key, text in facts.items()]
    return " ".join(["-s", "-w", *flags])


def _sizes(module: Path, packages: list[str], environment: Mapping[str, str]) -> dict[str, int]:
    """Bytes of source of every package that takes part; downloads modules that are not there."""
    template = "{{$d := .Dir}}{{.ImportPath}}{{range .GoFiles}}\t{{$d}}/{{.}}{{end}}"
    command = ("go", "list", "-deps", "-mod=readonly", f"-tags={TAGS}", "-f", template, *packages)
    sizes = {}
    for line in run(*command, cwd=module, environment=environment).splitlines():
        package, *files = line.split("\t")
        sizes[package] = sum(Path(file).stat().st_size for file in files)
    return sizes


class Progress:
    """How far a build is, by the bytes of source of the packages that the compiler named."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = sizes
        self._total = max(1, sum(sizes.values()))
        self._done = 0

    def take(self, line: str) -> bool:
        """Counts a package that the compiler began; whether the line is one."""
        size = self._sizes.get(line)
        if size is None:
            return False
        self._done += size
        return True

    @property
    def share(self) -> float:
        """Of all source, what was compiled; what Go's cache held is never named."""
        return self._done / self._total

    def line(self, seconds: float) -> str:
        """What to tell after so many seconds. Links come last, and count as a tenth."""
        share = min(0.99, 0.9 * self.share)
        rest = max(COLD_SECONDS * (1 - share), 0.0) if share < 0.05 else seconds * (1 / share - 1)
        return f"  Kubernetes {share:.0%} compiled, about {max(1, round(rest / 60))} min left"


@contextmanager
def _telling(progress: Progress) -> Iterator[None]:
    """Prints how far the build is, now and then."""
    over = threading.Event()
    begin = time.monotonic()

    def tell() -> None:
        while not over.wait(SECONDS_BETWEEN_LINES):
            console.print(f"[dim]{progress.line(time.monotonic() - begin)}[/]")

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()
