"""``geotrain join`` between two real API servers, with the chart's account."""

import asyncio
import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner, Result

from geotrain.adapters.cluster import HttpCluster
from geotrain.adapters.credentials import from_document
from geotrain.api.objects import NODES, PODS
from geotrain.cli.join import join
from geotrain.errors import InputError
from support import helm, schemas
from support.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane

NAMESPACE = "geotrain-system"
LABEL = {"topology.geotrain.io/datacenter": "dc-west"}
GPUS = {"nvidia.com/gpu": "4"}


@pytest.fixture(scope="module")
def hub(control_plane_factory: Any) -> ControlPlane:
    plane: ControlPlane = control_plane_factory()
    plane.apply(*schemas.crds().values())
    plane.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=30s")
    plane.kubectl("create", "namespace", NAMESPACE)
    return plane


@pytest.fixture(scope="module")
def member(control_plane_factory: Any) -> ControlPlane:
    """A cluster with the chart's member part and one node of 4 GPUs."""
    plane: ControlPlane = control_plane_factory(controller_manager=True, nodes={})
    plane.add_node("n0", LABEL, GPUS)
    plane.kubectl("create", "namespace", NAMESPACE)
    plane.apply(*helm.render_or_skip("member.enabled=true"))
    return plane


@pytest.fixture(scope="module")
def bare(control_plane_factory: Any) -> ControlPlane:
    """A cluster in which nothing is installed."""
    plane: ControlPlane = control_plane_factory()
    return plane


@pytest.fixture
def contexts(
    hub: ControlPlane, member: ControlPlane, bare: ControlPlane, tmp_path: Path, monkeypatch: Any
) -> Iterator[None]:
    """The user's kubeconfig: three files, as KUBECONFIG may list them."""
    files = []
    for name, plane in (("hub", hub), ("west", member), ("bare", bare)):
        document = yaml.safe_load(plane.kubeconfig.read_text())
        for section in ("contexts", "clusters", "users"):
            document[section][0]["name"] = name
        document["contexts"][0]["context"] = {"cluster": name, "user": name}
        files.append(tmp_path / name)
        files[-1].write_text(yaml.safe_dump(document))
    monkeypatch.setenv("KUBECONFIG", ":".join(map(str, files)))
    yield
    hub.kubectl("delete", "dc", "--all", "--ignore-not-found")


def run(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(join)
    return CliRunner().invoke(app, ["--hub-context", "hub", "--wait", "0", *arguments])


def kubeconfig_in(hub: ControlPlane) -> dict[str, Any]:
    secret = hub.get("secret", "dc-west-kubeconfig", "-n", NAMESPACE)
    document: dict[str, Any] = yaml.safe_load(base64.b64decode(secret["data"]["kubeconfig"]))
    return document


def test_a_member_is_registered_and_told_of(contexts: None, hub: ControlPlane) -> None:
    result = run("dc-west", "--member-context", "west", "--accelerator", "H200")
    assert result.exit_code == 0, result.output
    assert "dc-west is registered: 1 nodes, 4 nvidia.com/gpu" in result.output
    assert "the controller has not looked at it yet" in result.output
    spec = hub.get("dc", "dc-west")["spec"]
    assert spec["accelerator"] == "H200"
    assert spec["cluster"]["kubeconfigSecretRef"] == {
        "namespace": NAMESPACE,
        "name": "dc-west-kubeconfig",
        "key": "kubeconfig",
    }


def test_the_kubeconfig_lets_the_controller_in_and_no_further(
    contexts: None, hub: ControlPlane
) -> None:
    assert run("dc-west", "--member-context", "west").exit_code == 0
    names = asyncio.run(_nodes_and_pods(kubeconfig_in(hub)))
    assert names == ["n0"]


async def _nodes_and_pods(document: dict[str, Any]) -> list[str]:
    cluster = HttpCluster(from_document(document))
    try:
        await cluster.list(PODS)
        return [node["metadata"]["name"] for node in await cluster.list(NODES)]
    finally:
        await cluster.close()


def test_joining_twice_changes_nothing(contexts: None, hub: ControlPlane) -> None:
    assert run("dc-west", "--member-context", "west").exit_code == 0
    before = hub.get("dc", "dc-west"), kubeconfig_in(hub)
    assert run("dc-west", "--member-context", "west").exit_code == 0
    assert (hub.get("dc", "dc-west"), kubeconfig_in(hub)) == before


def test_the_hub_itself_can_be_a_data_center(contexts: None, hub: ControlPlane) -> None:
    result = run("dc-central", "--local")
    assert result.exit_code == 0, result.output
    assert "warning: no node has topology.geotrain.io/datacenter=dc-central" in result.output
    assert hub.get("dc", "dc-central")["spec"]["cluster"] == {"local": True}


def test_what_the_controller_saw_is_shown(contexts: None, hub: ControlPlane) -> None:
    run("dc-west", "--member-context", "west")
    _observe(hub, "True", "Contacted", "")
    again = run("dc-west", "--member-context", "west", "--wait", "5")
    assert "the hub's controller reaches it" in again.output
    _observe(hub, "False", "Unreachable", "no route to host")
    failed = run("dc-west", "--member-context", "west", "--wait", "1")
    assert isinstance(failed.exception, InputError)
    assert "Unreachable: no route to host" in str(failed.exception)


def _observe(hub: ControlPlane, status: str, reason: str, message: str) -> None:
    condition = {
        "type": "Reachable",
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    patch = yaml.safe_dump({"status": {"conditions": [condition]}})
    hub.kubectl("patch", "dc", "dc-west", "--subresource=status", "--type=merge", "-p", patch)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dc-west"], "give either --member-context"),
        (["dc-west", "--member-context", "west", "--local"], "give either --member-context"),
        (["dc-west", "--member-context", "nowhere"], "there is no context 'nowhere'"),
        (["dc-west", "--member-context", "bare"], "geotrain is not installed in the member; helm"),
        (["DC.west", "--member-context", "west"], "because it becomes a label"),
        (["dc-west", "--local", "--gpu-resource", "gpu"], "write an extended resource like"),
        (["dc-west", "--local", "--node-selector", "zone"], "write KEY=VALUE"),
        (
            ["dc-west", "--member-context", "west", "--server", "https://127.0.0.1:1"],
            "the member does not answer at https://127.0.0.1:1",
        ),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(
    contexts: None, hub: ControlPlane, arguments: list[str], message: str
) -> None:
    result = run(*arguments)
    assert result.exit_code != 0
    assert message in str(result.exception)
    assert hub.get("dc")["items"] == []


def test_a_hub_without_geotrain_is_said(contexts: None) -> None:
    result = run("dc-west", "--local", "--hub-context", "bare")
    assert "geotrain is not installed in the hub; helm install" in str(result.exception)
