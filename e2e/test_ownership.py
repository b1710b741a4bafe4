"""What users have under names that a job needs outlives the job, and the job says what to do."""

from collections.abc import Iterator
from typing import Any

import pytest

from e2e import jobs
from e2e.jobs import Job
from e2e.lab import Cluster, hub, wait_for

pytestmark = pytest.mark.e2e

PAIR = {"dc-west": 1, "dc-east": 1}
MINE = {"app": "mine"}


@pytest.fixture
def theirs(namespace: str) -> Iterator[dict[tuple[str, str], str]]:
    """A Service with the job's name and a pod with a rank's, with their uids."""
    meta = {"namespace": namespace, "labels": MINE}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "gpt", **meta},
        "spec": {"clusterIP": "None", "selector": MINE, "ports": [{"port": 5432}]},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "gpt-r1", **meta},
        "spec": jobs.pod_spec(jobs.serving(gpus=0)),
    }
    Cluster("dc-west").apply(service)
    Cluster("dc-east").apply(pod)
    put = {
        ("dc-west", "service/gpt"): identity("dc-west", "service/gpt", namespace),
        ("dc-east", "pod/gpt-r1"): identity("dc-east", "pod/gpt-r1", namespace),
    }
    yield put

    for center, name in put:
        Cluster(center).delete(*name.split("/"), namespace)


def identity(center: str, name: str, namespace: str) -> str:
    """Uid, labels and whether it is being deleted, as kubectl tells."""
    path = "{.metadata.uid} {.metadata.labels} {.metadata.deletionTimestamp}"
    return Cluster(center).kubectl("get", name, "-n", namespace, "-o", f"jsonpath={path}")


def seen(put: dict[tuple[str, str], str], namespace: str) -> dict[Any, str]:
    return {(center, name): identity(center, name, namespace) for center, name in put}


def described(namespace: str) -> str:
    return " ".join(hub().kubectl("describe", "gtj", "gpt", "-n", namespace).split())


def test_users_objects_outlive_the_job_that_needs_their_names(
    namespace: str, theirs: dict[tuple[str, str], str]
) -> None:
    job = Job.applied(jobs.manifest(namespace, PAIR))

    def told(what: str) -> None:
        wait_for(what, lambda: what in described(namespace), 60, seen=job.why)
        assert "NameTaken" in described(namespace)
        assert "rename the job or remove that object" in described(namespace)

    told(f"Pod {namespace}/gpt-r1 in dc-east")
    assert seen(theirs, namespace) == theirs
    assert job.pods() == []

    Cluster("dc-east").delete("pod", "gpt-r1", namespace)
    del theirs["dc-east", "pod/gpt-r1"]
    told(f"Service {namespace}/gpt in dc-west")
    assert seen(theirs, namespace) == theirs
    wait_for("nothing made in vain", lambda: not jobs.held(namespace), 30, seen=job.why)

    job.delete()
    assert seen(theirs, namespace) == theirs
    jobs.await_nothing_left(namespace)

    Cluster("dc-west").delete("service", "gpt", namespace)
    del theirs["dc-west", "service/gpt"]
    job = Job.applied(jobs.manifest(namespace, PAIR))
    job.await_running()
    job.patch(suspend=True)
    said = wait_for(
        "a word while pods end, or their end",
        lambda: job.condition("Suspended").get("message"),
        30,
        seen=job.why,
    )
    assert said.startswith("Suspending: ") or said == "held by spec.suspend"
    job.await_reason("Suspended", "Suspended")
    assert job.pods() == []
    job.delete()
    jobs.await_nothing_left(namespace)
