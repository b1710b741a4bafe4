"""Windows are more than a plan: what arrives follows them, through real sidecars and a real WAN."""

import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e import jobs, turns
from e2e.jobs import Job
from e2e.lab import LabError, hub, wait_for
from e2e.testbed import cpuwatch
from e2e.testbed.config import Bed
from geotrain.units import parse_duration

pytestmark = pytest.mark.e2e

ITERATIONS = 3
ATTEMPTS = 3
TARGETS = (2, 3)
MESSAGE = 4_500_000  # bytes: a window is then about 0.7 s, many round trips
SETTLE = 0.25  # seconds: what was sent in the last window is still on its way

Span = tuple[float, float]


@pytest.fixture(scope="module")
def job(shared_namespace: str) -> Iterator[Job]:
    """Two replicas of two stages; both send all the time, and each gets what its turn allows."""
    hub().apply(jobs.profile(shared_namespace, boundary=MESSAGE))
    container = jobs.serving() | {"command": ["python3", "-c", Path(turns.__file__).read_text()]}
    stages = {"dc-west": 1, "dc-central": 1}
    job = Job.applied(jobs.manifest(shared_namespace, stages, data=2, container=container))
    job.await_running()
    yield job
    job.delete()
    jobs.await_nothing_left(shared_namespace)


def test_a_flow_gets_much_in_its_window_and_little_in_anothers(job: Job) -> None:
    flows = windows(job)
    slices = received(job)
    for target, other in ((2, 3), (3, 2)):
        mine, theirs = rate(slices[target], flows[target]), rate(slices[target], flows[other])
        assert mine > 3 * theirs, f"rank {target}: {mine:.3g} in its window, {theirs:.3g} outside"


def test_in_its_window_a_flow_also_has_its_mates_path(job: Job, bed: Bed) -> None:
    """It carries more than its own path would; a figure that needs a machine with time to spare."""
    flows, idle = windows(job), []
    for _ in range(ATTEMPTS):
        begin = time.time()
        slices = received(job)
        idle.append(cpuwatch.headroom(begin, time.time() - bed.sample_every))
        rates = {target: rate(slices[target], flows[target]) for target in TARGETS}
        if all(each > 1.3 * bed.wan.pod_rate for each in rates.values()):
            return
        if (idle[-1] or 0) >= bed.minimum_idle:
            break
    pytest.fail(f"{rates} bit/s with one path carrying {bed.wan.pod_rate:.3g}; idle shares {idle}")


def windows(job: Job) -> dict[int, list[Span]]:
    """When each flow from dc-west has its turn, by the rank that it goes to."""
    spec = (hub().get("bws", f"{job.name}-dc-west", job.namespace) or {})["spec"]
    found: dict[int, list[Span]] = {}
    for flow in spec["flows"]:
        assert len(flow["mates"]) == 1
        its = [window for window in spec["windows"] if window["flow"] == flow["id"]]
        begins = [parse_duration(window["offset"]) for window in its]
        lengths = [parse_duration(window["length"]) for window in its]
        found[flow["target"]] = [(b, b + n) for b, n in zip(begins, lengths, strict=True)]
    assert sorted(found) == list(TARGETS)
    return found


def received(job: Job) -> dict[int, list[float]]:
    """Bytes that come to each rank in each slice of an iteration, over the next iterations."""
    before = {rank: told(job, rank, 0.0) for rank in TARGETS}
    slices = {}
    for rank in TARGETS:
        after = told(job, rank, before[rank]["iterations"] + ITERATIONS)
        passed = after["iterations"] - before[rank]["iterations"]
        pairs = zip(after["slices"], before[rank]["slices"], strict=True)
        slices[rank] = [(new - old) / passed for new, old in pairs]
    return slices


def told(job: Job, rank: int, iterations: float) -> dict[str, Any]:
    """What a rank has counted, once it has done so for so many iterations."""

    def look() -> dict[str, Any] | None:
        text = job.home(rank).kubectl("logs", "-n", job.namespace, f"{job.name}-r{rank}")
        lines = [line for line in text.splitlines() if line.startswith("{")]
        last = json.loads(lines[-1]) if lines else {"iterations": -1}
        return last if last["iterations"] >= iterations else None

    return dict(wait_for(f"{iterations:.1f} iterations of rank {rank}", look, 90, every=2))


def rate(slices: list[float], spans: Iterable[Span]) -> float:
    """Mean rate inside spans of the iteration, without their beginnings, in bit/s."""
    inside = [
        count
        for number, count in enumerate(slices)
        for begin, end in spans
        if begin + SETTLE <= number * turns.SLICE and (number + 1) * turns.SLICE <= end
    ]
    if not inside:
        raise LabError(f"no slice of {turns.SLICE} s lies inside of {list(spans)}")
    return 8 * sum(inside) / len(inside) / turns.SLICE
