"""The layouts that a GeoTrainingJob can express.

A job has tensor, data and pipeline degrees, runs whole tensor groups on one node, keeps replicas of
a stage inside a data centre, and its ranks run one stage each. Its networks are those of
``regions``: node, data centre and, with several data centres, the wide area.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from geotrain.planning.costs.memory import Recompute
from geotrain.planning.explore.layouts import AXES, Axis, Degrees, Layout, Placement, factors
from geotrain.planning.explore.network import Network
from geotrain.planning.explore.search import Space

_NESTING: Final[tuple[Axis, ...]] = ("tensor", "context", "data", "pipeline")
_RECOMPUTES: Final = (Recompute.NOTHING, Recompute.ALL)
_WIDE: Final = 2
"""Tiers below the wide area."""


def foreign(network: Network, layout: Layout) -> Iterator[str]:
    """What of a layout no job can say, a phrase each."""
    split = layout.degrees
    for name, degree in (
        ("context", split.context),
        ("expert", split.expert),
        ("shard", split.shard),
    ):
        if degree > 1:
            yield f"{name} {degree}"
    if layout.chunks > 1:
        yield f"{layout.schedule} with {layout.chunks} chunks"
    if layout.recompute not in _RECOMPUTES:
        yield f"recompute {layout.recompute}"
    rows = dict(zip(AXES, factors(network, split, layout.placement), strict=True))
    if any(factor > 1 for factor in rows["tensor"][1:]):
        yield f"tensor {split.tensor} over several nodes"
    for axis in ("tensor", "context", "data"):
        if any(factor > 1 for factor in rows[axis][_WIDE:]):
            yield f"{axis} {getattr(split, axis)} over several data centres"


def expressible(network: Network, space: Space) -> Space:
    """The part of a space that jobs can express. It may be empty."""
    wide = network.tiers[_WIDE:]
    placement = Placement(_NESTING, "pipeline" if wide else "", len(wide))
    kept = [
        (each, turned)
        for each, turned in zip(space.degrees, space.turned, strict=True)
        if _can_be(network, each, placement)
    ]
    return replace(
        space,
        degrees=tuple(each for each, _ in kept),
        turned=tuple(turned for _, turned in kept),
        placements=(placement,),
        schedules=(("OneFOneB", 1),),
        recomputes=tuple(each for each in space.recomputes if each in _RECOMPUTES),
    )


def _can_be(network: Network, split: Degrees, placement: Placement) -> bool:
    return not any(foreign(network, Layout(split, placement)))
