"""The images of the bed: made once, kept in the cache, and put into the nodes.

Where public registries answer, base and node images are pulled; where not, they are built from
Debian packages and the Kubernetes programs. What takes minutes is kept in the cache, named by the
hash of what it was made from: a new docker daemon need not build again.
"""

import hashlib
import json
import os
import platform
import re
import shutil
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from e2e.testbed import docker, places, programs
from e2e.testbed.archive import reference, repack
from e2e.testbed.config import Bed
from e2e.testbed.shell import TestbedError, each, run, step

OPERATOR = "geotrain:dev"
TRAINER = "geotrain-trainer:dev"
INPUTS = "io.geotrain.inputs"  # the label that holds the hash of an image's inputs

PUBLIC_PYTHON = "python:3.13-slim"
PUBLIC_DEBIAN = "debian:bookworm-slim"
PUBLIC_POLICY = "docker.io/cloudnativelabs/kube-router:v2.1.0"
NODE_PROGRAMS = [
    *("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"),
    *("kubelet", "kubeadm", "kubectl"),
    *("containerd", "containerd-shim-runc-v2", "ctr"),
    *("etcd", "coredns", "pause"),
]
NODE_PACKAGES = [
    *("systemd", "systemd-sysv", "dbus", "conntrack", "iptables", "ipset", "nftables", "iproute2"),
    *("ethtool", "util-linux", "mount", "kmod", "libseccomp2", "pigz", "e2fsprogs", "bash", "jq"),
    *("ca-certificates", "curl", "procps", "runc", "containernetworking-plugins", "socat"),
    *("iputils-ping", "netbase"),
]
PYTHON_PACKAGES = ["python3", "python3-venv"]
KEY_LENGTH = 16


@dataclass(frozen=True)
class Kept:
    """An image that is kept in the cache: its name says what it was made from."""

    name: str
    key: str
    expected: str  # how long making it takes
    make: Callable[[str], None]
    archived: bool = True  # or only what others are made from

    @property
    def reference(self) -> str:
        """The image's name and tag."""
        return f"{self.name}:{self.key}"

    @property
    def archive(self) -> Path:
        """Where ``docker save`` puts it."""
        return places.IMAGES / f"{self.name}-{self.key}.tar"


_making: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


def ensure(image: Kept) -> str:
    """Gives the reference of an image that docker has: there already, loaded, or made.

    Of several that ask for the same image at a time, one makes it and the others wait.
    """
    with _making[image.reference]:
        if docker.image_id(image.reference):
            return image.reference
        if image.archive.exists():
            with step(f"load {image.reference} from the cache", "15 s"):
                run("docker", "load", "-i", image.archive)
            return image.reference
        with step(f"make {image.reference}", image.expected):
            image.make(image.reference)
            if image.archived:
                _keep(image)
        return image.reference


def _keep(image: Kept) -> None:
    places.IMAGES.mkdir(parents=True, exist_ok=True)
    part = image.archive.with_suffix(".part")
    run("docker", "save", "-o", part, image.reference)
    part.replace(image.archive)
    for old in places.IMAGES.glob(f"{image.name}-*.tar"):
        if old != image.archive:
            old.unlink()


def digest(parts: Iterable[str | bytes | Path]) -> str:
    """A short hash of texts and of files; of a folder its Python, YAML and other source files."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path):
            for file in _files(part):
                total.update(str(file.relative_to(part.parent)).encode() + b"\0")
                total.update(file.read_bytes())
        else:
            total.update(part.encode() if isinstance(part, str) else part)
        total.update(b"\0")
    return total.hexdigest()[:KEY_LENGTH]


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return sorted(f for f in path.rglob("*") if f.is_file() and "__pycache__" not in f.parts)


def node() -> str | None:
    """The node image to give to kind; None stands for kind's own."""
    if docker.registry_answers():
        return None
    require_programs(NODE_PROGRAMS)
    script = places.HERE / "build-node-image.sh"
    version = programs.version_of("kubelet")
    stamps = [(places.PROGRAMS / ".versions" / name).read_text() for name in NODE_PROGRAMS]
    root = _node_root()

    def make(reference: str) -> None:
        files = programs.source_of("kind") / "images" / "base" / "files"
        run(script, ensure(root), places.PROGRAMS, files, version, reference)

    return ensure(Kept("geotrain-bed-node", digest([script, root.key, *stamps]), "1 min", make))


def node_root() -> None:
    """Makes what the node image begins with, which needs no program; nothing where there is one."""
    if not docker.registry_answers() and not list(places.IMAGES.glob("geotrain-bed-node-*.tar")):
        ensure(_node_root())


def _node_root() -> Kept:
    return _debian("geotrain-bed-root", NODE_PACKAGES, "1 min", archived=False)


def base() -> str:
    """An image with Python, for the operator and for the bed's helpers."""
    if docker.registry_answers():
        return PUBLIC_PYTHON
    packages = [*PYTHON_PACKAGES, "nftables", "iproute2"]
    return ensure(_debian("geotrain-bed-base", packages, "1 min"))


def torch_base() -> str:
    """An image with PyTorch, or one in which the trainer's Dockerfile installs it."""
    if docker.registry_answers():
        return PUBLIC_DEBIAN
    packages = [*PYTHON_PACKAGES, "python3-torch"]
    return ensure(_debian("geotrain-bed-torch", packages, "3 min"))


def policy(node_image: str | None) -> str:
    """An image with iptables and ipset, in which kube-router runs."""
    return PUBLIC_POLICY if node_image is None else node_image


def _debian(name: str, packages: list[str], expected: str, *, archived: bool = True) -> Kept:
    script = places.HERE / "build-base-image.sh"

    def make(reference: str) -> None:
        if os.geteuid():
            raise TestbedError("no image registry answers, and only root may build the images here")
        places.IMAGES.mkdir(parents=True, exist_ok=True)
        run(script, places.IMAGES / "debian.tar", reference, *packages)

    return Kept(name, digest([script, *packages]), expected, make, archived)


def require_programs(names: Iterable[str]) -> None:
    """Raises TestbedError where a program was not built yet."""
    missing = [program.name for program in programs.missing(names)]
    if missing:
        raise TestbedError(f"{', '.join(missing)} not in {places.PROGRAMS}: run `make programs`")


def operator() -> str:
    """Builds the image of geotrain's roles unless its inputs are those of the one that is there."""
    foundation = base()
    lock = places.ROOT / "requirements.lock"
    inputs = [places.ROOT / "Dockerfile", lock, places.ROOT / "operator" / "geotrain"]
    wheels = _wheels(lock, foundation)
    return _build(OPERATOR, places.ROOT / "Dockerfile", foundation, digest([*inputs, wheels.name]))


def trainer() -> str:
    """Builds the image of the example trainer and prefill worker, if its inputs changed."""
    library = places.ROOT / "operator" / "geotrain"
    dockerfile = places.ROOT / "examples" / "trainer" / "Dockerfile"
    inputs = [
        *(library / f"{module}.py" for module in ("__init__", "gate", "progress")),
        places.ROOT / "examples" / "trainer",
        places.ROOT / "examples" / "prefill",
    ]
    return _build(TRAINER, dockerfile, torch_base(), digest(inputs))


def _build(name: str, dockerfile: Path, foundation: str, inputs: str) -> str:
    key = digest([inputs, foundation])
    if docker.image_label(name, INPUTS) == key:
        return name
    before = docker.image_id(name)
    with step(f"build {name}", "5 s; 1 min when its packages changed"):
        run(
            "docker",
            "build",
            "--quiet",
            f"--file={dockerfile}",
            f"--tag={name}",
            f"--label={INPUTS}={key}",
            f"--build-arg=BASE_IMAGE={foundation}",
            places.ROOT,
        )
    if before and before != docker.image_id(name):
        run("docker", "image", "rm", before, check=False)  # in use: it goes another time
    return name


def _wheels(lock: Path, foundation: str) -> Path:
    """Downloads the locked packages for the image's Python, once, and puts them into the context.

    The image is then built without an index, whatever configuration this machine's pip has.
    """
    python = run(
        "docker",
        "run",
        "--rm",
        "--entrypoint=python3",
        foundation,
        "-c",
        "import sys; print(f'{sys.version_info[0]}.{sys.version_info[1]}')",
    ).strip()
    folder = places.WHEELS / digest([lock, python, platform.machine()])
    if not folder.exists():
        with step(f"download the locked packages for Python {python}", "30 s"):
            _download(lock, python, folder)
    context = places.ROOT / "build" / "wheels"
    names = sorted(wheel.name for wheel in folder.iterdir())
    if not context.exists() or sorted(wheel.name for wheel in context.iterdir()) != names:
        shutil.rmtree(context, ignore_errors=True)
        shutil.copytree(folder, context)
    return folder


def _download(lock: Path, python: str, folder: Path) -> None:
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    machine = platform.machine()
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(36, 4, -1)]
    run(
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--require-hashes",
        "--only-binary=:all:",
        "--implementation=cp",
        f"--python-version={python}",
        *(f"--platform={tag}" for tag in (*tags, f"manylinux2014_{machine}", f"linux_{machine}")),
        f"--requirement={lock}",
        f"--dest={part}",
    )
    part.replace(folder)
    for old in places.WHEELS.iterdir():
        if old != folder:
            shutil.rmtree(old, ignore_errors=True)


def load(bed: Bed, names: Iterable[str] = (OPERATOR, TRAINER)) -> None:
    """Puts images into every node that does not have them, side by side."""
    wanted = {name: docker.image_id(name) for name in names}
    unbuilt = [name for name, identity in wanted.items() if identity is None]
    if unbuilt:
        raise TestbedError(f"{', '.join(unbuilt)} not built: run `make images`")
    lacking = {dc.node: _lacking(dc.node, wanted) for dc in bed.data_centers}
    missing = sorted({name for absent_names in lacking.values() for name in absent_names})
    if not missing:
        return
    nodes = [node_name for node_name, names in lacking.items() if names]
    expected = "5 s for changed code, 1 min for whole images"
    with step(f"load {', '.join(missing)} into the nodes", expected):
        _load(missing, nodes)


def _load(names: list[str], nodes: list[str]) -> None:
    places.RUN.mkdir(parents=True, exist_ok=True)
    saved, archive = places.RUN / "saved.tar", places.RUN / "load.tar"
    present = set.intersection(*each(nodes, _blobs))
    run("docker", "save", "-o", saved, *names)
    repack(saved, archive, present)
    saved.unlink()
    each(nodes, lambda node_name: _import(node_name, archive))
    archive.unlink()


def _blobs(node_name: str) -> set[str]:
    """The digests that a node's containerd holds."""
    return set(_ctr(node_name, "content", "ls", "--quiet").split())


def _lacking(node_name: str, wanted: dict[str, str | None]) -> list[str]:
    return [n for n, identity in wanted.items() if _identity(node_name, reference(n)) != identity]


def _identity(node_name: str, image: str) -> str | None:
    """What docker calls an image, the digest of its configuration; None: the node has it not."""
    found = re.search(r"sha256:[0-9a-f]{64}", _ctr(node_name, "images", "ls", f"name=={image}"))
    if not found:
        return None
    document = json.loads(_ctr(node_name, "content", "get", found[0]))
    if "manifests" in document:
        document = json.loads(_ctr(node_name, "content", "get", document["manifests"][0]["digest"]))
    return str(document["config"]["digest"])


def _ctr(node_name: str, *arguments: str) -> str:
    return run("docker", "exec", node_name, "ctr", "--namespace=k8s.io", *arguments)


def _import(node_name: str, archive: Path) -> None:
    with archive.open("rb") as file:
        run(
            *("docker", "exec", "-i", node_name, "ctr", "--namespace=k8s.io", "images", "import"),
            *("--all-platforms", "--digests", "--snapshotter=overlayfs", "-"),
            stdin=file,
        )
