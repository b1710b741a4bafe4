"""Windows are more than a plan: what arrives follows them, through real sidecars and a real WAN."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e import jobs, turns
from e2e.jobs import Job
from e2e.lab import hub, wait_for
from e2e.testbed import cpuwatch
from e2e.testbed.config import Bed

pytestmark = pytest.mark.e2e

ITERATIONS = 3
ATTEMPTS = 3
TARGETS = (2, 3)
MESSAGE = 4_500_000  # bytes: a window is then about 0.7 s, many round trips
LEADING = 0.7  # of the bytes of a moment, averaged over iterations that are not quite alike


@pytest.fixture(scope="module")
def job(shared_namespace: str) -> Iterator[Job]:
    """Two replicas of two stages; both want to send at once, and each gets what its turn allows."""
    hub().apply(jobs.profile(shared_namespace, boundary=MESSAGE))
    container = jobs.serving() | {"command": ["python3", "-c", Path(turns.__file__).read_text()]}
    stages = {"dc-west": 1, "dc-central": 1}
    job = Job.applied(jobs.manifest(shared_namespace, stages, data=2, container=container))
    job.await_running()
    yield job
    job.delete()
    jobs.await_nothing_left(shared_namespace)


def test_one_flow_at_a_time_has_most_of_the_paths(job: Job) -> None:
    """Both want to send all the time; side by side each would have half of every moment."""
    slices = received(job)
    moments = list(zip(*(slices[target] for target in TARGETS), strict=True))
    leading = sum(map(max, moments)) / sum(map(sum, moments))
    assert leading > LEADING, f"{leading:.2f} of the bytes were the leading flow's; {moments}"


def test_in_its_turn_a_flow_also_has_its_mates_path(job: Job, bed: Bed) -> None:
    """It carries more than its own path would; a figure that needs a machine with time to spare."""
    idle = []
    for _ in range(ATTEMPTS):
        begin = time.time()
        slices = received(job)
        idle.append(cpuwatch.headroom(begin, time.time() - bed.sample_every))
        rates = {target: fastest(slices[target]) for target in TARGETS}
        if all(each > 1.3 * bed.wan.pod_rate for each in rates.values()):
            return
        if (idle[-1] or 0) >= bed.minimum_idle:
            break
    pytest.fail(f"{rates} bit/s with one path carrying {bed.wan.pod_rate:.3g}; idle shares {idle}")


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


def fastest(slices: list[float]) -> float:
    """Mean rate in the fifth of the iteration in which most arrives, in bit/s."""
    best = sorted(slices)[-max(1, len(slices) // 5) :]
    return 8 * sum(best) / len(best) / turns.SLICE
