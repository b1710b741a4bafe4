"""Which placements are worth trying.

The ATLAS rule (arXiv 2411.14458, algorithm 1): data centres by free GPUs, largest first, equal
ones in name order; each takes ``min(stages left, GPUs // (tensor x data))`` consecutive stages;
data and tensor parallelism never leave a data centre. Every prefix of the list and every
data-parallel degree is a what-if, so that fewer data centres can win. A placement over three to
six data centres is also tried in the order with the least delay, because the rule's order ignores
the links. Neighbours in the pipeline must have a link in each direction. From the best of them the
search goes on to its ``neighbours``: any contiguous split and order can be reached.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations

from geotrain.model.decision import NoPlan, Reason
from geotrain.model.plan import Placement
from geotrain.model.topology import DataCenter, Topology, WanLink
from geotrain.model.workload import Workload
from geotrain.units import Seconds, transfer_time

_MOST_REORDERED = 6
_MOST_ACTIONS = 4_000_000
"""Forwards and backwards of one replica that a replay can be asked for: some minutes in Python."""

Segments = tuple[tuple[str, int], ...]
Links = Mapping[tuple[str, str], WanLink]


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
    """All placements that the policy allows and that fit into the free GPUs."""
    faults = (*_input_faults(workload), *_unknown(topology, workload))
    if faults:
        return Candidates((), reasons=faults)
    centers = _allowed(topology, workload)
    degrees = _degrees(centers, workload)
    if not degrees:
        return Candidates((), reasons=(_indivisible(workload),))
    links = {(link.source, link.target): link for link in topology.links}
    shortest = _Shortest(links, workload)
    found: dict[Placement, None] = {}
    rejected: dict[Rejected, None] = {}
    for data in degrees:
        for placement in _placements(shortest, centers, workload, data):
            missing = _missing_link(links, placement.segments)
            if missing is None:
                found.setdefault(placement)
            else:
                rejected.setdefault(Rejected(placement.segments, data, missing))
    reasons = () if found or rejected else shortage(centers, workload, degrees[0])
    return Candidates(tuple(found), tuple(rejected), reasons)


def shortage(centers: Sequence[DataCenter], workload: Workload, data: int) -> tuple[Reason, ...]:
    """Why the stages do not fit: first the whole, then each data centre that falls short."""
    needs = f"{_stage_size(workload, data)} (tensor {workload.tensor} x data {data})"
    wanted = dict(workload.fixed) if workload.placement == "Fixed" else {}
    lacks = [
        _lack(center, wanted.get(center.name, 1), _stage_size(workload, data), needs)
        for center in centers
    ]
    whole = f"{workload.pipeline} stages need {needs} GPUs each and do not fit: " + "; ".join(
        text for text, _ in lacks
    )
    details = [Reason(NoPlan.NO_FEASIBLE_PLACEMENT, text) for text, is_short in lacks if is_short]
    return (Reason(NoPlan.NO_FEASIBLE_PLACEMENT, whole), *details)


def _lack(center: DataCenter, wanted: int, size: int, needs: str) -> tuple[str, bool]:
    room = center.gpus // size
    free = f"{center.name} has {center.gpus} free GPUs"
    if not room:
        return f"{free} and one stage needs {needs}", True
    if room < wanted:
        return f"{free}, room for {room} of its {wanted} stages", True
    return f"{free}, room for {room} stages", False


def _stage_size(workload: Workload, data: int) -> int:
    return workload.tensor * data


def _input_faults(workload: Workload) -> Iterator[Reason]:
    layers = len(workload.profile.layers)
    least = min(
        workload.pipeline, workload.tensor, workload.global_batch, workload.micro_batch,
        *((workload.data,) if workload.data is not None else ()),
        *((workload.connections,) if workload.connections is not None else ()),
    )  # fmt: skip
    if least < 1:
        yield Reason(
            NoPlan.INVALID_PARALLELISM,
            f"pipeline, tensor, data, batch and connections must be at least 1; one is {least}",
        )
    elif workload.pipeline > layers:
        yield Reason(
            NoPlan.INVALID_PARALLELISM,
            f"{layers} layers cannot make {workload.pipeline} stages; every stage needs a layer",
        )
    elif workload.data is not None and not workload.micro_batches(workload.data):
        yield _indivisible(workload)
    else:
        yield from _too_long(workload)
    fixed = sum(count for _, count in workload.fixed)
    if workload.placement == "Fixed" and fixed != workload.pipeline:
        yield Reason(
            NoPlan.INVALID_PARALLELISM,
            f"the placement fixes {fixed} stages, but the pipeline has {workload.pipeline}",
        )


def _too_long(workload: Workload) -> Iterator[Reason]:
    """Whether even the shortest iteration of a replica has too many actions to replay."""
    most = workload.data or workload.global_batch // workload.micro_batch or 1
    actions = _actions(workload, most)
    if actions > _MOST_ACTIONS:
        yield Reason(
            NoPlan.INVALID_PARALLELISM,
            f"{actions} forwards and backwards a replica are more than the {_MOST_ACTIONS} that can"
            " be replayed; use larger micro-batches or more replicas",
        )


def _actions(workload: Workload, data: int) -> int:
    return 2 * workload.pipeline * workload.micro_batches(data)


def _indivisible(workload: Workload) -> Reason:
    degree = "any degree that fits" if workload.data is None else f"{workload.data} replicas"
    return Reason(
        NoPlan.INVALID_PARALLELISM,
        f"a global batch of {workload.global_batch} samples does not divide into micro-batches of "
        f"{workload.micro_batch} on {degree}",
    )


def _unknown(topology: Topology, workload: Workload) -> Iterator[Reason]:
    if not topology.data_centers:
        yield Reason(NoPlan.NO_DATA_CENTERS, "no data centre is known")
        return
    known = ", ".join(sorted(center.name for center in topology.data_centers))
    names = [name for name, _ in workload.fixed] if workload.placement == "Fixed" else []
    for name in dict.fromkeys([*workload.allowed, *names]):
        if topology.data_center(name) is None:
            yield Reason(
                NoPlan.UNKNOWN_DATA_CENTER, f"there is no data centre {name!r}; known: {known}"
            )


def _allowed(topology: Topology, workload: Workload) -> list[DataCenter]:
    """The data centres that may be used, largest first, equal ones in name order."""
    names = workload.allowed
    if workload.placement == "Fixed":
        names = tuple(name for name, _ in workload.fixed)
    usable = [c for c in topology.data_centers if not names or c.name in names]
    return sorted(usable, key=lambda center: (-center.gpus, center.name))


def _degrees(centers: Sequence[DataCenter], workload: Workload) -> list[int]:
    """Data-parallel degrees to try; at least one where the batch divides, so that lacks show."""
    if workload.data is not None:
        return [workload.data]
    gpus = sum(center.gpus for center in centers)
    most = max(1, gpus // (workload.tensor * workload.pipeline))
    batch = workload.global_batch // workload.micro_batch
    tried = range(1, min(most, batch) + 1) if workload.round_batch else _divisors(batch)
    return [
        data
        for data in tried
        if data <= most
        and workload.micro_batches(data)
        and _actions(workload, data) <= _MOST_ACTIONS
    ]


def _divisors(number: int) -> list[int]:
    small = [n for n in range(1, math.isqrt(number) + 1) if not number % n]
    return sorted({*small, *(number // n for n in small)})


def _placements(
    shortest: "_Shortest", centers: Sequence[DataCenter], workload: Workload, data: int
) -> Iterator[Placement]:
    room = {center.name: center.gpus // _stage_size(workload, data) for center in centers}
    if workload.placement == "Fixed":
        if all(count <= room[name] for name, count in workload.fixed):
            yield Placement(workload.fixed, data)
        return
    for used in range(1, len(centers) + 1):
        segments = _largest_first(centers[:used], room, workload.pipeline)
        if sum(count for _, count in segments) == workload.pipeline:
            yield Placement(segments, data)
            if 2 < len(segments) <= _MOST_REORDERED:
                yield Placement(shortest.order(segments), data)
            return  # a longer prefix has nothing left to take


def neighbours(topology: Topology, workload: Workload, placement: Placement) -> list[Placement]:
    """Placements one step away: a stage more or less here or there, other places, another order.

    None of them is one that the policy or the free GPUs rule out, or that crosses no link.
    """
    if workload.placement == "Fixed":
        return []
    links = {(link.source, link.target): link for link in topology.links}
    size = _stage_size(workload, placement.data)
    room = {center.name: center.gpus // size for center in _allowed(topology, workload)}
    found: dict[Segments, None] = {}
    for segments in _steps(placement.segments, room):
        if all(count <= room[name] for name, count in segments):
            found.setdefault(segments)
    return [
        Placement(segments, placement.data)
        for segments in found
        if _missing_link(links, segments) is None
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


def _largest_first(centers: Sequence[DataCenter], room: dict[str, int], stages: int) -> Segments:
    segments = []
    for center in centers:
        taken = min(stages, room[center.name])
        stages -= taken
        if taken:
            segments.append((center.name, taken))
    return tuple(segments)


class _Shortest:
    """The order of data centres with the least delay, which no split of stages changes."""

    def __init__(self, links: Links, workload: Workload) -> None:
        self._links, self._size = links, workload.profile.boundary
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


def _crossings(segments: Segments) -> Iterator[tuple[str, str]]:
    for (source, _), (target, _) in pairwise(segments):
        yield source, target
        yield target, source


def _missing_link(links: Links, segments: Segments) -> Reason | None:
    for source, target in _crossings(segments):
        if (source, target) not in links:
            sentence = f"there is no WanLink from {source} to {target}, which are neighbours"
            return Reason(NoPlan.LINK_MISSING, f"{sentence} in the pipeline")
    return None
