"""A data centre as ``join`` and ``doctor`` saw it, and what is wrong there. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from geotrain.api import labels, networks, rights
from geotrain.api.networks import PodNetworks
from geotrain.api.reasons import Reason
from geotrain.cli import findings
from geotrain.cli.findings import Finding
from geotrain.errors import InputError
from geotrain.units import Seconds

OLDEST_MINOR: Final = 33
NEWEST_MINOR: Final = 37
SKEW: Final[Seconds] = 10.0
"""Clocks may differ by so much; what is compared is known to a second."""

Manifest = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Site:
    """What was seen of a data centre's cluster.

    ``chart`` is the version of geotrain that is installed there, '' where the scheduler is missing.
    ``nodes`` are those of the data centre. ``rules`` are what geotrain's account may do, None where
    nobody asked (the hub's own). ``ahead`` is by how much its clock is ahead of this machine's.
    ``addresses`` are of pods on its nodes, by name. ``uid`` is that of its kube-system.
    """

    name: str
    kubernetes: str = ""
    chart: str = ""
    nodes: tuple[Manifest, ...] = ()
    gpu_resource: str = "nvidia.com/gpu"
    selector: Mapping[str, str] = field(default_factory=dict)
    declared: tuple[str, ...] = ()
    rules: tuple[Manifest, ...] | None = None
    ahead: Seconds | None = None
    addresses: Mapping[str, str] = field(default_factory=dict)
    uid: str = ""

    @property
    def networks(self) -> PodNetworks:
        """Its pod networks, declared or told by its nodes."""
        return networks.known(self.declared, self.nodes)

    @property
    def gpus(self) -> int:
        """GPUs that its nodes offer."""
        offers = ((n.get("status") or {}).get("allocatable") or {} for n in self.nodes)
        return sum(int(each.get(self.gpu_resource, 0)) for each in offers)


def judge(site: Site, others: Mapping[str, Sequence[str]], version: str) -> list[Finding]:
    """All that can be told of one data centre.

    ``others`` are the pod networks of the rest; ``version`` is that of this program.
    """
    return [
        *_kubernetes(site),
        *_chart(site, version),
        *_rights(site),
        *_nodes(site),
        *_networks(site, others),
        *_addresses(site),
        *_clock(site),
    ]


def kubernetes(subject: str, version: str) -> Finding:
    """Whether geotrain runs on a version of Kubernetes."""
    found = re.match(r"v?(\d+)\.(\d+)", version)
    supported = f"geotrain runs on 1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}"
    if found is None:
        return findings.warning(subject, f"its version {version!r} tells no number", supported)
    major, minor = int(found[1]), int(found[2])
    if (major, minor) < (1, OLDEST_MINOR):
        return findings.error(subject, f"Kubernetes {version} is too old", supported)
    if (major, minor) > (1, NEWEST_MINOR):
        return findings.warning(subject, f"Kubernetes {version} was not tried", supported)
    return findings.ok(subject, f"Kubernetes {version}")


def installed(subject: str, part: str, found: str, version: str) -> Finding:
    """Whether what is installed has the version of this program."""
    if found == version:
        return findings.ok(subject, f"{part} {found}")
    return findings.warning(
        subject,
        f"{part} is of version {found or 'unknown'}, this program of {version}",
        "upgrade the older one, so that both are the same: helm upgrade geotrain, or pip install",
    )


def clocks(site: str, ahead: Seconds | None, hub: Seconds | None) -> list[Finding]:
    """The clock of a cluster against the hub's, both as seen from here."""
    if ahead is None or hub is None or abs(ahead - hub) <= SKEW:
        return []
    side = "ahead of" if ahead > hub else "behind"
    return [
        findings.warning(
            site,
            f"its clock is {abs(ahead - hub):.0f} s {side} the hub's (allowed: {SKEW:g} s)",
            "let both clusters keep time by NTP",
        )
    ]


def shared_nodes(site: Site, others: Iterable[Site]) -> list[Finding]:
    """Nodes that two data centres count as theirs."""
    mine = {str(node["metadata"]["name"]) for node in site.nodes}
    found: list[Finding] = []
    for other in others:
        both = sorted(mine & {str(node["metadata"]["name"]) for node in other.nodes})
        if other.uid == site.uid and both and other.name != site.name:
            message = f"{networks.named(both)} belong to {other.name} too"
            action = "give each data centre a --node-selector of its own nodes"
            found.append(findings.error(site.name, message, action))
    return found


def owned(nodes: Iterable[Manifest], selector: Mapping[str, str]) -> tuple[Manifest, ...]:
    """The nodes that have all labels."""
    return tuple(
        node for node in nodes if selector.items() <= (node["metadata"].get("labels") or {}).items()
    )


def pod_addresses(pods: Iterable[Manifest], nodes: Iterable[Manifest]) -> dict[str, str]:
    """The IPs of pods that run on these nodes and have a network of their own."""
    names = {node["metadata"]["name"] for node in nodes}
    found: dict[str, str] = {}
    for pod in pods:
        spec, status = pod["spec"], pod.get("status") or {}
        runs = status.get("phase") == "Running" and status.get("podIP")
        if runs and spec.get("nodeName") in names and not spec.get("hostNetwork"):
            meta = pod["metadata"]
            found[f"{meta['namespace']}/{meta['name']}"] = str(status["podIP"])
    return found


def _kubernetes(site: Site) -> list[Finding]:
    return [kubernetes(site.name, site.kubernetes)] if site.kubernetes else []


def _chart(site: Site, version: str) -> list[Finding]:
    if site.chart:
        return [installed(site.name, "geotrain-scheduler", site.chart, version)]
    return [
        findings.warning(
            site.name,
            f"there is no Deployment {labels.SCHEDULER_NAME}, so no job's pods are scheduled",
            "install the chart there with member.enabled=true",
        )
    ]


def _rights(site: Site) -> list[Finding]:
    if site.rules is None:
        return []
    lacking = rights.lacking((*rights.MEMBER, rights.token(labels.MEMBER_ACCOUNT)), site.rules)
    if lacking:
        return [
            findings.error(
                site.name,
                f"geotrain's account may not: {'; '.join(map(str, lacking))}",
                "upgrade the chart there, which grants it"
                f" (ClusterRole and Role {labels.MEMBER_ACCOUNT})",
            )
        ]
    if rights.is_all_powerful(site.rules):
        message = "the account that the hub's controller uses may do everything"
        action = f"use the chart's account {labels.MEMBER_ACCOUNT}: geotrain join"
        return [findings.warning(site.name, message, action)]
    return [findings.ok(site.name, "geotrain's account may do what it has to")]


def _nodes(site: Site) -> list[Finding]:
    wanted = ",".join(f"{k}={v}" for k, v in sorted(site.selector.items()))
    if not site.nodes:
        action = f"label those of this data centre: kubectl label nodes NODE {wanted}"
        return [findings.warning(site.name, f"no node has {wanted}", action)]
    if not site.gpus:
        message = f"no node with {wanted} offers {site.gpu_resource}"
        action = "install the GPU's device plugin there, or name its resource: --gpu-resource"
        return [findings.warning(site.name, message, action)]
    count = f"{len(site.nodes)} nodes, {site.gpus} {site.gpu_resource}"
    return [findings.ok(site.name, count)]


def _networks(site: Site, others: Mapping[str, Sequence[str]]) -> list[Finding]:
    found = site.networks
    fault = networks.fault(found, others)
    remedy = "give them: geotrain join --pod-cidr CIDR"
    if fault is None:
        told = f"pod networks {', '.join(found.cidrs)} from {_PLACES[found.source]}"
        both = len({":" in cidr for cidr in found.cidrs}) > 1
        dual = "; dual stack: jobs use IPv4, and IPv6 between data centres is refused"
        return [findings.ok(site.name, told + (dual if both else "")), *_undeclared(site)]
    if fault.reason is Reason.POD_NETWORK_OVERLAP:
        return [findings.error(site.name, fault.message)]
    if fault.reason is Reason.POD_NETWORK_UNKNOWN:
        told = "; until then no job with sidecars crosses the wide area there"
        return [findings.warning(site.name, fault.message, remedy + told)]
    return [findings.warning(site.name, fault.message)]


_PLACES: Final = {"Spec": networks.FIELD, "Nodes": "its nodes", "": "nobody"}


def _undeclared(site: Site) -> list[Finding]:
    """Nodes that tell a network outside of what was declared."""
    if not site.declared:
        return []
    told = {
        str(node["metadata"]["name"]): cidr.partition("/")[0]
        for node in site.nodes
        for cidr in networks.node_cidrs(node)
    }
    stray = sorted(networks.outside(told, site.declared))
    if not stray:
        return []
    message = f"{networks.named(stray)} tell a pod network outside {', '.join(site.declared)}"
    return [findings.warning(site.name, message, f"add it to {networks.FIELD}, or mend the node")]


def _addresses(site: Site) -> list[Finding]:
    """Pods outside the known networks: their CNI takes addresses from elsewhere."""
    known = site.networks.cidrs
    stray = networks.outside(site.addresses, known) if known else {}
    if not stray:
        return []
    pod, address = sorted(stray.items())[0]
    more = f" and {len(stray) - 1} more" if len(stray) > 1 else ""
    return [
        findings.warning(
            site.name,
            f"pod {pod} has {address}{more}, outside the pod networks {', '.join(known)}: sidecars"
            " would not carry what goes there",
            "give the networks that the CNI takes addresses from: geotrain join --pod-cidr CIDR",
        )
    ]


def _clock(site: Site) -> list[Finding]:
    if site.ahead is None or abs(site.ahead) <= SKEW:
        return []
    side = "ahead of" if site.ahead > 0 else "behind"
    message = f"its clock is {abs(site.ahead):.0f} s {side} this machine's (allowed: {SKEW:g} s)"
    return [findings.warning(site.name, message, "let both keep time by NTP")]


def read_lifetime(text: str) -> Seconds:
    """Seconds of a duration like 24h or 30m. Raises InputError for less than ten minutes."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
    found = re.fullmatch(r"(\d+)([smhd])", text)
    if found is None or int(found[1]) * units[found[2]] < 600:
        raise InputError(
            f"--token-lifetime {text!r}: write a duration of at least 10m, like 24h or 90m"
        )
    return int(found[1]) * units[found[2]]
