"""Collectives over tiers of links, and how much of them compute hides.

For n ranks and S bytes on each, over links of rate r(message) and latency l::

    one pass of a ring     (n-1)/n x S / r + (n-1) l      a reduce-scatter or an all-gather
    ring all-reduce        both   (Patarasuk and Yuan, doi:10.1016/j.jpdc.2008.09.002)
    all-to-all             (n-1)/n x S / r + l

``r`` is taken at S, the size that the published tables of collectives are listed by. The planner's
all-reduce inside a data centre and the rings of ``explore`` are the same pass.
"""

from geotrain.planning.costs.tiers import Tier, busiest
from geotrain.units import BitsPerSecond, Seconds


def ring_pass(size: float, ranks: int, rate: BitsPerSecond, latency: Seconds) -> Seconds:
    """Half an all-reduce of ``size`` bytes; ``latency`` is that of the whole way round."""
    if ranks < 2:
        return 0.0
    return (ranks - 1) / ranks * size * 8 / rate + latency


def all_reduce(size: float, ranks: int, tier: Tier) -> Seconds:
    """A ring over ``ranks`` that all see the same tier."""
    if size <= 0:
        return 0.0
    return 2 * ring_pass(size, ranks, tier.rate(size), (ranks - 1) * tier.latency)


def tensor_exchange(size: float, tensor: int, node: int, near: Tier, far: Tier) -> Seconds:
    """One all-reduce of a layer's ``size`` bytes in a tensor group.

    Wider than a node it crosses the data centre's tier with all of a node's links together.
    """
    if tensor <= node:
        return all_reduce(size, tensor, near)
    return all_reduce(size, node, near) + all_reduce(size, -(-tensor // node), far)


def all_to_all(size: float, ranks: int, node: int, near: Tier, far: Tier) -> Seconds:
    """Each of ``ranks`` sends ``size`` bytes, spread evenly over all; tiers work side by side."""
    if ranks < 2 or size <= 0:
        return 0.0
    apart = (1 - 1 / ranks) * size * 8 / near.rate(size)
    if ranks <= node:
        return apart + near.latency
    shared = busiest(far, node)
    leaving = (1 - node / ranks) * size * 8 / shared.rate(size)
    return max(apart + near.latency, leaving + shared.latency)


def data_all_reduce(
    size: float, data: int, tensor: int, node: int, near: Tier, far: Tier
) -> Seconds:
    """Gradients of ``size`` bytes on each device over ``data`` replicas of a tensor group.

    Tensor ranks are neighbours and replicas come next, as Megatron-LM numbers them. ``far`` is all
    of a node's links together: the rings of the devices beside it share them, and a ring passes
    each node once.
    """
    beside = max(1, node // tensor)
    if data <= beside:
        return all_reduce(size, data, near)
    return all_reduce(size, data, busiest(far, max(1, node // beside)))


def exposed(communication: Seconds, compute: Seconds, overlap: float = 1.0) -> Seconds:
    """What is left to wait for when a share of ``compute`` hides communication."""
    return max(0.0, communication - overlap * compute)
