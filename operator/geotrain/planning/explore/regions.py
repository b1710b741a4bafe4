"""The data centres of a topology as the tiers of a network.

The largest data centres come first, as in ATLAS: so many devices are spread evenly over the first
one, the first two, and so on, wherever each then has room and every two of them are linked. Tiers
are the node (the GPUs of one pod), the data centre (the slowest LAN of any, shared by the GPUs of a
pod) and the wide area: of the slowest link between any two, each device has its part of the
capacity, and alone what a pod pair can reach with its best messages. Connections are taken to be
enough to fill a link (docs/wide-area.md).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from geotrain.model.topology import DataCenter, Topology, WanLink
from geotrain.planning.explore.network import Network, Rings, Tier, Transport
from geotrain.units import BitsPerSecond, Seconds

NODE_RATE: BitsPerSecond = 3.6e12
"""What a GPU reaches inside a node: 450 GB/s, as of NVLink's fourth generation."""

_NODE_LATENCY: Seconds = 2e-6


@dataclass(frozen=True, slots=True)
class Region:
    """The data centres that share the devices evenly, and the network that they make."""

    data_centers: tuple[str, ...]
    network: Network


def regions(
    topology: Topology,
    devices: int,
    node: int,
    allowed: Sequence[str] = (),
    rings: Rings = "aware",
) -> Iterator[Region]:
    """Every way to spread ``devices``, ``node`` to a pod; ``allowed`` of (): any data centre."""
    usable = [each for each in topology.data_centers if not allowed or each.name in allowed]
    usable.sort(key=lambda each: (-each.gpus, each.name))
    for count in range(1, len(usable) + 1):
        chosen = usable[:count]
        names = tuple(center.name for center in chosen)
        each, rest = divmod(devices, count)
        links = [topology.link(a, b) for a, b in permutations(names, 2)]
        found = [link for link in links if link is not None]
        if rest or each % node or each > usable[count - 1].gpus or len(found) < len(links):
            continue
        yield Region(names, _network(chosen, each, node, found, rings))


def _network(
    centers: Sequence[DataCenter], each: int, node: int, links: list[WanLink], rings: Rings
) -> Network:
    slowest = min(center.lan.rate for center in centers)
    latency = max(center.lan.latency for center in centers)
    tiers = [
        Tier("node", node, NODE_RATE, _NODE_LATENCY),
        Tier("data-centre", each // node, slowest / node, latency, slowest),
    ]
    efficiency = [1.0, 1.0]
    if links:
        rate = min(link.capacity * link.reservable for link in links) / each
        port = min(link.pod_rate for link in links)
        latency = max(link.round_trip for link in links) / 2
        tiers.append(Tier("wide-area", len(centers), min(rate, port), latency, port))
        efficiency.append(min(link.efficiency for link in links))
    return Network(tuple(tiers), (Transport("tcp", tuple(efficiency)),), rings)
