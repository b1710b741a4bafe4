"""GPUs that a plan leaves idle, and which other degrees would use them.

A job fixes its pipeline degree, and often its data degree, so data centres may be left with fewer
GPUs than another stage needs. ``better`` tries the degrees that fill them: of each data degree the
longest pipeline that finds room, and the longest that divides the layers evenly. Patterns rank
them, as in ``what_if``, and the best is planned like the job itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isqrt, prod
from typing import Final

from geotrain.model.plan import Placement, Plan
from geotrain.model.topology import DataCenter, Topology
from geotrain.model.workload import Workload
from geotrain.planning.placement import what_if
from geotrain.planning.placement.choose import choose
from geotrain.units import Seconds

_CLEARLY: Final = 1.01
"""Other degrees have to be one per cent faster."""
_MOST_TRIED: Final = 64
"""Degrees, those that use most GPUs first."""


@dataclass(frozen=True, slots=True)
class Idle:
    """GPUs of a data centre that the plan does not use, and why."""

    data_center: str
    gpus: int
    why: str


@dataclass(frozen=True, slots=True)
class Better:
    """Other degrees, the GPUs that they use, and what they reach."""

    pipeline: int
    data: int
    gpus: int
    iteration: Seconds
    samples_per_second: float


def idle(topology: Topology, workload: Workload, placement: Placement) -> tuple[Idle, ...]:
    """What is left of each data centre, in name order."""
    return tuple(
        Idle(center.name, left, _why(topology, workload, placement, center))
        for center in sorted(topology.data_centers, key=lambda each: each.name)
        if (left := center.gpus - _used(workload, placement, center.name))
    )


def better(topology: Topology, workload: Workload, plan: Plan) -> Better | None:
    """The degrees that are faster with GPUs that the plan leaves idle; None where there are none.

    Only for throughput: more GPUs make a sample dearer, where prices are equal. A placement that
    the job fixes stays as it is.
    """
    if workload.placement == "Fixed" or workload.objective != "Throughput":
        return None
    most = plan.ranks * workload.tensor
    now = _patterns(topology, workload, plan.placement.stages, plan.placement.data)
    tried = sorted(set(_fuller(topology, workload, most)), key=lambda each: (-prod(each), each))
    found = [
        (outcome.samples_per_second, -number, outcome.placement)
        for number, (pipeline, data) in enumerate(tried[:_MOST_TRIED])
        if (outcome := _patterns(topology, workload, pipeline, data)) is not None
    ]
    if not found or now is None:
        return None
    rate, _, best = max(found, key=lambda each: each[:2])
    if rate < now.samples_per_second * _CLEARLY:
        return None
    return _planned(topology, _with(workload, best.stages, best.data), plan)


def _planned(topology: Topology, workload: Workload, plan: Plan) -> Better | None:
    found = choose(topology, workload)
    assert isinstance(found, Plan), "a pattern of it was replayed"
    mine, theirs = plan.alternatives[0], found.alternatives[0]
    if (theirs.samples_per_second or 0.0) < (mine.samples_per_second or 0.0) * _CLEARLY:
        return None
    return Better(
        found.placement.stages,
        found.placement.data,
        found.ranks * workload.tensor,
        found.iteration,
        theirs.samples_per_second or 0.0,
    )


def _fuller(topology: Topology, workload: Workload, most: int) -> Iterator[tuple[int, int]]:
    """Pipeline and data degrees that use more GPUs than ``most``."""
    layers, centers = len(workload.profile.layers), _allowed(topology, workload)
    free = sum(center.gpus for center in centers)
    for data in _divisors(workload.global_batch // workload.micro_batch):
        room = sum(center.gpus // (workload.tensor * data) for center in centers)
        longest = min(room, layers)
        even = next((n for n in range(longest, 0, -1) if not layers % n), 0)
        for pipeline in (longest, even):
            if most < pipeline * data * workload.tensor <= free:
                yield pipeline, data


def _divisors(number: int) -> list[int]:
    small = [n for n in range(1, isqrt(number) + 1) if not number % n]
    return sorted({*small, *(number // n for n in small)})


def _patterns(
    topology: Topology, workload: Workload, pipeline: int, data: int
) -> what_if.Outcome | None:
    found = what_if.what_if(topology, _with(workload, pipeline, data))
    return found[0] if found else None


def _with(workload: Workload, pipeline: int, data: int) -> Workload:
    return replace(workload, pipeline=pipeline, data=data)


def _allowed(topology: Topology, workload: Workload) -> Sequence[DataCenter]:
    names = workload.allowed
    return [center for center in topology.data_centers if not names or center.name in names]


def _used(workload: Workload, placement: Placement, name: str) -> int:
    stages = sum(count for center, count in placement.segments if center == name)
    return stages * placement.data * workload.tensor


def _why(topology: Topology, workload: Workload, placement: Placement, center: DataCenter) -> str:
    size = placement.data * workload.tensor
    if workload.allowed and center.name not in workload.allowed:
        return "placement.dataCenters does not name it"
    names = [name for name, _ in placement.segments]
    if workload.placement == "Fixed":
        return "placement.stages asks for no more of it"
    left = center.gpus - _used(workload, placement, center.name)
    if left < size:
        what = "another" if center.name in names else "one"
        return f"{what} stage needs {size} (tensor {workload.tensor} x data {placement.data})"
    if center.name in names:
        return f"all {workload.pipeline} stages have their place"
    links = {link.source for link in topology.links if link.target == center.name}
    links &= {link.target for link in topology.links if link.source == center.name}
    if not links.intersection(names):
        return f"no WanLink joins it with {' or '.join(names)}"
    return "stages in it would make no faster iteration"
