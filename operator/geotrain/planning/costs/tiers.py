"""Links by tier, and what a message of some size gets of them.

A message takes ``latency + size / rate(size)``: the same rate for all sizes, or points of a table.
"""

from dataclasses import dataclass
from typing import Protocol

from geotrain.model.topology import MessageRates
from geotrain.units import BitsPerSecond, Seconds


class Rates(Protocol):
    """What a message reaches of a link."""

    def rate(self, size: float) -> BitsPerSecond:
        """Rate of a message of ``size`` bytes."""
        ...


@dataclass(frozen=True, slots=True)
class Constant:
    """The same for every size."""

    most: BitsPerSecond

    def rate(self, size: float) -> BitsPerSecond:
        """Rate of a message of ``size`` bytes."""
        return self.most


@dataclass(frozen=True, slots=True)
class Tier:
    """One kind of link; ``share`` is the part of it that a flow has to itself."""

    rates: Rates
    latency: Seconds = 0.0
    share: float = 1.0

    def rate(self, size: float) -> BitsPerSecond:
        """What a flow's message of ``size`` bytes reaches."""
        return self.share * self.rates.rate(size)

    def occupancy(self, size: float) -> Seconds:
        """How long ``size`` bytes keep the link busy."""
        return size * 8 / self.rate(size)


def busiest(tier: Tier, flows: int) -> Tier:
    """The tier as one of ``flows`` equal flows sees it."""
    return Tier(tier.rates, tier.latency, tier.share / flows)


def scaled(rates: MessageRates, factor: float) -> MessageRates:
    """The same links made faster by a factor, whatever the message."""
    return MessageRates(rates.sizes, tuple(rate * factor for rate in rates.rates))
