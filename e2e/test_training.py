"""The example's trainer, split over three data centres, learns what one process learns."""

import copy
import json
from typing import Any

import pytest

from e2e import jobs
from e2e.demo.training import manifest, with_iterations
from e2e.jobs import EVERYWHERE, Job
from e2e.lab import hub, run, wait_for
from e2e.testbed import images

pytestmark = pytest.mark.e2e

ITERATIONS = 20
SAME = 1e-4
REPLICAS, STAGES, BATCH = 2, 3, 8


def test_the_loss_is_that_of_a_single_process(namespace: str) -> None:
    job = Job.applied(training(namespace))
    wanted = alone()
    said = job.await_reason("Complete", "AllRanksSucceeded", 180)
    assert "all 6 ranks" in said
    for replica in range(REPLICAS):
        losses = {line["iteration"]: line["loss"] for line in logged(job, last_stage(replica))}
        assert list(losses) == list(range(ITERATIONS))
        for iteration, loss in losses.items():
            assert loss == pytest.approx(wanted[iteration], abs=SAME), iteration
    assert wanted[ITERATIONS - 1] < wanted[0], "it learns"
    pods = job.pods()
    assert [pod["status"]["phase"] for pod in pods] == ["Succeeded"] * 6, "kept for their logs"
    status = job.resource()["status"]
    assert status["phase"] == "Complete"
    assert status["observed"].get("restarts", 0) == 0
    job.patch(ttlAfterFinished="1s")  # it has finished longer ago: the controller deletes it
    wait_for("end of the job", lambda: hub().get("gtj", job.name, namespace) is None)
    jobs.await_nothing_left(namespace)


def last_stage(replica: int) -> int:
    return (STAGES - 1) * REPLICAS + replica


def training(namespace: str) -> dict[str, Any]:
    """The example's job, smaller."""
    job = copy.deepcopy(manifest())
    with_iterations(job, ITERATIONS)
    job["metadata"] = {"name": "gpt", "namespace": namespace}
    stages = [{"dataCenter": name, "stages": 1} for name in EVERYWHERE]
    job["spec"] |= {
        "profileRef": {"name": jobs.PROFILE},
        "parallelism": {"data": REPLICAS, "pipeline": STAGES},
        "batch": {"global": BATCH, "micro": 1},
        "placement": {"policy": "Fixed", "stages": stages},
    }
    return job


def alone() -> dict[int, float]:
    """The loss of each iteration where one process does it all, by iteration."""
    told = run(
        "docker", "run", "--rm", "--network=none",
        "--env", f"GEOTRAIN_PIPELINE={STAGES}", "--env", f"GEOTRAIN_DATA={REPLICAS}",
        "--env", f"GEOTRAIN_MICRO_BATCHES={BATCH // REPLICAS}", images.TRAINER,
        "python3", "-m", "examples.trainer", "--single-process", "--iterations", str(ITERATIONS),
    )  # fmt: skip
    return {line["iteration"]: line["loss"] for line in lines_of(told)}


def logged(job: Job, rank: int) -> list[dict[str, Any]]:
    """What a rank reported of its iterations."""
    name = f"{job.name}-r{rank}"
    told = job.home(rank).kubectl("logs", "-n", job.namespace, name, "-c", "trainer")
    return lines_of(told)


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]
