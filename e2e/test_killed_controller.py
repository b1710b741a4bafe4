"""The controller dies again and again while it places a gang; what comes of it is one gang."""

import random
import time
from collections.abc import Iterator

import pytest

from e2e import jobs
from e2e.jobs import EVERYWHERE, Job
from e2e.lab import SYSTEM, hub
from geotrain.api import labels

pytestmark = pytest.mark.e2e

KILLS = 10
SEED = 20
LONGEST_LIFE = 6.0  # seconds: a controller that starts anew has placed the whole gang by then


@pytest.fixture
def job(namespace: str) -> Iterator[Job]:
    """Six ranks in three data centres, just applied."""
    job = Job.applied(jobs.manifest(namespace, EVERYWHERE))
    yield job
    job.delete()
    jobs.await_nothing_left(namespace)


def test_killed_ten_times_it_converges_to_one_pod_a_rank(job: Job) -> None:
    chance = random.Random(SEED)
    revisions = 0
    for _ in range(KILLS):
        time.sleep(chance.uniform(0, LONGEST_LIFE))
        kill()
        if job.condition("PodsReady").get("status") == "True":
            # It was too fast for us: it has to place another gang.
            revisions += 1
            container = jobs.serving() | {"env": [{"name": "TURN", "value": str(revisions)}]}
            job.patch(template={"spec": {"containers": [container]}})
    pods = job.await_running(180)
    assert [pod["metadata"]["labels"][labels.RANK] for pod in pods] == list("012345")
    assert all(pod["status"]["phase"] == "Running" for pod in pods)
    revision = job.resource()["status"]["revision"]
    assert {pod["metadata"]["labels"][labels.REVISION] for pod in pods} == {revision}
    assert {pod["metadata"]["labels"][labels.ATTEMPT] for pod in pods} == {"0"}, "nothing failed"
    schedules = hub().list("bws", job.namespace)
    assert {each["spec"]["revision"] for each in schedules} == {revision}
    assert len(schedules) == 3


def kill() -> None:
    """End the controller's pod without a farewell, as a node that dies does."""
    hub().kubectl(
        "delete", "pod", "-n", SYSTEM, "-l", "app.kubernetes.io/component=controller",
        "--grace-period=0", "--force", "--wait=false",
    )  # fmt: skip
