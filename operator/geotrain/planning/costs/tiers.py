"""Links by tier, from inside a node to the wide area, and what a message of some size gets of them.

A message takes ``latency + size / rate(size)``. Small messages reach less of a link's rate, in one
of two forms:

* Sailor's fits (Strati et al., arXiv 2504.17096; profiles of NCCL's send and receive): a polynomial
  of second degree in log2(size in MiB) gives GB/s, up to the most that was measured. A fit says
  nothing below 1 MiB or beyond its own maximum, so it is held constant there.
* points of a table, straight lines between them over log2(size). Below the first point the time
  stays that of the first, because latency rules there; beyond the last the rate stays.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from geotrain.errors import InputError
from geotrain.units import BitsPerSecond, Seconds

_MIB = 2**20
_BITS_PER_GB = 8e9


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
class Polynomial:
    """Sailor's fit: ``square x² + linear x + constant`` GB/s for x = log2(MiB)."""

    square: float
    linear: float
    constant: float
    most: BitsPerSecond

    def rate(self, size: float) -> BitsPerSecond:
        """Rate of a message of ``size`` bytes."""
        x = math.log2(max(size, _MIB) / _MIB)
        if self.square < 0:
            x = min(x, max(0.0, -self.linear / (2 * self.square)))
        return min(self.most, _BITS_PER_GB * ((self.square * x + self.linear) * x + self.constant))


@dataclass(frozen=True, slots=True)
class Points:
    """Measured: ascending sizes in bytes, and the rate that each reached."""

    sizes: tuple[float, ...]
    rates: tuple[BitsPerSecond, ...]

    def rate(self, size: float) -> BitsPerSecond:
        """Rate of a message of ``size`` bytes."""
        if size <= self.sizes[0]:
            return self.rates[0] * size / self.sizes[0]
        for i, upper in enumerate(self.sizes[1:], 1):
            if size <= upper:
                share = math.log2(size / self.sizes[i - 1]) / math.log2(upper / self.sizes[i - 1])
                return self.rates[i - 1] + share * (self.rates[i] - self.rates[i - 1])
        return self.rates[-1]


@dataclass(frozen=True, slots=True)
class Tier:
    """One kind of link; ``share`` is the part of it that a flow has to itself."""

    rates: Rates
    latency: Seconds = 0.0
    share: float = 1.0

    def seconds(self, size: float) -> Seconds:
        """From the first byte to the last byte's arrival."""
        return self.latency + self.occupancy(size)

    def occupancy(self, size: float) -> Seconds:
        """How long ``size`` bytes keep the link busy."""
        return size * 8 / (self.share * self.rates.rate(size))


def sailor_fit(content: Any) -> Polynomial:
    """Read one fit of Sailor's files, ``[[square, linear, constant], most bytes a second]``.

    Raises InputError where it is not of that form or gives no positive rate at 1 MiB.
    """
    try:
        (square, linear, constant), most = content
        fit = Polynomial(_number(square), _number(linear), _number(constant), 8 * _number(most))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"a network fit is [[a, b, c], bytes a second], not {_short(content)}"
        ) from error
    if fit.rate(_MIB) <= 0 or fit.rate(math.inf) <= 0:
        raise InputError(f"the network fit {_short(content)} gives no rate above 0")
    return fit


def sailor_node(content: Mapping[str, Any], accelerator: str, gpus: int) -> Polynomial:
    """One entry of Sailor's intra_node_bandwidths.json: ``gpus`` of a kind in one node.

    Raises InputError that names what is known where the entry is missing.
    """
    kinds = content.get(accelerator) if isinstance(content, Mapping) else None
    if not isinstance(kinds, Mapping):
        known = ", ".join(sorted(map(str, content))) if isinstance(content, Mapping) else "nothing"
        raise InputError(f"the file has no bandwidths of {accelerator!r}; it has {known}")
    if str(gpus) not in kinds:
        known = ", ".join(sorted(map(str, kinds)))
        raise InputError(f"{accelerator} is measured with {known} GPUs a node, not {gpus}")
    return sailor_fit(kinds[str(gpus)])


def busiest(tier: Tier, flows: int) -> Tier:
    """The tier as one of ``flows`` equal flows sees it."""
    return Tier(tier.rates, tier.latency, tier.share / flows)


def from_table(sizes: Sequence[float], seconds: Sequence[Seconds], volume: float) -> Points:
    """Points of a table of times, where each operation moves ``volume`` times its size."""
    rates = (8 * volume * size / time for size, time in zip(sizes, seconds, strict=True))
    return Points(tuple(map(float, sizes)), tuple(rates))


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("not a finite number")
    return float(value)


def _short(content: Any) -> str:
    text = repr(content)
    return text if len(text) <= 80 else f"{text[:77]}..."
