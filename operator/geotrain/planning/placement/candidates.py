"""Which placements a search starts from, and those one step away from a placement.

The ATLAS rule (arXiv 2411.14458, algorithm 1): data centres by free GPUs, largest first, equal
ones in name order; each takes ``min(stages left, GPUs // (tensor x data))`` consecutive stages;
data and tensor parallelism never leave a data centre. With every data-parallel degree that is a
what-if, so that fewer data centres can win. A placement over three to six data centres is also
tried in the order with the least delay, because the rule's order ignores the links. Neighbours in
the pipeline must have a link in each direction. ``space`` has all other placements.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations

from geotrain.model.decision import NoPlan, Reason
from geotrain.model.plan import Placement
from geotrain.model.topology import DataCenter, Topology, WanLink
from geotrain.model.workload import Workload
from geotrain.planning.placement import faults
from geotrain.planning.placement.space import Segments, Space
from geotrain.units import Seconds, transfer_time

_MOST_REORDERED = 6


@dataclass(frozen=True, slots=True)
class Rejected:
    """A placement that cannot be, and why."""

    segments: Segments
    data: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Candidates:
    """What to try, in a fixed order; what was rejected; and reasons that rule out everything."""

    placements: tuple[Placement, ...]
    rejected: tuple[Rejected, ...] = ()
    reasons: tuple[Reason, ...] = ()


def candidates(topology: Topology, workload: Workload) -> Candidates:
    """The rule's placements that the policy allows and that fit into the free GPUs."""
    wrong = faults.faults(topology, workload)
    if wrong:
        return Candidates((), reasons=wrong)
    space = Space(topology, workload)
    if not space.degrees:
        return Candidates((), reasons=(faults.indivisible(workload),))
    shortest = _Shortest(topology, workload)
    found: dict[Placement, None] = {}
    rejected: dict[Rejected, None] = {}
    for data in space.degrees:
        for placement in _placements(shortest, space, data):
            missing = _missing_link(space, placement.segments)
            if missing is None:
                found.setdefault(placement)
            else:
                rejected.setdefault(Rejected(placement.segments, data, missing))
    is_short = not found and not rejected
    reasons = faults.shortage(space.centers, workload, space.degrees[0]) if is_short else ()
    return Candidates(tuple(found), tuple(rejected), reasons)


def _placements(shortest: "_Shortest", space: Space, data: int) -> Iterator[Placement]:
    room = space.room(data)
    if space.fixed:
        if all(count <= room[name] for name, count in space.fixed):
            yield Placement(space.fixed, data)
        return
    segments = _largest_first(space.centers, room, space.stages)
    if sum(count for _, count in segments) == space.stages:
        yield Placement(segments, data)
        if 2 < len(segments) <= _MOST_REORDERED:
            yield Placement(shortest.order(segments), data)


def neighbours(space: Space, placement: Placement) -> list[Placement]:
    """Placements one step away: a stage more or less here or there, other places, another order.

    None of them is one that the policy or the free GPUs rule out, or that crosses no link.
    """
    if space.fixed:
        return []
    room = space.room(placement.data)
    found: dict[Segments, None] = {}
    for segments in _steps(placement.segments, room):
        if all(count <= room[name] for name, count in segments):
            found.setdefault(segments)
    return [
        Placement(segments, placement.data)
        for segments in found
        if _missing_link(space, segments) is None
    ]


def _steps(segments: Segments, room: Mapping[str, int]) -> Iterator[Segments]:
    used = {name for name, _ in segments}
    unused = [name for name in room if name not in used]
    for i, (name, count) in enumerate(segments):
        rest = segments[:i] + segments[i + 1 :]
        for j, (other, more) in enumerate(rest):
            without = ((name, count - 1),) if count > 1 else ()
            grown = (*rest[:j], (other, more + 1), *rest[j + 1 :])
            yield grown[:i] + without + grown[i:]
        for other in unused:
            yield (*segments[:i], (other, count), *segments[i + 1 :])
            if count > 1:
                yield (*segments[:i], (name, count - 1), (other, 1), *segments[i + 1 :])
                yield (*segments[:i], (other, 1), (name, count - 1), *segments[i + 1 :])
        for j in range(i):
            swapped = list(segments)
            swapped[i], swapped[j] = swapped[j], swapped[i]
            yield tuple(swapped)


def _largest_first(centers: Sequence[DataCenter], room: Mapping[str, int], stages: int) -> Segments:
    segments = []
    for center in centers:
        taken = min(stages, room[center.name])
        stages -= taken
        if taken:
            segments.append((center.name, taken))
    return tuple(segments)


class _Shortest:
    """The order of data centres with the least delay, which no split of stages changes."""

    def __init__(self, topology: Topology, workload: Workload) -> None:
        self._links: dict[tuple[str, str], WanLink] = {
            (link.source, link.target): link for link in topology.links
        }
        self._size = workload.profile.boundary
        self._orders: dict[tuple[str, ...], tuple[int, ...]] = {}

    def order(self, segments: Segments) -> Segments:
        """The same segments; equal delays go by name."""
        names = tuple(name for name, _ in segments)
        if names not in self._orders:
            self._orders[names] = self._least(names)
        return tuple(segments[i] for i in self._orders[names])

    def _least(self, names: tuple[str, ...]) -> tuple[int, ...]:
        """Of a message's ways through the pipeline and back the one with the least delay."""
        both = [[self._between(a, b) + self._between(b, a) for b in names] for a in names]
        return min(
            permutations(range(len(names))),
            key=lambda order: (
                math.fsum(both[a][b] for a, b in pairwise(order)),
                [names[i] for i in order],
            ),
        )

    def _between(self, source: str, target: str) -> Seconds:
        link = self._links.get((source, target))
        if link is None:
            return math.inf
        return link.round_trip / 2 + transfer_time(self._size, link.message_rate(self._size))


def _missing_link(space: Space, segments: Segments) -> Reason | None:
    for (near, _), (far, _) in pairwise(segments):
        for source, target in ((near, far), (far, near)):
            if (source, target) not in space.links:
                sentence = f"there is no WanLink from {source} to {target}, which are neighbours"
                return Reason(NoPlan.LINK_MISSING, f"{sentence} in the pipeline")
    return None
