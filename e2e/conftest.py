"""What end-to-end tests run on: the bed, geotrain on it, and namespaces that leave nothing."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from e2e import jobs
from e2e.install import install
from e2e.lab import DATA_CENTERS, SYSTEM, Cluster, hub
from e2e.testbed import clusters, docker, images
from e2e.testbed.config import Bed, load
from e2e.testbed.shell import TestbedError, each
from geotrain.api import labels

PREFIX = "e2e-"  # of the namespaces that the tests make


@pytest.fixture(scope="session")
def bed() -> Bed:
    """The three clusters, with geotrain's images in their nodes.

    Skips only where the machine can have none: no docker, and no right to start it.
    """
    description = load()
    try:
        docker.start()
    except TestbedError as impossible:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(impossible))
    clusters.up(description)
    images.operator()
    images.trainer()
    images.load(description)
    return description


@pytest.fixture(scope="session")
def installed(bed: Bed) -> Bed:
    """Geotrain on hub and members, and the links that the bed's WAN has."""
    install()
    clear()
    hub().apply(*links(bed))
    return bed


def clear() -> None:
    """Take away what the demo or a run that was cut off left: the tests need its GPUs."""
    hub().kubectl("delete", "pfp,gtj", "--all", "-A", "--timeout=90s", timeout=120)
    for name in DATA_CENTERS:
        spaces = Cluster(name).kubectl("get", "namespaces", "-o", "name").split()
        left = [space for space in spaces if space.startswith(f"namespace/{PREFIX}")]
        if left:
            Cluster(name).kubectl("delete", *left, "--wait=false")


def links(bed: Bed) -> list[dict[str, object]]:
    """A WanLink for each pair, as the bed emulates it; named as the example names them."""
    pairs = (("dc-west", "dc-central"), ("dc-central", "dc-east"), ("dc-west", "dc-east"))
    return [
        {
            "apiVersion": "geotrain.io/v1alpha1",
            "kind": "WanLink",
            "metadata": {"name": f"{one[3:]}-{other[3:]}"},
            "spec": {
                "from": one,
                "to": other,
                "capacity": f"{bed.wan.pair_rate:.0f}",
                "perPodCapacity": f"{bed.wan.pod_rate:.0f}",
                "roundTripTime": f"{bed.wan.round_trip(one, other) * 1e3:g}ms",
                "tcpWindow": str(bed.wan.window),
                "costPerGigabyte": 0.02,
            },
        }
        for one, other in pairs
    ]


@pytest.fixture(scope="module")
def geotrain(installed: Bed) -> Iterator[Bed]:
    """Geotrain as installed; whatever a module's tests do to it, no container may crash."""
    before = restarts()
    yield installed
    crashed = {name: n - before.get(name, 0) for name, n in restarts().items()}
    assert not any(crashed.values()), f"containers were started again: {crashed}"


def restarts() -> dict[str, int]:
    """How often each container of geotrain's own pods was started again."""
    return {
        f"{name}/{pod['metadata']['name']}/{container['name']}": container["restartCount"]
        for name in DATA_CENTERS
        for pod in Cluster(name).list("pods", SYSTEM)
        for container in pod["status"].get("containerStatuses", [])
    }


@contextmanager
def a_namespace(title: str) -> Iterator[str]:
    """A namespace of its own in each cluster, opted in; its jobs are gone before it is."""
    name = f"{PREFIX}{title}-{uuid.uuid4().hex[:5]}"
    opted_in = {"name": name, "labels": {labels.ENABLED: "true"}}
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": opted_in}
    each(DATA_CENTERS, lambda where: Cluster(where).apply(manifest))
    try:
        hub().apply(jobs.profile(name))
        yield name
    finally:
        hub().kubectl("delete", "pfp,gtj", "--all", "-n", name, "--timeout=60s", check=False)
        each(
            DATA_CENTERS,
            lambda where: Cluster(where).kubectl("delete", "namespace", name, "--wait=false"),
        )


@pytest.fixture
def namespace(geotrain: Bed) -> Iterator[str]:
    """A namespace for one test."""
    with a_namespace("test") as name:
        yield name


@pytest.fixture(scope="module")
def shared_namespace(geotrain: Bed) -> Iterator[str]:
    """A namespace for the tests of a module."""
    with a_namespace("module") as name:
        yield name


LAST = ("test_rights.py", "test_quickstart.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort last what looks back at all tests, and after it what takes geotrain away."""
    items.sort(key=lambda item: LAST.index(name) + 1 if (name := item.path.name) in LAST else 0)
