"""A machine as nested tiers, and what collectives take over them.

A tier joins ``units`` units of the tier below: 8 devices a node, 256 nodes a zone, 2 zones a
building, 4 buildings a region. ``rate`` is what each device gets of the links that join these
units when all devices use them at once (an uplink of n devices carries n x rate: an
oversubscription of 8 divides the rate by 8), ``port`` the most that one device alone can use.

A group (the members of one parallel axis) is known by its *spread*: how many of its members lie
inside one unit of each tier. With m = members inside one unit of the tier below, d in all, and
every device of the machine in a sibling group that does the same at the same time:

* **Aware ring**: ordered by unit, so it leaves each unit once. The unit's uplink carries one edge
  a group, so an edge may use ``min(port, m x rate)``; latencies add up over the edges as they lie.
* **Oblivious ring**: in random order. ``m (d-m)/(d-1)`` edges of each group leave the unit, so
  each gets ``min(port, rate (d-1)/(d-m))``; the latency of an edge is the mean over all pairs.
* **All-to-all**: ``1 - m/d`` of what each device sends leaves the unit, at ``rate`` a device.
* **A pipeline's hop** between neighbouring stages crosses the tier where their digits differ. Of
  the m stages in a unit one sends over its border: ``min(port, m x rate)``.

A ring passes S bytes (all-gather or reduce-scatter) at its slowest edge's rate, as in
``costs.collectives``, and every rate counts with the transport's efficiency on that tier. Where
``inner`` says what the innermost tier is made of, groups inside it exchange as ``costs`` has it,
whatever the tier's rate.
"""

from dataclasses import dataclass
from math import fsum, inf, prod
from typing import Literal

from geotrain.planning.costs import collectives
from geotrain.planning.costs.calibrations import Node
from geotrain.planning.costs.collectives import ring_pass, tensor_exchange
from geotrain.units import BitsPerSecond, Seconds

Rings = Literal["aware", "oblivious"]

Spread = tuple[int, ...]
"""Members of a group inside one unit of each tier, innermost first; the last counts all."""


@dataclass(frozen=True, slots=True)
class Tier:
    """One level of the machine; ``port`` of None: a device never gets more than its share.

    ``shared``: the devices of a tensor group share a port, as the GPUs of a pod do, and their
    messages to the next stage go side by side with what they compute.
    """

    name: str
    units: int
    rate: BitsPerSecond
    latency: Seconds
    port: BitsPerSecond | None = None
    shared: bool = False

    def __post_init__(self) -> None:
        if self.units < 1:
            raise ValueError(f"tier {self.name!r} joins {self.units} units; give at least 1")
        if not 0 < self.rate < inf:
            raise ValueError(f"tier {self.name!r}: the rate must be finite and above 0")
        if not 0 <= self.latency < inf:
            raise ValueError(f"tier {self.name!r}: the latency must be finite and 0 or more")
        if self.port is not None and not self.rate <= self.port < inf:
            raise ValueError(f"tier {self.name!r}: the port must be finite and not below the rate")

    @property
    def most(self) -> BitsPerSecond:
        """What one device can use alone."""
        return self.rate if self.port is None else self.port


@dataclass(frozen=True, slots=True)
class Transport:
    """How messages are carried: the share of each tier's rate that they reach.

    ``compute`` is the share of the device's speed that the transport leaves (one whose kernels
    take processors of the device leaves less).
    """

    name: str
    efficiency: tuple[float, ...]
    compute: float = 1.0

    def __post_init__(self) -> None:
        for share in (*self.efficiency, self.compute):
            if not 0 < share <= 1:
                raise ValueError(f"transport {self.name!r}: {share} is no share in (0, 1]")


@dataclass(frozen=True, slots=True)
class Network:
    """Tiers from the inside out, the transports to choose from, and how rings are ordered."""

    tiers: tuple[Tier, ...]
    transports: tuple[Transport, ...]
    rings: Rings = "aware"
    inner: Node | None = None

    def __post_init__(self) -> None:
        if not self.tiers or not self.transports:
            raise ValueError("a network needs at least one tier and one transport")
        for transport in self.transports:
            if len(transport.efficiency) != len(self.tiers):
                raise ValueError(
                    f"transport {transport.name!r} has {len(transport.efficiency)} efficiencies "
                    f"for {len(self.tiers)} tiers; give one a tier"
                )

    @property
    def devices(self) -> int:
        """How many devices there are."""
        return prod(tier.units for tier in self.tiers)


@dataclass(frozen=True, slots=True)
class Ring:
    """A ring of ``size`` members: what its slowest edge carries, and one pass's latency.

    With a rate of 0 it exists only over ``inner``, where its members are neighbours in a node.
    """

    size: int
    rate: BitsPerSecond
    latency: Seconds
    inner: Node | None = None

    def seconds(self, size: float) -> Seconds:
        """One pass, an all-gather or a reduce-scatter of ``size`` bytes in all."""
        if self.size < 2:
            return 0.0
        slowest = ring_pass(size, self.size, self.rate, self.latency) if self.rate else inf
        if self.inner is None:
            return slowest
        node = self.inner
        return min(slowest, tensor_exchange(size, self.size, node.gpus, node.near, node.far) / 2)


def ring(network: Network, transport: Transport, spread: Spread) -> Ring:
    """The ring through a group."""
    size, below = spread[-1], 1
    if network.inner is not None and spread[0] == size > 1:
        return Ring(size, 0.0, 0.0, network.inner)
    rate, latency = inf, 0.0
    aware = network.rings == "aware"
    for tier, inside, efficiency in zip(network.tiers, spread, transport.efficiency, strict=True):
        if inside == below:
            continue
        lent = below if aware else (size - 1) / (size - below)
        rate = min(rate, efficiency * min(tier.most, lent * tier.rate))
        if aware:  # edges that end in another unit of the tier below, but in the same of this one
            edges = size / below - (size / inside if inside < size else 0)
            latency += edges * tier.latency * (size - 1) / size
        else:
            latency += (inside - below) * tier.latency
        below = inside
    return Ring(size, rate, latency)


@dataclass(frozen=True, slots=True)
class Exchange:
    """An all-to-all: seconds for each byte that a device sends, and its latency.

    ``within`` is the size of a group that is inside ``inner``, or might be.
    """

    per_byte: Seconds
    latency: Seconds
    inner: Node | None = None
    within: int = 1

    def seconds(self, size: float) -> Seconds:
        """What it takes when each device sends ``size`` bytes, spread evenly over the group."""
        if self.inner is None:
            return size * self.per_byte + self.latency
        node = self.inner
        near = collectives.all_to_all(size, self.within, node.gpus, node.near, node.far)
        return near if self.per_byte == inf else min(near, size * self.per_byte + self.latency)


def all_to_all(network: Network, transport: Transport, spread: Spread) -> Exchange:
    """The exchange inside a group; its tiers work side by side."""
    size, below = spread[-1], 1
    if network.inner is not None and spread[0] == size > 1:
        return Exchange(inf, 0.0, network.inner, size)
    per_byte, latency = 0.0, 0.0
    for tier, inside, efficiency in zip(network.tiers, spread, transport.efficiency, strict=True):
        if inside > below:
            per_byte = max(per_byte, (1 - below / size) * 8 / (tier.rate * efficiency))
            latency = max(latency, tier.latency)
            below = inside
    return Exchange(per_byte, latency)


@dataclass(frozen=True, slots=True)
class Border:
    """A boundary between neighbouring stages: rate and latency of a message over it."""

    rate: BitsPerSecond
    latency: Seconds
    is_wide: bool = False


@dataclass(frozen=True, slots=True)
class Way:
    """A pipeline's boundaries; the last leads from the last stage's device back to the first's.

    ``per_bit`` and ``latency`` add up what a message meets from the first device to the last.
    """

    borders: tuple[Border, ...]
    per_bit: Seconds
    latency: Seconds


def way(network: Network, transport: Transport, spread: Spread, tensor: int = 1) -> Way:
    """The boundaries of a pipeline of stages of ``tensor`` devices.

    Stages i and i+1 part at the outermost tier of which the units below hold a number of stages
    that divides i+1; the message passes the tiers inside as well, whose rates are not lower.
    """
    by_tier, below = [], 1
    for tier, inside, efficiency in zip(network.tiers, spread, transport.efficiency, strict=True):
        if inside > below:
            port = tier.most / (tensor if tier.shared else 1)
            rate = efficiency * min(port, below * tier.rate)
            by_tier.append((below, Border(rate, tier.latency, tier.shared)))
            below = inside
    found = []
    for after in range(1, spread[-1] + 1):
        crossed = [border for width, border in by_tier if after % width == 0]
        found.append(crossed[-1] if crossed else Border(inf, 0.0))
    inner = found[:-1]
    return Way(
        tuple(found),
        fsum(1 / border.rate for border in inner),
        fsum(border.latency for border in inner),
    )


def best_ring(network: Network, transports: tuple[Transport, ...], size: int) -> Ring:
    """A ring that no placement of a group of that size beats, whatever the transport.

    A group of d members spans at least one tier whose units hold d devices or that lies outside
    them; its slowest edge is not faster than a whole port there.
    """
    devices, rate = 1, 0.0
    for level, tier in enumerate(network.tiers):
        devices *= tier.units
        if devices >= size and not (level == 0 and network.inner):
            best = max(transport.efficiency[level] for transport in transports)
            rate = max(rate, best * tier.most)
    return Ring(size, rate, 0.0, _inner(network, size))


def _inner(network: Network, size: int) -> Node | None:
    """The innermost tier, where a group of that size may be inside it."""
    return network.inner if 1 < size <= network.tiers[0].units else None


def best_all_to_all(network: Network, transports: tuple[Transport, ...], size: int) -> Exchange:
    """An exchange that no placement of a group of that size beats."""
    if size == 1:
        return Exchange(0.0, 0.0)
    devices, per_byte = 1, inf
    for level, tier in enumerate(network.tiers):
        below, devices = devices, devices * tier.units
        if devices >= size and not (level == 0 and network.inner):
            best = max(transport.efficiency[level] for transport in transports)
            leaving = 1 - min(below / size, 0.5)
            per_byte = min(per_byte, leaving * 8 / (tier.rate * best))
    return Exchange(per_byte, 0.0, _inner(network, size), size)
