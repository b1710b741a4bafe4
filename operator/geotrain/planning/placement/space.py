"""All placements of a job: every subset and order of data centres, every split, every degree.

A *route* is the data centres of a placement in pipeline order, each at most once, and neighbours
linked in both directions. A route of n data centres splits P stages into n parts of at least one
stage, as many as the free GPUs of each take. Interchangeable data centres (as many GPUs, and equal
in everything that costs) come in one order only: of the others a plan is the same but for names.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from geotrain.model.topology import DataCenter, Topology, WanLink
from geotrain.model.workload import Workload
from geotrain.planning.placement import faults

Segments = tuple[tuple[str, int], ...]
Route = tuple[str, ...]


class Space:
    """The placements that a job's policy allows, in a fixed order."""

    def __init__(self, topology: Topology, workload: Workload) -> None:
        self.workload = workload
        self.stages = workload.pipeline
        self.fixed: Segments = workload.fixed if workload.placement == "Fixed" else ()
        self.centers = _allowed(topology, workload)
        self.links: dict[tuple[str, str], WanLink] = {
            (link.source, link.target): link for link in topology.links
        }
        self.degrees = _degrees(self.centers, workload)
        self._room: dict[int, dict[str, int]] = {}

    def room(self, data: int) -> Mapping[str, int]:
        """By data centre, the largest first, the stages of a degree that its free GPUs take."""
        if data not in self._room:
            size = faults.stage_size(self.workload, data)
            self._room[data] = {center.name: center.gpus // size for center in self.centers}
        return self._room[data]

    def is_enough(self, route: Route, data: int) -> bool:
        """Whether the data centres of a route have room for all stages."""
        room = self.room(data)
        return sum(room[name] for name in route) >= self.stages

    def longer(self, route: Route, data: int) -> Iterator[Route]:
        """Routes with one data centre more at the end."""
        if len(route) == self.stages:
            return
        for name, places in self.room(data).items():
            if places and name not in route and (not route or self._is_linked(route[-1], name)):
                twins = self._twins.get(name, ())
                if all(twin in route for twin in twins):
                    yield (*route, name)

    def splits(self, route: Route, data: int) -> Iterator[Segments]:
        """All splits of the stages over a route; first those that fill the first data centres."""
        room = self.room(data)
        behind = [0]
        for name in reversed(route):
            behind.append(behind[-1] + room[name])
        yield from self._split(route, data, self.stages, behind[:-1])

    def _split(self, route: Route, data: int, stages: int, behind: list[int]) -> Iterator[Segments]:
        """Splits of so many stages; ``behind`` is the room behind each data centre, last first."""
        if not route:
            yield ()
            return
        rest = len(route) - 1
        most = min(self.room(data)[route[0]], stages - rest)
        for count in range(most, max(1, stages - behind[rest]) - 1, -1):
            for others in self._split(route[1:], data, stages - count, behind):
                yield ((route[0], count), *others)

    def _is_linked(self, one: str, other: str) -> bool:
        return (one, other) in self.links and (other, one) in self.links

    @cached_property
    def _twins(self) -> dict[str, tuple[str, ...]]:
        """By data centre, the interchangeable ones that come before it."""
        found: dict[str, tuple[str, ...]] = {}
        for number, center in enumerate(self.centers):
            found[center.name] = tuple(
                other.name for other in self.centers[:number] if self._is_alike(center, other)
            )
        return found

    def _is_alike(self, one: DataCenter, other: DataCenter) -> bool:
        if replace(one, name=other.name) != other:
            return False
        third = [c.name for c in self.centers if c.name not in (one.name, other.name)]
        ways = [((one.name, n), (other.name, n)) for n in third]
        ways += [(to[::-1], too[::-1]) for to, too in ways]
        ways.append(((one.name, other.name), (other.name, one.name)))
        return all(_rename(self.links.get(a)) == _rename(self.links.get(b)) for a, b in ways)


def _rename(link: WanLink | None) -> WanLink | None:
    return link and replace(link, source="", target="")


def _allowed(topology: Topology, workload: Workload) -> tuple[DataCenter, ...]:
    """The data centres that may be used, largest first, equal ones in name order."""
    names = workload.allowed
    if workload.placement == "Fixed":
        names = tuple(name for name, _ in workload.fixed)
    usable = [c for c in topology.data_centers if not names or c.name in names]
    return tuple(sorted(usable, key=lambda center: (-center.gpus, center.name)))


def _degrees(centers: tuple[DataCenter, ...], workload: Workload) -> tuple[int, ...]:
    """Data-parallel degrees to try; at least one where the batch divides, so that lacks show."""
    if workload.data is not None:
        return (workload.data,)
    gpus = sum(center.gpus for center in centers)
    most = max(1, gpus // (workload.tensor * workload.pipeline))
    batch = workload.global_batch // workload.micro_batch
    tried = range(1, min(most, batch) + 1) if workload.round_batch else _divisors(batch, most)
    return tuple(
        data
        for data in tried
        if workload.micro_batches(data) and faults.actions(workload, data) <= faults.MOST_ACTIONS
    )


def _divisors(number: int, most: int) -> tuple[int, ...]:
    small = [n for n in range(1, math.isqrt(number) + 1) if not number % n]
    found = {*small, *(number // n for n in small)}
    return tuple(sorted(n for n in found if n <= most))
