"""A gang that has no room: somebody is told which data centre lacks what, and nothing is held."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from e2e import jobs
from e2e.jobs import EVERYWHERE, Job
from e2e.lab import SYSTEM, Cluster, hub, wait_for

pytestmark = pytest.mark.e2e

WITHIN = 30.0  # seconds in which a person is told why
TIGHT = "dc-east"


@pytest.mark.parametrize(
    ("stages", "data", "tensor", "lacking"),
    [({"dc-east": 1}, 5, 1, "dc-east"), ({"dc-west": 1, "dc-central": 1}, 1, 8, "dc-west")],
    ids=["more-ranks-than-gpus", "more-gpus-a-pod-than-a-node-has"],
)
def test_describe_says_which_data_centre_lacks_what(
    namespace: str, stages: dict[str, int], data: int, tensor: int, lacking: str
) -> None:
    begin = time.monotonic()
    parallelism = {"data": data, "pipeline": len(stages), "tensor": tensor}
    container = jobs.serving(gpus=tensor)
    job = Job.applied(
        jobs.manifest(namespace, stages, data=data, container=container, parallelism=parallelism)
    )
    said = job.await_reason("Planned", "NoFeasiblePlacement", WITHIN)
    assert time.monotonic() - begin < WITHIN
    assert lacking in said
    assert "GPU" in said
    described = hub().kubectl("describe", "gtj", job.name, "-n", namespace)
    assert said in described
    assert "Warning" in described, "the events tell it too"
    assert job.resource()["status"]["phase"] == "Pending"
    assert job.pods() == []
    job.delete()
    jobs.await_nothing_left(namespace)


def test_a_gang_that_loses_its_room_to_another_pod_is_taken_back(namespace: str) -> None:
    """It fits when its gates are lifted; before the scheduler binds it, somebody takes the GPUs."""
    with no_scheduler(TIGHT):
        job = Job.applied(jobs.manifest(namespace, EVERYWHERE, reserveTimeout="20s"))
        job.await_reason("Reserved", "GangReserved", 60)
        jobs.container_in(TIGHT, namespace, "thief", jobs.serving(gpus=3))
    try:
        said = job.await_event("ReserveTimeout", 60)
        assert "5 of 6 ran" in said
        assert "example.com/gpu" in said
        wait_for("end of the gang's pods", lambda: not running(job), WITHIN)
        # It plans again, and as long as there is no room it holds none.
        lacking = job.await_reason("Planned", "NoFeasiblePlacement", WITHIN)
        assert f"{TIGHT} has 1 free GPUs" in lacking
        jobs.await_nothing_left(namespace)
    finally:
        Cluster(TIGHT).delete("pod", "thief", namespace)
    assert len(job.await_running()) == 6
    job.delete()
    jobs.await_nothing_left(namespace)


def running(job: Job) -> list[str]:
    """Pods of the job that hold room."""
    return [pod["metadata"]["name"] for pod in job.pods() if pod["spec"].get("nodeName")]


@contextmanager
def no_scheduler(name: str) -> Iterator[None]:
    """Nobody binds geotrain's pods in a member meanwhile."""
    scale(name, 0)
    try:
        yield
    finally:
        scale(name, 1)


def scale(name: str, replicas: int) -> None:
    deployment = "deployment/geotrain-scheduler"
    member = Cluster(name)
    member.kubectl("scale", deployment, f"--replicas={replicas}", "-n", SYSTEM)
    if replicas:
        member.kubectl("rollout", "status", deployment, "-n", SYSTEM, "--timeout=90s")
    else:
        chosen = "app.kubernetes.io/component=scheduler"
        wait_for("end of the scheduler", lambda: not member.list("pods", SYSTEM, chosen), 60)


def test_a_pod_that_cannot_start_gives_the_whole_gang_back(namespace: str) -> None:
    """Bound and all: without its image one rank never runs, and the others do not wait for ever."""
    container = jobs.serving() | {"image": "geotrain:absent"}
    stages = {"dc-west": 1, "dc-central": 1}
    job = Job.applied(jobs.manifest(namespace, stages, container=container, reserveTimeout="20s"))
    said = job.await_reason("Reserved", "ReserveTimeout", 60)
    assert "0 of 2 ran" in said
    assert "ErrImageNeverPull" in said
    job.delete()
    jobs.await_nothing_left(namespace)
