"""Which pod networks are known, and what is wrong with them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.api import networks
from geotrain.api.networks import PodNetworks
from geotrain.api.v1alpha1 import DataCenter
from geotrain.errors import InputError
from support import manifests


def node(name: str, *cidrs: str, one: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {"podCIDRs": list(cidrs)} if cidrs else {}
    return {"metadata": {"name": name}, "spec": {**spec, **({"podCIDR": one} if one else {})}}


@pytest.mark.parametrize(
    ("declared", "nodes", "cidrs", "source", "gap"),
    [
        ((), [node("a", "10.2.0.0/24"), node("b", "10.1.0.0/24")], ("10.1.0.0/24", "10.2.0.0/24"),
         "Nodes", ""),
        ((), [node("a", one="10.1.0.0/24")], ("10.1.0.0/24",), "Nodes", ""),
        ((), [node("a", "fd00::/64", "10.1.0.0/24")], ("10.1.0.0/24", "fd00::/64"), "Nodes", ""),
        (("10.0.0.0/8",), [node("a", "10.1.0.0/24")], ("10.0.0.0/8",), "Spec", ""),
        (("10.0.0.0/8",), [], ("10.0.0.0/8",), "Spec", ""),
        ((), [node("a")], (), "", "its nodes tell no spec.podCIDRs; set DataCenter"),
        ((), [{"metadata": {"name": "eks"}, "spec": {"providerID": "aws:///x"}}], (), "",
         "its nodes tell no spec.podCIDRs"),
        ((), [], (), "", "it has no nodes that could tell"),
        ((), [node("a", "10.1.0.0/24"), node("b")], ("10.1.0.0/24",), "Nodes",
         "node b tell no spec.podCIDRs, the others do"),
        ((), [node("a", "10.1.0.0/24"), *(node(n) for n in "bcdef")], ("10.1.0.0/24",), "Nodes",
         "nodes b, c, d and 2 more tell"),
    ],
)  # fmt: skip
def test_networks_are_declared_or_told_by_nodes(
    declared: tuple[str, ...], nodes: Any, cidrs: Any, source: str, gap: str
) -> None:
    found = networks.known(declared, nodes)
    assert (found.cidrs, found.source) == (cidrs, source)
    assert found.gap.startswith(gap)
    assert bool(found.gap) == bool(gap)


@pytest.mark.parametrize(
    ("cidrs", "others", "reason", "says"),
    [
        (("10.1.0.0/16",), {"dc-east": ("10.2.0.0/16",)}, None, ""),
        (("10.1.0.0/16", "fd00:1::/48"), {"dc-east": ("fd00:2::/48",)}, None, ""),
        (("10.1.0.0/16",), {"dc-east": ("10.0.0.0/8",)}, "PodNetworkOverlap", "of dc-east"),
        (("10.1.0.0/16", "fd00::/32"), {"dc-east": ("fd00::/48",)}, "PodNetworkOverlap", "fd00"),
        (("fd00::/64",), {}, "PodNetworkUnsupported", "IPv6 only"),
    ],
)
def test_what_is_wrong_with_networks_is_said(
    cidrs: Any, others: Any, reason: str | None, says: str
) -> None:
    fault = networks.fault(PodNetworks(cidrs, "Nodes"), others)
    assert (fault and fault.reason) == reason
    assert says in (fault.message if fault else "")


def test_a_gap_is_told_first() -> None:
    fault = networks.fault(networks.known((), []), {})
    assert fault is not None
    assert fault.reason == "PodNetworkUnknown"


def test_sidecars_carry_ipv4() -> None:
    assert networks.carried(("10.1.0.0/16", "fd00::/64")) == ("10.1.0.0/16",)


def test_addresses_outside_are_found() -> None:
    addresses = {"a": "10.1.2.3", "b": "10.9.2.3", "c": "fd00::1"}
    assert networks.outside(addresses, ["10.1.0.0/16"]) == {"b": "10.9.2.3", "c": "fd00::1"}
    assert networks.outside(addresses, ["10.0.0.0/8", "fd00::/64"]) == {}


@given(st.ip_addresses(), st.integers(0, 32), st.ip_addresses(), st.integers(0, 32))
def test_overlap_is_mutual_and_holds_for_a_network_and_itself(
    one: Any, first: int, other: Any, second: int
) -> None:
    a, b = f"{one}/{first}", f"{other}/{second}"
    assert bool(networks.overlaps([a], [b])) == bool(networks.overlaps([b], [a]))
    assert networks.overlaps([a], [a])


@pytest.mark.parametrize(
    ("cidrs", "complaint"),
    [
        (["10.1.2.3/16"], "do you mean 10.1.0.0/16?"),
        (["10.1.0.0"], "write one like 10.1.0.0/16"),
        (["10.1.0.0/33"], "is no network"),
        (["fd00::1/48"], "do you mean fd00::/48?"),
        (["10.0.0.0/8", "10.1.0.0/16"], "10.0.0.0/8 and 10.1.0.0/16 overlap"),
        (["10.1.0.0/16", "10.1.0.0/16"], "overlap"),
        ([""], "is no network"),
    ],
)
def test_a_data_center_with_bad_networks_is_refused(cidrs: list[str], complaint: str) -> None:
    with pytest.raises(InputError, match=r"spec\.network\.podCIDRs") as refused:
        DataCenter.from_manifest(manifests.data_center(network={"podCIDRs": cidrs}))
    assert complaint in str(refused.value)


def test_a_data_center_may_have_both_families() -> None:
    both = ["10.1.0.0/16", "fd00:1::/48"]
    center = DataCenter.from_manifest(manifests.data_center(network={"podCIDRs": both}))
    assert center.spec.network.pod_cidrs == tuple(both)
