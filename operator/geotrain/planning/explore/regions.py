"""The data centres of a topology as the tiers of a network.

The largest data centres come first, as in ATLAS: so many devices are spread evenly over the first
one, the first two, and so on, wherever each then has room and every two of them are linked. Tiers
are the pod (its GPUs exchange as a plan's tensor group does), the data centre (the slowest LAN of
any, shared by the GPUs of a pod) and the wide area: of the slowest link between any two, each
device has its part of the capacity, and a pod what a pod pair reaches with its best messages and
with the connections that a plan would give it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Final

from geotrain.model.topology import DataCenter, Topology, WanLink
from geotrain.planning.costs.calibrations import Node
from geotrain.planning.costs.connections import MOST_CONNECTIONS, connections
from geotrain.planning.explore.network import Network, Tier, Transport
from geotrain.units import BitsPerSecond, Seconds, window_rate

_POD_LATENCY: Final[Seconds] = 2e-6


@dataclass(frozen=True, slots=True)
class Region:
    """The data centres that share the devices evenly, and the network that they make."""

    data_centers: tuple[str, ...]
    network: Network


@dataclass(frozen=True, slots=True)
class Pods:
    """So many GPUs each, and what they exchange over; connections as a job asks for them."""

    gpus: int
    node: Node
    connections: int | None = None
    most_connections: int = MOST_CONNECTIONS


def regions(
    topology: Topology,
    devices: int,
    pods: Callable[[Sequence[str]], Pods],
    allowed: Sequence[str] = (),
) -> Iterator[Region]:
    """Every way to spread ``devices`` in the ``pods`` of some data centres.

    ``allowed`` of (): any data centre.
    """
    usable = [each for each in topology.data_centers if not allowed or each.name in allowed]
    usable.sort(key=lambda each: (-each.gpus, each.name))
    for count in range(1, len(usable) + 1):
        chosen = usable[:count]
        names = tuple(center.name for center in chosen)
        each, rest = divmod(devices, count)
        links = [topology.link(a, b) for a, b in permutations(names, 2)]
        found = [link for link in links if link is not None]
        inside = pods(names)
        if rest or each % inside.gpus or each > usable[count - 1].gpus or len(found) < len(links):
            continue
        yield Region(names, _network(chosen, each, inside, found))


def _network(
    centers: Sequence[DataCenter], each: int, pods: Pods, links: Sequence[WanLink]
) -> Network:
    gpus = pods.gpus
    slowest = min(center.lan.pod_rate(gpus) for center in centers)
    own = [center.lan.gpu_rate for center in centers if center.lan.gpu_rate is not None]
    latency = max(center.lan.latency for center in centers)
    near = pods.node.near.rate(_LARGE)
    tiers = [
        Tier("node", gpus, near, _POD_LATENCY),
        Tier("data-centre", each // gpus, slowest / gpus, latency, min([slowest, *own])),
    ]
    efficiency = [1.0, 1.0]
    if links:
        rate = min(link.capacity * link.reservable for link in links) / each
        port = min(_pod_rate(link, pods) for link in links)
        latency = max(link.round_trip for link in links) / 2
        tiers.append(Tier("wide-area", len(centers), min(rate, port), latency, port, shared=True))
        efficiency.append(min(link.efficiency for link in links))
    transport = Transport("tcp", tuple(efficiency))
    return Network(tuple(tiers), (transport,), "aware", pods.node)


def _pod_rate(link: WanLink, pods: Pods) -> BitsPerSecond:
    """What a pod pair reaches with the connections that it gets; windows count payload."""
    if link.window is None:
        return link.pod_rate
    count = connections(link, pods.connections, pods.most_connections)
    return min(link.pod_rate, count * window_rate(link.window, link.round_trip) / link.efficiency)


_LARGE: Final = 2.0**30
"""Bytes of a message that has the link's whole rate."""
