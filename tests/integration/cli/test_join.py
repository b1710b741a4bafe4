"""``geotrain join``, ``leave`` and ``doctor`` between real API servers."""

import asyncio
import base64
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner, Result

from geotrain.adapters.cluster import HttpCluster
from geotrain.adapters.credentials import from_document
from geotrain.api import tokens
from geotrain.api.objects import NODES, PODS
from geotrain.cli.doctor import doctor
from geotrain.cli.join import join
from geotrain.cli.leave import leave
from geotrain.errors import InputError
from support import helm, manifests, schemas
from support.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane

NAMESPACE = "geotrain-system"
LABEL = {"topology.geotrain.io/datacenter": "dc-west"}
GPUS = {"nvidia.com/gpu": "4"}
WEST = ("dc-west", "--context", "west")


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
    plane: ControlPlane = control_plane_factory(nodes={})
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
        document["current-context"] = name
        files.append(tmp_path / name)
        files[-1].write_text(yaml.safe_dump(document))
    monkeypatch.setenv("KUBECONFIG", ":".join(map(str, files)))
    yield
    hub.kubectl("delete", "dc", "--all", "--ignore-not-found")
    hub.kubectl("delete", "secret,role,rolebinding", "--all", "-n", NAMESPACE)
    member.kubectl(
        "delete", "configmap", "geotrain-membership", "-n", NAMESPACE, "--ignore-not-found"
    )


def run(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(join)
    return CliRunner().invoke(app, ["--hub-context", "hub", "--wait", "0", *arguments])


def joined(*arguments: str) -> Result:
    result = run(*(arguments or WEST), "--skip-connectivity")
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def kubeconfig_in(hub: ControlPlane) -> dict[str, Any]:
    secret = hub.get("secret", "dc-west-kubeconfig", "-n", NAMESPACE)
    document: dict[str, Any] = yaml.safe_load(base64.b64decode(secret["data"]["kubeconfig"]))
    return document


def token_in(hub: ControlPlane) -> tokens.Token:
    return tokens.read(kubeconfig_in(hub)["users"][0]["user"]["token"])


def test_a_member_is_registered_and_told_of(
    contexts: None, hub: ControlPlane, member: ControlPlane
) -> None:
    result = joined(*WEST, "--accelerator", "H200", "--pod-cidr", "10.7.0.0/16")
    assert "ok: dc-west: 1 nodes, 4 nvidia.com/gpu" in result.output
    assert "ok: dc-west: geotrain's account may do what it has to" in result.output
    assert "dc-west is registered" in result.output
    assert "the controller has not looked at it yet" in result.output
    center = hub.get("dc", "dc-west")
    assert center["spec"]["accelerator"] == "H200"
    assert center["spec"]["network"]["podCIDRs"] == ["10.7.0.0/16"]
    assert center["spec"]["cluster"]["kubeconfigSecretRef"] == {
        "namespace": NAMESPACE,
        "name": "dc-west-kubeconfig",
        "key": "kubeconfig",
    }
    uid = member.get("namespace", "kube-system")["metadata"]["uid"]
    assert center["metadata"]["annotations"] == {"geotrain.io/cluster-uid": uid}
    mark = member.get("configmap", "geotrain-membership", "-n", NAMESPACE)
    assert mark["data"] == {"hubUID": hub.get("namespace", "kube-system")["metadata"]["uid"]}


def test_the_kubeconfig_lets_the_controller_in_and_no_further(
    contexts: None, hub: ControlPlane
) -> None:
    joined()
    names = asyncio.run(_nodes_and_pods(kubeconfig_in(hub)))
    assert names == ["n0"]


async def _create(document: dict[str, Any], manifest: dict[str, Any]) -> None:
    cluster = HttpCluster(from_document(document))
    try:
        await cluster.create(PODS, manifest)
    finally:
        await cluster.close()


async def _nodes_and_pods(document: dict[str, Any]) -> list[str]:
    cluster = HttpCluster(from_document(document))
    try:
        await cluster.list(PODS)
        return [node["metadata"]["name"] for node in await cluster.list(NODES)]
    finally:
        await cluster.close()


@pytest.mark.parametrize(("asked", "seconds"), [((), 86400), (("--token-lifetime", "20m"), 1200)])
def test_the_token_ends(
    contexts: None, hub: ControlPlane, asked: tuple[str, ...], seconds: int
) -> None:
    joined(*WEST, *asked)
    token = token_in(hub)
    assert (token.namespace, token.account) == (NAMESPACE, "geotrain-member")
    assert token.lifetime == pytest.approx(seconds, abs=5)
    assert token.ends == pytest.approx(time.time() + seconds, abs=60)
    secret = hub.get("secret", "dc-west-kubeconfig", "-n", NAMESPACE)
    assert secret["metadata"]["annotations"]["geotrain.io/token-lifetime"] == str(seconds)


def test_joining_twice_changes_nothing(contexts: None, hub: ControlPlane) -> None:
    joined(*WEST, "--pod-cidr", "10.7.0.0/16")
    before = hub.get("dc", "dc-west"), kubeconfig_in(hub)
    joined()  # what was not asked for stays
    assert (hub.get("dc", "dc-west"), kubeconfig_in(hub)) == before


def test_another_lifetime_makes_another_token(contexts: None, hub: ControlPlane) -> None:
    joined()
    before = token_in(hub)
    joined(*WEST, "--token-lifetime", "1h")
    assert token_in(hub).text != before.text
    assert token_in(hub).lifetime == pytest.approx(3600, abs=5)


def test_a_token_that_is_no_more_good_is_replaced(
    contexts: None, hub: ControlPlane, member: ControlPlane
) -> None:
    joined()
    before = token_in(hub)
    member.kubectl("delete", "serviceaccount", "geotrain-member", "-n", NAMESPACE)
    member.apply(*helm.render_or_skip("member.enabled=true"))
    joined()
    assert token_in(hub).text != before.text


def test_the_hub_itself_can_be_a_data_center(contexts: None, hub: ControlPlane) -> None:
    result = joined("dc-central", "--local")
    assert "warning: no node has topology.geotrain.io/datacenter=dc-central" in result.output
    assert hub.get("dc", "dc-central")["spec"]["cluster"] == {"local": True}


def test_the_hub_is_the_current_context(contexts: None, hub: ControlPlane) -> None:
    app = typer.Typer()
    app.command()(join)
    result = CliRunner().invoke(app, ["dc-central", "--local", "--wait", "0"])
    assert result.exit_code == 0, result.exception
    assert hub.get("dc", "dc-central")["spec"]["cluster"] == {"local": True}


def test_what_the_controller_saw_is_shown(contexts: None, hub: ControlPlane) -> None:
    joined()
    _observe(hub, "True", "Contacted", "")
    again = joined(*WEST, "--wait", "5")
    assert "the hub's controller reaches it" in again.output
    _observe(hub, "False", "Unreachable", "no route to host")
    failed = run(*WEST, "--wait", "1", "--skip-connectivity")
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


def test_objects_are_printed_instead_of_written(
    contexts: None, hub: ControlPlane, member: ControlPlane
) -> None:
    result = run(*WEST, "-o", "yaml")
    assert result.exit_code == 0, result.exception
    printed = list(yaml.safe_load_all(result.stdout))
    assert [each["kind"] for each in printed] == ["Role", "RoleBinding", "Secret", "DataCenter"]
    assert "holds a token" in result.stderr
    for plane, kinds in ((hub, "dc,secret,role,rolebinding"), (member, "configmap,pod")):
        assert plane.get(kinds, "-n", NAMESPACE, "-l", OURS)["items"] == []
    hub.apply(*printed)
    assert hub.get("dc", "dc-west")["spec"]["cluster"]["kubeconfigSecretRef"]["name"]
    assert asyncio.run(_nodes_and_pods(kubeconfig_in(hub))) == ["n0"]


OURS = "app.kubernetes.io/managed-by=geotrain"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dc-west"], "give either --context"),
        ([*WEST, "--local"], "give either --context"),
        (["dc-west", "--member-context", "west"], "--member-context is now --context"),
        (["dc-west", "--context", "nowhere"], "there is no context 'nowhere'"),
        (["dc-west", "--context", "bare"], "geotrain is not installed in the member; helm"),
        (["DC.west", "--context", "west"], "because it becomes a label"),
        (["dc-west", "--local", "--gpu-resource", "gpu"], "write an extended resource like"),
        (["dc-west", "--local", "--node-selector", "zone"], "write KEY=VALUE"),
        ([*WEST, "--pod-cidr", "10.1.2.3/16"], "do you mean 10.1.0.0/16"),
        ([*WEST, "--token-lifetime", "5m"], "a duration of at least 10m"),
        ([*WEST, "--proxy-url", "socks5://p:1080"], "a proxy of the kind socks5"),
        ([*WEST, "--proxy-url", "http://127.0.0.1:3128"], "which the hub's controller does not"),
        (
            [*WEST, "--server", "https://127.0.0.1:1"],
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
    assert hub.get("dc,secret", "-n", NAMESPACE)["items"] == []


def test_a_hub_without_geotrain_is_said(contexts: None) -> None:
    result = run("dc-west", "--local", "--hub-context", "bare")
    assert "geotrain is not installed in the hub; helm install" in str(result.exception)


def test_an_account_without_its_rights_is_refused(
    contexts: None, hub: ControlPlane, member: ControlPlane
) -> None:
    member.kubectl("delete", "clusterrolebinding", "geotrain-member")
    try:
        result = run(*WEST)
        assert result.exit_code != 0
        assert "forbidden" in str(result.exception)
        assert hub.get("dc")["items"] == []
    finally:
        member.apply(*helm.render_or_skip("member.enabled=true"))
    member.kubectl("delete", "role", "geotrain-member", "-n", NAMESPACE)
    try:
        result = run(*WEST)
        assert "dc-west is not registered: 1 error" in str(result.exception)
        assert "may not: create serviceaccounts/token geotrain-member" in result.output
    finally:
        member.apply(*helm.render_or_skip("member.enabled=true"))


def test_overlapping_networks_are_refused(contexts: None, hub: ControlPlane) -> None:
    joined("dc-central", "--local", "--pod-cidr", "10.7.0.0/16")
    result = run(*WEST, "--pod-cidr", "10.7.3.0/24", "--skip-connectivity")
    assert "is not registered: 1 error" in str(result.exception)
    assert "10.7.3.0/24 overlaps 10.7.0.0/16 of dc-central" in result.output


def test_a_name_stays_with_its_cluster(
    contexts: None, hub: ControlPlane, bare: ControlPlane
) -> None:
    joined()
    result = run("dc-west", "--local")
    assert "dc-west is another cluster already" in str(result.exception)
    assert "geotrain leave dc-west" in str(result.exception)


def test_a_member_of_another_hub_is_refused(
    contexts: None, hub: ControlPlane, member: ControlPlane
) -> None:
    joined()
    mark = {"data": {"hubUID": "another"}}
    member.kubectl(
        "patch", "configmap", "geotrain-membership", "-n", NAMESPACE, "--type=merge",
        "-p", yaml.safe_dump(mark),
    )  # fmt: skip
    result = run(*WEST)
    assert "the cluster is a member of another hub" in str(result.exception)


def test_one_cluster_may_be_several_data_centers_of_different_nodes(
    contexts: None, hub: ControlPlane, member: ControlPlane
) -> None:
    joined(*WEST, "--pod-cidr", "10.7.0.0/17")
    arguments = ("dc-two", "--context", "west", "--pod-cidr", "10.7.128.0/17")
    (selector,) = (f"{key}={value}" for key, value in LABEL.items())
    result = run(*arguments, "--node-selector", selector, "--skip-connectivity")
    assert "node n0 belong to dc-west too" in result.output
    joined(*arguments)
    assert {c["metadata"]["name"] for c in hub.get("dc")["items"]} == {"dc-west", "dc-two"}


def test_what_connectivity_could_not_try_is_said(contexts: None, hub: ControlPlane) -> None:
    """No image is known in either cluster: a warning, and no pod."""
    joined("dc-central", "--local", "--pod-cidr", "10.8.0.0/16")
    result = run(*WEST, "--pod-cidr", "10.7.0.0/16")
    assert result.exit_code == 0, result.exception
    assert "not tried: the probe in dc-central does not run: geotrain is not installed" in (
        result.output
    )
    assert hub.get("pods", "-A")["items"] == []


def leave_(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(leave)
    return CliRunner().invoke(app, ["--hub-context", "hub", *arguments])


def pod(name: str, **tags: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team-a", "labels": tags},
        "spec": {
            "nodeSelector": LABEL,
            "containers": [{"name": "c", "image": "x"}],
            "terminationGracePeriodSeconds": 0,
        },
    }


def service(name: str, **tags: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": "team-a", "labels": tags}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta,
        "spec": {"clusterIP": "None", "ports": [{"port": 1}]},
    }


def test_leaving_removes_what_is_ours_and_nothing_else(
    contexts: None, hub: ControlPlane, member: ControlPlane
) -> None:
    joined()
    hub.apply(manifests.wan_link("one", **{"from": "dc-west", "to": "dc-east"}))
    ours = {"app.kubernetes.io/managed-by": "geotrain", "geotrain.io/job-uid": "1"}
    opted = {"name": "team-a", "labels": {"geotrain.io/enabled": "true"}}
    member.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": opted})
    member.apply(service("gpt", **ours), service("users"))
    rank = pod("gpt-r0", **ours, **{"geotrain.io/job": "gpt"})
    asyncio.run(_create(kubeconfig_in(hub), rank))  # nobody else may make such pods
    refused = leave_("dc-west")
    assert "dc-west is used by team-a/gpt: suspend or delete them first" in str(refused.exception)
    assert hub.get("dc", "dc-west")

    result = leave_("dc-west", "--force")
    assert result.exit_code == 0, result.exception
    assert "dc-west has left" in result.output
    assert "still naming it: WanLink one; kubectl delete wan one" in result.output
    hub.kubectl("delete", "wan", "one")
    assert hub.get("dc,secret,role,rolebinding", "-n", NAMESPACE)["items"] == []
    left = member.get("pod,service,configmap", "-n", "team-a")["items"]
    assert {each["metadata"]["name"] for each in left} <= {
        "users",
        "kubernetes",
        "kube-root-ca.crt",
    }
    assert not member.get("configmap", "-n", NAMESPACE, "-l", OURS)["items"]
    member.kubectl("delete", "service", "users", "-n", "team-a")

    again = leave_("dc-west")
    assert "there is no DataCenter dc-west; there is none" in str(again.exception)
    joined()


def test_a_member_that_cannot_be_asked_is_not_left_in_silence(
    contexts: None, hub: ControlPlane
) -> None:
    joined()
    hub.kubectl("delete", "secret", "dc-west-kubeconfig", "-n", NAMESPACE)
    refused = leave_("dc-west")
    assert "the member cannot be asked" in str(refused.exception)
    result = leave_("dc-west", "--context", "west")
    assert result.exit_code == 0, result.exception
    assert hub.get("dc")["items"] == []


def test_a_leave_that_was_cut_off_is_finished(contexts: None, hub: ControlPlane) -> None:
    joined()
    hub.kubectl("delete", "dc", "dc-west")
    result = leave_("dc-west")
    assert result.exit_code == 0, result.exception
    assert hub.get("secret,role,rolebinding", "-n", NAMESPACE)["items"] == []


def test_the_wrong_cluster_is_not_cleaned(contexts: None, hub: ControlPlane) -> None:
    joined()
    refused = leave_("dc-west", "--context", "bare")
    assert "leads to another cluster than the one that joined" in str(refused.exception)
    assert hub.get("dc", "dc-west")


def doctor_(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(doctor)
    return CliRunner().invoke(app, list(arguments))


def test_doctor_says_what_is_wrong_and_what_to_do(contexts: None, hub: ControlPlane) -> None:
    joined()
    result = doctor_("--hub-context", "hub", "-o", "json")
    assert result.exit_code == 1, result.exception
    document = yaml.safe_load(result.stdout)
    said = {each["message"]: each for each in document["findings"]}
    assert said["there is no controller"]["action"].startswith("helm install geotrain")
    assert said["the controller has not looked at it yet"]["subject"] == "dc-west"
    assert said["geotrain's account may do what it has to"]["level"] == "ok"
    assert said["5 CRDs, as this program knows them"]["level"] == "ok"
    assert document["errors"] >= 2


def test_doctor_needs_a_hub_to_look_at(contexts: None) -> None:
    nowhere = doctor_("--hub-context", "nowhere")
    assert "there is no context 'nowhere'" in str(nowhere.exception)
    bare = doctor_("--hub-context", "bare")
    assert bare.exit_code == 1
    assert "the CRD datacenters.geotrain.io is missing" in bare.output
