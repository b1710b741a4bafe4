"""What clusters and nodes are made from."""

import json
from pathlib import Path

import pytest
import yaml

from e2e.testbed.config import load
from e2e.testbed.render import (
    AUDIT_LOGS,
    AUDIT_POLICY,
    kind_config,
    node_script,
    pod_network,
    rate_lines,
    wan_arguments,
)

BED = load()
AUDIT = Path("/home/me/.cache/geotrain/run/audit")
ADDRESSES = {"dc-west": "172.18.0.2", "dc-central": "172.18.0.3", "dc-east": "172.18.0.4"}


def test_each_cluster_has_its_own_subnets() -> None:
    subnets = {
        yaml.safe_load(kind_config(dc, AUDIT))["networking"][which]
        for dc in BED.data_centers
        for which in ("podSubnet", "serviceSubnet")
    }
    assert len(subnets) == 6


def test_the_api_server_finds_its_audit_policy_and_may_write_its_log() -> None:
    config = yaml.safe_load(kind_config(BED.data_centers[0], AUDIT))
    (mount,) = config["nodes"][0]["extraMounts"]
    patch = next(p for p in map(yaml.safe_load, config["kubeadmConfigPatches"]) if "etcd" in p)
    server = patch["apiServer"]
    arguments = {each["name"]: each["value"] for each in server["extraArgs"]}
    inside = {each["mountPath"]: each["readOnly"] for each in server["extraVolumes"]}
    policy, log = Path(arguments["audit-policy-file"]), Path(arguments["audit-log-path"])
    assert (mount["hostPath"], mount["containerPath"]) == (str(AUDIT), str(policy.parent))
    assert inside == {str(policy.parent): True, str(log.parent): False}
    assert (str(log.parent), policy.name) == (AUDIT_LOGS, AUDIT_POLICY)


def test_pods_get_addresses_of_their_node() -> None:
    conflist = json.loads(pod_network("10.101.0.0/24", 9000))
    assert conflist["plugins"][0]["ipam"]["ranges"] == [[{"subnet": "10.101.0.0/24"}]]


def test_the_window_is_limited_towards_the_wide_area_alone() -> None:
    lines = [
        line.strip()
        for line in node_script(BED, "dc-west", "10.101.0.0/24", ADDRESSES).splitlines()
    ]
    spared = lines.index("oifname != { wan0, wan1 } accept")
    assert lines[spared + 1 : spared + 3] == [
        "tcp flags & syn == syn reset tcp option window",
        "tcp window > 8688 tcp window set 8688",
    ]


def test_each_direction_has_half_of_the_round_trip() -> None:
    assert wan_arguments(BED, "dc-west") == ["wan0=20.500", "wan1=36.500"]


def test_a_node_routes_pods_and_nodes_of_others_through_the_wan() -> None:
    script = node_script(BED, "dc-west", "10.101.0.0/24", ADDRESSES)
    for line in (
        "ip route replace 10.102.0.0/16 dev wan0 src 172.18.0.2",
        "ip route replace 172.18.0.3 dev wan0 src 172.18.0.2",
        "ip route replace 10.102.0.0/16 via 172.18.0.3 dev eth0 onlink table 100",
        "ip route replace 10.103.0.0/16 via 172.18.0.4 dev eth0 onlink table 100",
    ):
        assert line in script.splitlines()


def test_pods_keep_their_address_within_the_bed() -> None:
    script = node_script(BED, "dc-west", "10.101.0.0/24", ADDRESSES)
    (rule,) = [line for line in script.splitlines() if "masquerade" in line]
    for inside in ("10.101.0.0/16", "10.103.0.0/16", "172.18.0.4"):
        assert inside in rule


@pytest.mark.parametrize("last", [2, 17, 254])
def test_every_pod_has_a_class_capped_at_its_rate(last: int) -> None:
    lines = rate_lines("wan0", "10.101.0.0/24", 100e6, 50e6)
    (its_class,) = [line for line in lines if f"classid 1:{0x100 + last:x} " in line]
    assert "ceil 50000000bit" in its_class
    (its_filter,) = [line for line in lines if f"src 10.101.0.{last}/32" in line]
    assert f"ht 1:{last:x}:" in its_filter
    assert its_filter.endswith(f"flowid 1:{0x100 + last:x}")


def test_all_pods_together_are_capped_at_the_pairs_rate() -> None:
    lines = rate_lines("wan0", "10.101.0.0/24", 100e6, 50e6)
    (pair,) = [line for line in lines if "classid 1:ffff" in line]
    assert "rate 100000000bit ceil 100000000bit" in pair
    own = [
        int(line.split(" rate ")[1].split("bit")[0]) for line in lines if "parent 1:ffff" in line
    ]
    assert len(own) == 254
    assert sum(own) <= 100e6
