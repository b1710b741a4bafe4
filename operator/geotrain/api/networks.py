"""Pod networks of data centres: which are known, what is wrong with them, what a sidecar carries.

Pure. Networks are text in CIDR form, IPv4 or IPv6.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from geotrain.api.reasons import Reason

Node = Mapping[str, Any]
"""A v1 Node as in JSON."""
Source = Literal["Spec", "Nodes", ""]
"""Where networks are known from: the DataCenter's spec, or spec.podCIDRs of its nodes."""

FIELD: Final = "spec.network.podCIDRs"
_MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class PodNetworks:
    """The pod networks of a data centre. ``gap`` says what is missing of them, '' when nothing."""

    cidrs: tuple[str, ...] = ()
    source: Source = ""
    gap: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why traffic between pods of data centres cannot be told or carried."""

    reason: Reason
    message: str


def known(declared: Sequence[str], nodes: Iterable[Node]) -> PodNetworks:
    """What the DataCenter says, or else what its nodes say.

    Nodes of many managed clouds, and of CNIs with an address management of their own, say nothing.
    """
    if declared:
        return PodNetworks(ordered(declared), "Spec")
    by_node = {str(node["metadata"]["name"]): node_cidrs(node) for node in nodes}
    found = ordered({cidr for cidrs in by_node.values() for cidr in cidrs})
    silent = sorted(name for name, cidrs in by_node.items() if not cidrs)
    remedy = f"set DataCenter {FIELD}, for example [10.1.0.0/16]"
    if by_node and not found:
        return PodNetworks((), "", f"its nodes tell no spec.podCIDRs; {remedy}")
    if not by_node:
        return PodNetworks((), "", f"it has no nodes that could tell its pod networks; {remedy}")
    told = f"{named(silent)} tell no spec.podCIDRs, the others do; {remedy}" if silent else ""
    return PodNetworks(found, "Nodes", told)


def node_cidrs(node: Node) -> tuple[str, ...]:
    """The pod networks that a node tells."""
    spec = node.get("spec") or {}
    return tuple(spec.get("podCIDRs") or ([spec["podCIDR"]] if spec.get("podCIDR") else ()))


def ordered(cidrs: Iterable[str]) -> tuple[str, ...]:
    """Each once, IPv4 first, by address."""
    return tuple(sorted(set(cidrs), key=lambda c: (":" in c, ipaddress.ip_network(c, False))))


def fault(networks: PodNetworks, others: Mapping[str, Sequence[str]]) -> Fault | None:
    """What is wrong with the networks of a data centre; ``others``: those of the rest, by name."""
    if networks.gap:
        return Fault(Reason.POD_NETWORK_UNKNOWN, networks.gap)
    for name, theirs in sorted(others.items()):
        for mine, other in overlaps(networks.cidrs, theirs):
            told = (
                f"pod network {mine} overlaps {other} of {name}: pods cannot reach each other;"
                " one of the clusters needs another pod network"
            )
            return Fault(Reason.POD_NETWORK_OVERLAP, told)
    if not carried(networks.cidrs):
        told = (
            f"{', '.join(networks.cidrs)} is IPv6 only, which sidecars cannot carry: give the pods"
            " IPv4 addresses too (dual stack), or run jobs with network.enforcement: None"
        )
        return Fault(Reason.POD_NETWORK_UNSUPPORTED, told)
    return None


def carried(cidrs: Iterable[str]) -> tuple[str, ...]:
    """Those whose traffic a sidecar carries: IPv4."""
    return tuple(cidr for cidr in cidrs if ":" not in cidr)


def overlaps(ours: Sequence[str], theirs: Sequence[str]) -> list[tuple[str, str]]:
    """The pairs of networks that share addresses."""
    return [(a, b) for a in ours for b in theirs if _overlap(a, b)]


def inner_overlap(cidrs: Sequence[str]) -> tuple[str, str] | None:
    """Two of one list that share addresses, None where none do."""
    for number, one in enumerate(cidrs):
        for pair in overlaps([one], cidrs[number + 1 :]):
            return pair
    return None


def outside(addresses: Mapping[str, str], cidrs: Sequence[str]) -> dict[str, str]:
    """Of ``addresses`` by name, those in none of the networks of their family.

    Where no network of a family is known, addresses of that family are outside too.
    """
    networks = [ipaddress.ip_network(cidr, False) for cidr in cidrs]
    return {
        name: address
        for name, address in addresses.items()
        if not any(ipaddress.ip_address(address) in network for network in networks)
    }


def check(cidr: str) -> str:
    """The network itself. Raises ValueError that says what would be right."""
    try:
        ipaddress.ip_network(cidr)
    except ValueError as error:
        try:
            meant = f"; do you mean {ipaddress.ip_network(cidr, False)}?"
        except ValueError:
            meant = ""
        sentence = f"{cidr!r} is no network; write one like 10.1.0.0/16 or fd00:1::/48{meant}"
        raise ValueError(sentence) from error
    if "/" not in cidr:
        raise ValueError(f"{cidr!r} is no network; write one like 10.1.0.0/16 or fd00:1::/48")
    return cidr


def named(names: Sequence[str]) -> str:
    """Some names, and how many more there are: ``node a, b, c and 4 more``."""
    shown, more = ", ".join(names[:_MOST_NAMED]), len(names) - _MOST_NAMED
    return f"{'node' if len(names) == 1 else 'nodes'} {shown}" + (
        f" and {more} more" if more > 0 else ""
    )


def _overlap(one: str, other: str) -> bool:
    first, second = ipaddress.ip_network(one, False), ipaddress.ip_network(other, False)
    if first.version != second.version:
        return False
    return first.network_address in second or second.network_address in first
