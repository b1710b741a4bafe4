"""What the clusters are made from, as text: kind's configuration and the nodes' network. Pure."""

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.testbed.config import Bed, DataCenter
from geotrain.units import BitsPerSecond, Bytes

WAN_QUEUE_PACKETS = 2000  # above the packets in flight of all connections that fill the path
FIRST_POD, LAST_POD = 2, 254  # the last byte of pods' addresses in a node's /24
TABLE = 100  # routes of packets that come out of the WAN
AUDIT_POLICY = "policy.yaml"  # in the folder of this machine that nodes mount
AUDIT_LOGS = "/var/log/kubernetes/audit"  # on the node
_AUDIT_FOLDER = "/etc/geotrain-audit"  # on the node

CONTAINERD = """
[plugins."io.containerd.cri.v1.runtime"]
  # It asks every container for its figures each second by default: a tenth of a core in all.
  stats_collect_period = "10m"
"""


def kind_config(dc: DataCenter, audit: Path) -> str:
    """The cluster of one data centre: one node, no default pod network, quiet when idle.

    ``audit`` is the folder of this machine that holds the policy of the API server's audit log.
    """
    kubelet = {
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "serializeImagePulls": False,
        "nodeStatusUpdateFrequency": "30s",
        "volumeStatsAggPeriod": "-1s",  # never
        "registryPullQPS": 0,
    }
    quiet = _extra({"leader-elect": "false"})
    etcd = _extra(
        {
            "unsafe-no-fsync": "true",  # the bed's state need not outlive the machine
            "heartbeat-interval": "1000",  # ms; ticks for other members, of which there are none
            "election-timeout": "10000",
        }
    )
    control_plane = {
        "kind": "ClusterConfiguration",
        "etcd": {"local": etcd},
        "apiServer": _audited(),
        "controllerManager": quiet,
        "scheduler": quiet,
    }
    housekeeping = {
        "op": "add",
        "path": "/nodeRegistration/kubeletExtraArgs/-",
        "value": {"name": "housekeeping-interval", "value": "60s"},
    }
    document = {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "name": dc.name,
        "networking": {
            "disableDefaultCNI": True,
            "kubeProxyMode": "nftables",
            "podSubnet": dc.pod_subnet,
            "serviceSubnet": dc.service_subnet,
        },
        # The kubelet then bears a root that may not lower OOM scores.
        "featureGates": {"KubeletInUserNamespace": True},
        "kubeadmConfigPatches": [yaml.safe_dump(kubelet), yaml.safe_dump(control_plane)],
        "kubeadmConfigPatchesJSON6902": [
            {
                "group": "kubeadm.k8s.io",
                "version": "v1beta4",
                "kind": "InitConfiguration",
                "patch": json.dumps([housekeeping]),
            }
        ],
        "containerdConfigPatches": [CONTAINERD],
        "nodes": [
            {
                "role": "control-plane",
                "extraMounts": [
                    {"hostPath": str(audit), "containerPath": _AUDIT_FOLDER, "readOnly": True}
                ],
            }
        ],
    }
    return yaml.safe_dump(document, sort_keys=False)


def _audited() -> dict[str, Any]:
    """An API server that logs what geotrain's own accounts do, which is a few lines a second."""
    arguments = {
        "audit-policy-file": f"{_AUDIT_FOLDER}/{AUDIT_POLICY}",
        "audit-log-path": f"{AUDIT_LOGS}/audit.log",
        "audit-log-maxsize": "64",  # MiB
        "audit-log-maxbackup": "1",
    }
    volumes = [("audit-policy", _AUDIT_FOLDER, True), ("audit-logs", AUDIT_LOGS, False)]
    return {
        **_extra(arguments),
        "extraVolumes": [
            {
                "name": name,
                "hostPath": path,
                "mountPath": path,
                "readOnly": read_only,
                "pathType": "DirectoryOrCreate",
            }
            for name, path, read_only in volumes
        ],
    }


def _extra(arguments: Mapping[str, str]) -> dict[str, Any]:
    """A program's arguments as kubeadm's v1beta4 has them."""
    return {"extraArgs": [{"name": name, "value": text} for name, text in arguments.items()]}


def pod_network(pod_cidr: str, mtu: Bytes) -> str:
    """The CNI configuration list of a node whose pods have addresses of ``pod_cidr``."""
    ipam = {
        "type": "host-local",
        "dataDir": "/run/cni-ipam-state",
        "routes": [{"dst": "0.0.0.0/0"}],
        "ranges": [[{"subnet": pod_cidr}]],
    }
    plugins: list[dict[str, Any]] = [
        {"type": "ptp", "ipMasq": False, "mtu": mtu, "ipam": ipam},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    return json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": plugins}, indent=1)


@dataclass(frozen=True)
class Side:
    """One far data centre as a node sees it."""

    device: str
    pod_subnet: str
    node_address: str


def wan_devices(bed: Bed, name: str) -> dict[str, str]:
    """The node's WAN device for each other data centre."""
    return {dc.name: f"wan{i}" for i, dc in enumerate(bed.others(name))}


def wan_arguments(bed: Bed, name: str) -> list[str]:
    """The arguments of ``wan.py`` on the node: each device with half of its pair's RTT."""
    return [
        f"{device}={bed.wan.round_trip(name, far) * 1e3 / 2:.3f}"
        for far, device in wan_devices(bed, name).items()
    ]


def node_script(bed: Bed, name: str, pod_cidr: str, addresses: Mapping[str, str]) -> str:
    """A bash script that gives a node its pod network and its routes through the WAN.

    It may run again at any time. ``addresses`` are the nodes' own, by data centre.
    """
    devices = wan_devices(bed, name)
    sides = [
        Side(devices[far.name], far.pod_subnet, addresses[far.name]) for far in bed.others(name)
    ]
    return "\n".join(
        [
            "set -euo pipefail",
            *_pod_network_lines(pod_network(pod_cidr, bed.wan.mtu)),
            *_filter_lines(bed, name, addresses),
            *(line for side in sides for line in _wan_lines(side, addresses[name], bed, pod_cidr)),
            "mkdir -p /run/geotrain/gates",
            "",
        ]
    )


def _pod_network_lines(conflist: str) -> list[str]:
    return [
        "mkdir -p /etc/cni/net.d",
        f"cat > /etc/cni/net.d/.pods.new <<'JSON'\n{conflist}\nJSON",
        "mv /etc/cni/net.d/.pods.new /etc/cni/net.d/10-pods.conflist",
        "sysctl -qw net.ipv4.ip_forward=1",
    ]


def _filter_lines(bed: Bed, name: str, addresses: Mapping[str, str]) -> list[str]:
    """What nftables does to packets that leave the node.

    Pods keep their address towards all of the bed and take the node's towards the world. Over the
    WAN no TCP connection has more than the bed's window in flight: neither end may scale its
    window, and a larger one is announced as this. Within the data centre nothing is limited.
    """
    window = bed.wan.window
    devices = ", ".join(sorted(wan_devices(bed, name).values()))
    inside = ", ".join([*(dc.pod_subnet for dc in bed.data_centers), *addresses.values()])
    own = bed[name].pod_subnet
    return [
        "nft -f - <<'NFT'",
        "table ip testbed",
        "delete table ip testbed",
        "table ip testbed {",
        "  chain postrouting {",
        "    type nat hook postrouting priority srcnat; policy accept;",
        f"    ip saddr {own} ip daddr != {{ {inside} }} oifname eth0 masquerade",
        "  }",
        "  chain window {",
        "    type filter hook postrouting priority mangle; policy accept;",
        f"    oifname != {{ {devices} }} accept",
        "    tcp flags & syn == syn reset tcp option window",  # its scale: RFC 7323, 2.2
        f"    tcp window > {window} tcp window set {window}",
        "  }",
        "}",
        "NFT",
    ]


def _wan_lines(side: Side, own_address: str, bed: Bed, pod_cidr: str) -> list[str]:
    """Routes into one WAN device and on, and its rates."""
    device = side.device
    return [
        f"for _ in $(seq 100); do ip link show {device} > /dev/null 2>&1 && break; sleep 0.1; done",
        f"ip link set {device} up mtu {bed.wan.mtu} txqueuelen {WAN_QUEUE_PACKETS}",
        f"for d in all {device} eth0; do echo 0 > /proc/sys/net/ipv4/conf/$d/rp_filter; done",
        # What the node itself sends comes back out of the device with the node's own address.
        f"echo 1 > /proc/sys/net/ipv4/conf/{device}/accept_local",
        f"ip rule show | grep -q 'iif {device} ' || ip rule add iif {device} lookup {TABLE}",
        f"ip route replace {side.node_address} dev eth0 scope link table {TABLE}",
        f"ip route replace {side.pod_subnet} via {side.node_address} dev eth0 onlink table {TABLE}",
        f"ip route replace {side.pod_subnet} dev {device} src {own_address}",
        f"ip route replace {side.node_address} dev {device} src {own_address}",
        f"tc qdisc del dev {device} root 2> /dev/null || true",
        "tc -batch - <<'TC'",
        *rate_lines(device, pod_cidr, bed.wan.pair_rate, bed.wan.pod_rate),
        "TC",
    ]


def rate_lines(
    device: str, pod_cidr: str, pair_rate: BitsPerSecond, pod_rate: BitsPerSecond
) -> list[str]:
    """HTB by tc: a class for the pair of data centres, and below it one for each sending pod.

    A pod's class is found by the last byte of its address, in a hash table. Its own rate is tiny
    and the rest borrowed: a class within its own rate does not ask whether the pair's is used up.
    """
    network = ipaddress.ip_network(pod_cidr)
    own = max(1, round(pair_rate / 256))
    shape = "quantum 10000 burst 10k cburst 10k"
    lines = [
        f"qdisc add dev {device} root handle 1: htb default 1",
        f"class add dev {device} parent 1: classid 1:ffff htb"
        f" rate {pair_rate:.0f}bit ceil {pair_rate:.0f}bit burst 10k cburst 10k",
        f"class add dev {device} parent 1:ffff classid 1:1 htb"
        f" rate {own}bit ceil {pair_rate:.0f}bit {shape}",
        f"filter add dev {device} parent 1: prio 1 handle 1: protocol ip u32 divisor 256",
    ]
    for last in range(FIRST_POD, LAST_POD + 1):
        address = network.network_address + last
        lines += [
            f"class add dev {device} parent 1:ffff classid 1:{0x100 + last:x} htb"
            f" rate {own}bit ceil {pod_rate:.0f}bit {shape}",
            f"filter add dev {device} parent 1: prio 1 protocol ip u32 ht 1:{last:x}:"
            f" match ip src {address}/32 flowid 1:{0x100 + last:x}",
        ]
    lines.append(
        f"filter add dev {device} parent 1: prio 1 protocol ip u32 ht 800::"
        f" match ip src {pod_cidr} hashkey mask 0x000000ff at 12 link 1:"
    )
    return lines
