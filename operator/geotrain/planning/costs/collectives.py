"""Collectives over tiers of links, and how much of them compute hides.

For n ranks and S bytes on each, over links of rate r(message) and latency l::

    ring reduce-scatter, all-gather   (n-1)/n x S / r + (n-1) l
    ring all-reduce                   both   (Patarasuk and Yuan, doi:10.1016/j.jpdc.2008.09.002)
    all-to-all                        (n-1)/n x S / r + (n-1) l   (each sends 1/n to every other)

``r`` is taken at S, the size that the published tables of collectives are listed by. A hierarchical
all-reduce reduces and scatters inside each group, all-reduces one share between the groups on
every inner rank at once, and gathers inside again.
"""

from geotrain.planning.costs.tiers import Tier, busiest
from geotrain.units import Seconds


def reduce_scatter(size: float, ranks: int, tier: Tier) -> Seconds:
    """A ring's first half: each rank ends with the sum of its share. Also an all-gather."""
    if ranks < 2 or size <= 0:
        return 0.0
    return (ranks - 1) / ranks * tier.occupancy(size) + (ranks - 1) * tier.latency


all_gather = reduce_scatter


def all_reduce(size: float, ranks: int, tier: Tier) -> Seconds:
    """A ring over ``ranks`` that all see the same tier."""
    return reduce_scatter(size, ranks, tier) + all_gather(size, ranks, tier)


def hierarchical_all_reduce(size: float, inner: int, outer: int, near: Tier, far: Tier) -> Seconds:
    """Over ``outer`` groups of ``inner`` ranks; the inner ranks share a group's far link."""
    between = all_reduce(size / inner, outer, busiest(far, inner))
    return all_reduce(size, inner, near) + between


def all_to_all(size: float, ranks: int, tier: Tier) -> Seconds:
    """Each rank sends 1/n of its ``size`` bytes to every other."""
    return reduce_scatter(size, ranks, tier)


def tensor_exchange(size: float, tensor: int, node: int, near: Tier, far: Tier) -> Seconds:
    """One all-reduce of a layer's ``size`` bytes in a tensor group.

    Wider than a node it crosses the data centre's tier with all of a node's links together.
    """
    if tensor <= node:
        return all_reduce(size, tensor, near)
    return all_reduce(size, node, near) + all_reduce(size, -(-tensor // node), far)


def expert_exchange(
    tokens: int, hidden: int, value_bytes: int, *, chosen: int, experts: int, tier: Tier
) -> Seconds:
    """Dispatch and combine of a mixture-of-experts layer's forward over ``experts`` ranks.

    Each token goes to ``chosen`` experts and comes back (Lepikhin et al., arXiv 2006.16668).
    """
    return 2 * all_to_all(float(tokens * hidden * value_bytes * chosen), experts, tier)


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
