"""What can be chosen: degrees of the parallel axes, their place in the network, and the rest.

The axes tensor, context, pipeline and data multiply to the number of devices. Two groups are
parts of others: ``expert`` data replicas (times the tensor group) hold the experts of a layer
once, and ``shard`` data replicas share one copy of the other weights (FSDP, Zhao et al.,
arXiv 2304.11277). Both are the innermost part of the data axis.

A *placement* says which axis crosses which tier. Its ``nesting`` names the axes from the inside
out: each takes what it can of every tier before the next gets the rest. ``outer`` axes first take
what they can of the ``outer_tiers`` outermost tiers, and the rest of them nests: so a pipeline can
cross the buildings by four stages and have its other four inside a zone. The result is a table of
factors, one row an axis and one column a tier: rows multiply to the degrees, columns to the
tiers' units, so that every group is spread evenly.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, permutations
from math import gcd, isqrt, prod
from operator import mul
from typing import Final, Literal, get_args

from geotrain.planning.costs.memory import Recompute
from geotrain.planning.costs.shapes import Shape
from geotrain.planning.explore.network import Network, Spread

Axis = Literal["tensor", "context", "data", "pipeline"]
AXES: Final[tuple[Axis, ...]] = ("tensor", "context", "data", "pipeline")

Schedule = Literal["OneFOneB", "Interleaved"]

Factors = tuple[tuple[int, ...], ...]
"""For each axis of AXES, its factor on each tier from the inside out."""

Knob = Literal[
    "tensor",
    "context",
    "pipeline",
    "expert",
    "shard",
    "placement",
    "schedule",
    "micro-batch",
    "recompute",
    "transport",
]
KNOBS: Final[tuple[Knob, ...]] = get_args(Knob)
"""What counts as one axis of the search. The data degree is what the other degrees leave of the
devices, so it follows whenever one of them changes; schedule is the order with its chunks."""

DEGREES: Final[tuple[Knob, ...]] = ("tensor", "context", "pipeline", "expert", "shard")
"""The knobs that are degrees."""


@dataclass(frozen=True, slots=True, order=True)
class Degrees:
    """How many ways each axis splits the work."""

    tensor: int = 1
    context: int = 1
    data: int = 1
    pipeline: int = 1
    expert: int = 1
    shard: int = 1

    @property
    def devices(self) -> int:
        """Devices that a layout of these degrees uses."""
        return self.tensor * self.context * self.data * self.pipeline

    @property
    def axes(self) -> tuple[int, int, int, int]:
        """The degrees in the order of AXES."""
        return self.tensor, self.context, self.data, self.pipeline


@dataclass(frozen=True, slots=True, order=True)
class Placement:
    """Which axis crosses which tier (see above)."""

    nesting: tuple[Axis, ...] = ("tensor", "context", "pipeline", "data")
    outer: Axis | Literal[""] = ""
    outer_tiers: int = 0

    def __post_init__(self) -> None:
        if sorted(self.nesting) != sorted(AXES):
            raise ValueError(
                f"the nesting {', '.join(self.nesting) or '(empty)'} must name "
                f"{', '.join(AXES)} once each"
            )


@dataclass(frozen=True, slots=True, order=True)
class Layout:
    """Everything that the search chooses; ``chunks`` are the stages of one device."""

    degrees: Degrees
    placement: Placement = Placement()
    schedule: Schedule = "OneFOneB"
    chunks: int = 1
    micro_batch: int = 1
    recompute: Recompute = Recompute.NOTHING
    transport: str = ""

    @property
    def settings(self) -> tuple[object, ...]:
        """What each of KNOBS is set to."""
        return (
            self.degrees.tensor,
            self.degrees.context,
            self.degrees.pipeline,
            self.degrees.expert,
            self.degrees.shard,
            self.placement,
            (self.schedule, self.chunks),
            self.micro_batch,
            self.recompute,
            self.transport,
        )

    def differs(self, other: "Layout") -> tuple[Knob, ...]:
        """The knobs that two layouts turn differently."""
        both = zip(KNOBS, self.settings, other.settings, strict=True)
        return tuple(knob for knob, mine, theirs in both if mine != theirs)


def factors(network: Network, degrees: Degrees, placement: Placement) -> Factors:
    """The table of a placement. The degrees must multiply to the devices of the network."""
    left = dict(zip(AXES, degrees.axes, strict=True))
    units = [tier.units for tier in network.tiers]
    taken = {axis: [1] * len(units) for axis in AXES}

    def take(axis: Axis, tier: int) -> None:
        share = gcd(left[axis], units[tier])
        taken[axis][tier] *= share
        left[axis] //= share
        units[tier] //= share

    if placement.outer:
        for tier in range(len(units) - 1, len(units) - 1 - placement.outer_tiers, -1):
            take(placement.outer, tier)
    for tier in range(len(units)):
        for axis in placement.nesting:
            take(axis, tier)
    return tuple(tuple(taken[axis]) for axis in AXES)


def spread(row: tuple[int, ...]) -> Spread:
    """How many members of a group lie inside one unit of each tier."""
    return tuple(accumulate(row, mul))


def innermost(row: tuple[int, ...], size: int) -> tuple[int, ...]:
    """The factors of the innermost ``size`` members of an axis."""
    part = []
    for factor in row:
        share = gcd(size, factor)
        part.append(share)
        size //= share
    return tuple(part)


def times(*rows: tuple[int, ...]) -> tuple[int, ...]:
    """The factors of the group that several axes make together."""
    return tuple(map(prod, zip(*rows, strict=True)))


def without(row: tuple[int, ...], part: tuple[int, ...]) -> tuple[int, ...]:
    """The factors of the members of ``row`` that share one place in ``part``."""
    return tuple(whole // inner for whole, inner in zip(row, part, strict=True))


def placements(network: Network) -> tuple[Placement, ...]:
    """Every nesting, and every split of pipeline or data between outermost tiers and inside."""
    found = [Placement(nesting) for nesting in permutations(AXES)]
    inner: tuple[tuple[Axis, Axis], ...] = (("tensor", "context"), ("context", "tensor"))
    rest: tuple[tuple[Axis, Axis], ...] = (("data", "pipeline"), ("pipeline", "data"))
    for tiers in range(1, len(network.tiers)):
        found += [Placement((*first, *last), last[0], tiers) for first in inner for last in rest]
    return tuple(found)


def degrees(network: Network, shape: Shape, batch: int) -> Iterator[Degrees]:
    """Every way to split the work that comes out even.

    Tensor divides the heads, context the tokens of a sample, data the batch, and a pipeline has a
    layer a stage; the tensor groups of ``expert`` replicas hold as many whole experts each.
    """
    devices = network.devices
    for tensor in _divisors(gcd(devices, shape.heads)):
        for context in _divisors(gcd(devices // tensor, shape.sequence)):
            for pipeline in _divisors(devices // tensor // context):
                data = devices // tensor // context // pipeline
                if pipeline > shape.layers or batch % data:
                    continue
                for expert in _expert_degrees(shape, tensor, data):
                    for shard in _shard_degrees(network, data):
                        yield Degrees(tensor, context, data, pipeline, expert, shard)


def _expert_degrees(shape: Shape, tensor: int, data: int) -> list[int]:
    if shape.experts is None:
        return [1]
    if shape.experts.count % tensor:
        return []
    return _divisors(gcd(shape.experts.count // tensor, data))


def _shard_degrees(network: Network, data: int) -> list[int]:
    """No sharding, over all replicas, or over those that share a unit of an outer tier."""
    found, outside = {1, data}, 1
    for tier in reversed(network.tiers):
        outside *= tier.units
        found.add(data // gcd(data, outside))
    return sorted(found)


def _divisors(number: int) -> list[int]:
    small = [n for n in range(1, isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})
