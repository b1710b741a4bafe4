"""Control planes for the controller's tests: a hub and two members with schedulers and kubelets."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from geotrain.adapters import credentials
from geotrain.adapters.cluster import HttpCluster
from geotrain.api import labels
from geotrain.api.objects import CONFIG_MAPS, ENDPOINT_SLICES, NAMESPACES, PODS, SERVICES
from geotrain.errors import Conflict
from geotrain.roles.controller.ports import Cluster
from support import manifests
from support.controlplane import ControlPlane
from support.fakes import FakeCluster
from support.world import CENTERS, GPU, NETWORKS, profile, secret

ROOT = Path(__file__).parents[3]
SCHEDULER = {"profiles": [{"schedulerName": labels.SCHEDULER_NAME}]}
LINKS = (("dc-west", "dc-central"), ("dc-central", "dc-east"), ("dc-west", "dc-east"))


@pytest.fixture(scope="module")
def hub_plane(control_plane_factory):
    """One bare control plane."""
    return control_plane_factory()


@pytest.fixture
async def hub(hub_plane):
    """Its API as the administrator sees it, with the namespace team-a."""
    made = _api(hub_plane)
    await _make_namespace(made)
    yield made
    await made.close()


@pytest.fixture(params=["fake", "real"])
async def cluster(request):
    """A cluster with the namespace team-a, in which nothing is left behind."""
    is_fake = request.param == "fake"
    made: Cluster = FakeCluster() if is_fake else _api(request.getfixturevalue("hub_plane"))
    await _make_namespace(made)
    yield made
    for resource in (CONFIG_MAPS, ENDPOINT_SLICES, PODS, SERVICES):
        for each in await made.list(resource, "team-a"):
            await made.delete(resource, "team-a", each["metadata"]["name"], grace=0)
    await made.close()


def _api(plane: ControlPlane) -> HttpCluster:
    return HttpCluster(credentials.from_file(plane.kubeconfig))


async def _make_namespace(cluster: Cluster) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
    with contextlib.suppress(Conflict):
        await cluster.create(NAMESPACES, namespace)


@pytest.fixture(scope="module")
def planes(control_plane_factory):
    """The hub (dc-central) and two members, each with one node of 4 GPUs, registered on the hub."""
    started = {name: _member(control_plane_factory, name) for name in CENTERS}
    hub = started["dc-central"]
    for path in sorted((ROOT / "crds").glob("*.yaml")):
        hub.kubectl("apply", "--server-side", "-f", str(path))
    hub.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    hub.kubectl("create", "namespace", "geotrain-system")
    for plane in started.values():
        plane.apply(manifests.namespace("team-a"))
    hub.apply(profile(), *_registrations(started))
    return started


@pytest.fixture
async def clusters(planes):
    """The planes' APIs as the administrator sees them."""
    made = {name: _api(plane) for name, plane in planes.items()}
    yield made
    for each in made.values():
        await each.close()


def _member(factory: Any, name: str) -> ControlPlane:
    resources = {GPU: "4", labels.MANAGED_RESOURCE: "110"}
    nodes = {f"{name}-node": ({labels.DATA_CENTER: name}, resources)}
    plane: ControlPlane = factory(
        scheduler=SCHEDULER, nodes=nodes, controller_manager=name == "dc-central"
    )
    for each in (labels.PRIORITY_TRAINING, labels.PRIORITY_PREFILL):
        plane.kubectl("create", "priorityclass", each, "--value=1000")
    return plane


def _registrations(started: dict[str, ControlPlane]) -> list[dict[str, Any]]:
    made = []
    for name, plane in started.items():
        network = {"podCIDRs": [NETWORKS[name]]}
        center = manifests.data_center(name, gpuResource=GPU, network=network)
        if name != "dc-central":
            ref = {"namespace": "geotrain-system", "name": name}
            center["spec"]["cluster"] = {"kubeconfigSecretRef": ref}
            made.append(secret(name, yaml.safe_dump(yaml.safe_load(plane.kubeconfig.read_text()))))
        made.append(center)
    for source, target in LINKS:
        ends = {"from": source, "to": target}
        made.append(manifests.wan_link(f"{source}-{target}", **ends))
    return made
