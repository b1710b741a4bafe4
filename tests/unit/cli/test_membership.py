"""What join writes, and what it warns of."""

import base64
from typing import Any

import pytest

from geotrain.api.v1alpha1 import DataCenter
from geotrain.cli import membership
from geotrain.cli.membership import Found, Wishes
from geotrain.errors import InputError

WISHES = Wishes("dc-west")
MEMBER = Found(2, 8, ("10.101.0.0/16",))


def node(gpus: str | None, *cidrs: str) -> dict[str, Any]:
    amounts = {} if gpus is None else {"nvidia.com/gpu": gpus}
    return {"spec": {"podCIDRs": list(cidrs)}, "status": {"allocatable": amounts}}


def test_nodes_are_counted_and_networks_told_once() -> None:
    nodes = [
        node("4", "fd00::/64", "10.2.0.0/24"),
        node("4", "10.1.0.0/24"),
        node(None, "10.1.0.0/24"),
    ]
    found = membership.found([*nodes, {}], "nvidia.com/gpu")
    assert found == Found(4, 8, ("10.1.0.0/24", "10.2.0.0/24", "fd00::/64"))


def test_a_good_member_needs_no_advice() -> None:
    assert membership.advice(WISHES, MEMBER, {"dc-east": ("10.103.0.0/16",)}) == []


@pytest.mark.parametrize(
    ("member", "others", "sentence"),
    [
        (Found(0, 0, ()), {}, "no node has topology.geotrain.io/datacenter=dc-west; label those"),
        (Found(2, 0, ()), {}, "offers nvidia.com/gpu"),
        (MEMBER, {"dc-east": ("10.101.4.0/24",)}, "overlaps 10.101.4.0/24 of dc-east"),
    ],
)
def test_what_stands_in_the_way_is_said(
    member: Found, others: dict[str, tuple[str, ...]], sentence: str
) -> None:
    (advice,) = membership.advice(WISHES, member, others)
    assert sentence in advice


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ("10.0.0.0/8", "10.1.0.0/16", True),
        ("10.1.0.0/16", "10.0.0.0/8", True),
        ("10.1.0.0/16", "10.2.0.0/16", False),
        ("::/0", "10.2.0.0/16", False),
    ],
)
def test_networks_overlap_when_they_share_an_address(
    ours: str, theirs: str, expected: bool
) -> None:
    assert bool(membership.overlaps([ours], [theirs])) is expected


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
    spec = membership.data_center_manifest(WISHES)["spec"]
    assert spec.keys() == {"cluster", "gpuResource"}


def test_a_kubeconfig_holds_no_more_than_it_must() -> None:
    bare = membership.kubeconfig("https://m:6443", "", "t")
    assert bare["clusters"][0]["cluster"] == {"server": "https://m:6443"}
    full = membership.kubeconfig("https://m:6443", "Q0E=", "t", "kubernetes")
    assert full["clusters"][0]["cluster"] == {
        "server": "https://m:6443",
        "certificate-authority-data": "Q0E=",
        "tls-server-name": "kubernetes",
    }
    assert full["users"][0]["user"] == {"token": "t"}


def test_a_token_that_is_not_there_yet_is_empty() -> None:
    assert membership.token_of({}) == ""
    assert membership.token_of({"data": {"token": base64.b64encode(b"t").decode()}}) == "t"
    assert membership.authority_of({"data": None}) == ""
    assert membership.authority_of({"data": {"ca.crt": "Q0E="}}) == "Q0E="


@pytest.mark.parametrize("name", ["", "DC", "a.b", "a" * 64, "-a"])
def test_a_name_that_cannot_be_a_label_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="cannot be the name of a data centre"):
        Wishes(name)
