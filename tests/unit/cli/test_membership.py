"""What join writes, and whose a cluster is."""

import base64

import pytest

from geotrain.api import labels
from geotrain.api.v1alpha1 import DataCenter
from geotrain.cli import membership
from geotrain.cli.membership import Wishes
from geotrain.errors import InputError

WISHES = Wishes("dc-west")


def test_node_selectors_are_read() -> None:
    assert membership.selector(["zone=a", "pool=gpu=big"]) == {"zone": "a", "pool": "gpu=big"}
    assert Wishes("dc", selector={"zone": "a"}).node_labels == {"zone": "a"}


@pytest.mark.parametrize("entry", ["zone", "=a", "zone="])
def test_a_bad_node_selector_is_refused(entry: str) -> None:
    with pytest.raises(InputError, match="write KEY=VALUE"):
        membership.selector([entry])


def test_the_data_center_refers_to_the_secret_that_is_written() -> None:
    center = DataCenter.from_manifest(membership.data_center_manifest(WISHES))
    secret = membership.secret_manifest(WISHES, "text")
    reference = center.spec.cluster.kubeconfig_secret_ref
    assert reference is not None
    assert (reference.namespace, reference.name) == (
        secret["metadata"]["namespace"],
        secret["metadata"]["name"],
    )
    assert base64.b64decode(secret["data"][reference.key]) == b"text"


def test_a_local_data_center_needs_no_secret() -> None:
    wishes = Wishes("hub", local=True, accelerator="H200", cost_per_gpu_hour=2.5)
    spec = DataCenter.from_manifest(membership.data_center_manifest(wishes)).spec
    assert spec.cluster.local
    assert spec.cluster.kubeconfig_secret_ref is None
    assert (spec.accelerator, spec.cost_per_gpu_hour) == ("H200", 2.5)


def test_only_what_was_asked_for_is_written() -> None:
    manifest = membership.data_center_manifest(WISHES)
    assert manifest["spec"].keys() == {"cluster", "gpuResource"}
    assert manifest["metadata"] == {"name": "dc-west"}


def test_the_clusters_identity_and_networks_are_written() -> None:
    wishes = Wishes("dc-west", pod_cidrs=("10.1.0.0/16", "fd00::/48"))
    center = DataCenter.from_manifest(membership.data_center_manifest(wishes, "uid-1"))
    assert center.spec.network.pod_cidrs == ("10.1.0.0/16", "fd00::/48")
    assert center.metadata.annotations == {labels.CLUSTER_UID: "uid-1"}


def test_a_kubeconfig_holds_no_more_than_it_must() -> None:
    bare = membership.kubeconfig({"server": "https://m:6443", "extensions": []}, "", "t")
    assert bare["clusters"][0]["cluster"] == {"server": "https://m:6443"}
    entry = {
        "server": "https://m:6443",
        "tls-server-name": "kubernetes",
        "proxy-url": "http://proxy:3128",
        "certificate-authority": "/a/file",
    }
    full = membership.kubeconfig(entry, "Q0E=", "t")
    assert full["clusters"][0]["cluster"] == {
        "server": "https://m:6443",
        "certificate-authority-data": "Q0E=",
        "tls-server-name": "kubernetes",
        "proxy-url": "http://proxy:3128",
    }
    assert full["users"][0]["user"] == {"token": "t"}


def test_the_controller_may_renew_this_secret_and_no_other() -> None:
    role, binding = membership.renewal_manifests(WISHES)
    (rule,) = role["rules"]
    secret = membership.secret_manifest(WISHES, "text")
    assert rule["resourceNames"] == [secret["metadata"]["name"]]
    assert rule["verbs"] == ["get", "patch"]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"][0]["name"] == labels.CONTROLLER_NAME


def test_pod_networks_are_read() -> None:
    entries = ["10.1.0.0/16", "fd00:1::/48"]
    assert membership.pod_networks(entries) == tuple(entries)


@pytest.mark.parametrize(
    ("entries", "complaint"),
    [
        (["10.1.0.0"], "is no network"),
        (["10.1.2.3/16"], "do you mean 10.1.0.0/16"),
        (["pods"], "is no network; write one like"),
        (["10.0.0.0/8", "10.1.0.0/16"], "overlap; leave one of them out"),
    ],
)
def test_a_bad_pod_network_is_refused(entries: list[str], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        membership.pod_networks(entries)


def test_a_name_stays_with_its_cluster() -> None:
    center = DataCenter.from_manifest(membership.data_center_manifest(WISHES, "old"))
    membership.require_same_cluster(None, "new", "", "https://x")
    membership.require_same_cluster(center, "new", "", "https://x")
    membership.require_same_cluster(center, "old", "old", "https://x")
    with pytest.raises(InputError, match=r"another cluster already.*geotrain leave dc-west"):
        membership.require_same_cluster(center, "new", "old", "https://x")


def test_a_cluster_stays_with_its_hub() -> None:
    mark = membership.mark_manifest("geotrain-system", "hub-1")
    held = mark["data"][membership.HUB_KEY]
    membership.require_no_other_hub("", "hub-1", "geotrain-system")
    membership.require_no_other_hub(held, "hub-1", "geotrain-system")
    with pytest.raises(InputError, match=r"member of another hub.*geotrain-membership"):
        membership.require_no_other_hub(held, "hub-2", "geotrain-system")


@pytest.mark.parametrize("name", ["", "DC", "a.b", "a" * 64, "-a"])
def test_a_name_that_cannot_be_a_label_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="cannot be the name of a data centre"):
        Wishes(name)
