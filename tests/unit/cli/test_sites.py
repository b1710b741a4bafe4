"""What join and doctor say of one data centre, for facts of every kind."""

from typing import Any

import pytest

from geotrain.api import rights
from geotrain.cli import findings, sites
from geotrain.cli.findings import Level
from geotrain.cli.sites import Site
from geotrain.errors import InputError

SELECTOR = {"topology.geotrain.io/datacenter": "dc-west"}
RULES = tuple(
    {
        "apiGroups": [right.group],
        "resources": list(right.resources),
        "verbs": list(right.verbs),
        "resourceNames": list(right.names),
    }
    for right in (*rights.MEMBER, rights.token("geotrain-member"))
)
ADMIN = ({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},)


def node(name: str, *cidrs: str, gpus: str = "4") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": SELECTOR},
        "spec": {"podCIDRs": list(cidrs)},
        "status": {"allocatable": {"nvidia.com/gpu": gpus}},
    }


def site(**changes: Any) -> Site:
    usual: dict[str, Any] = {
        "name": "dc-west",
        "kubernetes": "v1.36.2",
        "chart": "1.0",
        "nodes": (node("a", "10.1.0.0/24"), node("b", "10.1.1.0/24")),
        "selector": SELECTOR,
        "rules": RULES,
        "ahead": 0.4,
        "uid": "uid-west",
    }
    return Site(**{**usual, **changes})


def test_a_good_data_center_has_no_findings() -> None:
    found = sites.judge(site(), {"dc-east": ("10.2.0.0/16",)}, "1.0")
    assert findings.serious(found) == []
    assert {each.message for each in found} >= {"2 nodes, 8 nvidia.com/gpu", "Kubernetes v1.36.2"}


@pytest.mark.parametrize(
    ("changes", "level", "says"),
    [
        ({"kubernetes": "v1.32.9"}, Level.ERROR, "is too old; geotrain runs on 1.33 to 1.37"),
        ({"kubernetes": "v1.38.0"}, Level.WARNING, "was not tried"),
        ({"kubernetes": "v2.1"}, Level.WARNING, "was not tried"),
        ({"kubernetes": "unknown"}, Level.WARNING, "tells no number"),
        ({"chart": "0.9"}, Level.WARNING, "geotrain-scheduler is of version 0.9, this program of"),
        ({"chart": ""}, Level.WARNING, "there is no Deployment geotrain-scheduler"),
        ({"rules": RULES[1:]}, Level.ERROR, "may not: list, watch nodes; upgrade the chart"),
        ({"rules": RULES[:-1]}, Level.ERROR, "may not: create serviceaccounts/token geotrain"),
        ({"rules": ADMIN}, Level.WARNING, "may do everything"),
        ({"nodes": ()}, Level.WARNING, "no node has topology.geotrain.io/datacenter=dc-west"),
        ({"nodes": (node("a", "10.1.0.0/24", gpus="0"),)}, Level.WARNING,
         "offers nvidia.com/gpu; install the GPU's device plugin"),
        ({"nodes": (node("a"),)}, Level.WARNING, "tell no spec.podCIDRs"),
        ({"nodes": (node("a"),)}, Level.WARNING, "geotrain join --pod-cidr CIDR"),
        ({"nodes": (node("a", "10.2.7.0/24"),)}, Level.ERROR, "overlaps 10.2.0.0/16 of dc-east"),
        ({"nodes": (node("a", "fd00::/64"),)}, Level.WARNING, "IPv6 only"),
        ({"declared": ("10.9.0.0/16",)}, Level.WARNING,
         "nodes a, b tell a pod network outside 10.9.0.0/16"),
        ({"addresses": {"ns/p": "10.7.0.1", "ns/q": "10.7.0.2"}}, Level.WARNING,
         "pod ns/p has 10.7.0.1 and 1 more, outside the pod networks 10.1.0.0/24, 10.1.1.0/24"),
        ({"addresses": {"ns/p": "10.7.0.1"}}, Level.WARNING, "10.7.0.1, outside"),
        ({"ahead": 42.0}, Level.WARNING, "42 s ahead of this machine's (allowed: 10 s)"),
        ({"ahead": -42.0}, Level.WARNING, "42 s behind this machine's"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_what_would_be_right(
    changes: dict[str, Any], level: Level, says: str
) -> None:
    found = sites.judge(site(**changes), {"dc-east": ("10.2.0.0/16",)}, "1.0")
    said = [each.sentence for each in found if each.level is level]
    assert any(says in each for each in said), said


def test_what_nobody_asked_is_not_judged() -> None:
    assert not [
        each
        for each in sites.judge(site(kubernetes="", rules=None, ahead=None), {}, "1.0")
        if "account" in each.message or "clock" in each.message or "Kubernetes" in each.message
    ]


def test_dual_stack_is_explained() -> None:
    found = sites.judge(site(nodes=(node("a", "10.1.0.0/24", "fd00::/64"),)), {}, "1.0")
    assert any("dual stack: jobs use IPv4" in each.message for each in found)
    assert findings.serious(found) == []


def test_declared_networks_that_hold_the_nodes_are_good() -> None:
    found = sites.judge(site(declared=("10.1.0.0/16",)), {}, "1.0")
    assert findings.serious(found) == []
    assert any("from spec.network.podCIDRs" in each.message for each in found)


@pytest.mark.parametrize(
    ("ahead", "hub", "says"),
    [(0.0, 20.0, "20 s behind the hub's"), (25.0, 5.0, "20 s ahead of the hub's")],
)
def test_clocks_of_clusters_are_compared(ahead: float, hub: float, says: str) -> None:
    (found,) = sites.clocks("dc-west", ahead, hub)
    assert says in found.message


@pytest.mark.parametrize(("ahead", "hub"), [(0.0, 9.0), (None, 50.0), (50.0, None)])
def test_clocks_that_agree_or_are_not_known_are_no_finding(ahead: Any, hub: Any) -> None:
    assert sites.clocks("dc-west", ahead, hub) == []


def test_nodes_belong_to_one_data_center() -> None:
    other = site(name="dc-two")
    (found,) = sites.shared_nodes(site(), [other])
    assert found.level is Level.ERROR
    assert "nodes a, b belong to dc-two too" in found.message
    assert sites.shared_nodes(site(), [site()]) == []
    assert sites.shared_nodes(site(), [site(name="dc-two", uid="other")]) == []


def test_nodes_are_chosen_by_labels() -> None:
    bare = {"metadata": {"name": "bare"}}
    assert sites.owned([node("a"), bare], SELECTOR) == (node("a"),)


def pod(name: str, ip: str = "10.1.0.5", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "ns", "name": name},
        "spec": {"nodeName": "a", **spec},
        "status": {"phase": "Running", "podIP": ip},
    }


def test_addresses_of_pods_with_a_network_of_their_own_are_looked_at() -> None:
    pods = [
        pod("p"),
        pod("host", hostNetwork=True),
        pod("elsewhere", nodeName="z"),
        {**pod("ended"), "status": {"phase": "Succeeded", "podIP": "10.1.0.9"}},
        {**pod("new"), "status": {}},
    ]
    assert sites.pod_addresses(pods, [node("a")]) == {"ns/p": "10.1.0.5"}


@pytest.mark.parametrize(
    ("text", "seconds"), [("24h", 86400.0), ("90m", 5400.0), ("600s", 600.0), ("2d", 172800.0)]
)
def test_lifetimes_are_read(text: str, seconds: float) -> None:
    assert sites.read_lifetime(text) == seconds


@pytest.mark.parametrize("text", ["", "5m", "1w", "h", "-1h", "1.5h"])
def test_a_bad_lifetime_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="write a duration of at least 10m"):
        sites.read_lifetime(text)
