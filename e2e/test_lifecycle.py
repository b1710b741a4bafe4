"""What becomes of a gang: lost pods, suspension, a changed spec, deletion."""

from collections.abc import Iterator

import pytest

from e2e import jobs
from e2e.jobs import Job
from e2e.lab import Cluster, hub, wait_for
from geotrain.api import labels

pytestmark = pytest.mark.e2e

PAIR = {"dc-west": 1, "dc-east": 1}


@pytest.fixture(scope="module")
def standing(shared_namespace: str) -> Iterator[Job]:
    """Two ranks in two data centres."""
    job = Job.applied(jobs.manifest(shared_namespace, PAIR))
    yield job
    job.delete()
    jobs.await_nothing_left(shared_namespace)


@pytest.fixture
def job(standing: Job) -> Job:
    """The same, running."""
    standing.await_running()
    return standing


def test_a_lost_pod_restarts_the_whole_gang_until_the_policy_gives_up(namespace: str) -> None:
    job = Job.applied(jobs.manifest(namespace, PAIR, failurePolicy={"maxRestarts": 1}))
    before = job.await_running()
    kill(job, 1)
    wait_for("second attempt", lambda: job.resource()["status"]["attempt"] == 1, 30, seen=job.why)
    after = job.await_running()
    assert not jobs.uids(before) & jobs.uids(after)
    assert {pod["metadata"]["labels"][labels.ATTEMPT] for pod in after} == {"1"}
    assert job.resource()["status"]["observed"]["restarts"] == 1
    kill(job, 0)
    said = job.await_reason("Failed", "MaxRestartsExceeded", 60)
    assert "gpt-r0 was deleted" in said
    assert job.resource()["status"]["phase"] == "Failed"
    wait_for("end of all pods", lambda: not job.pods(), 30)


def kill(job: Job, rank: int) -> None:
    job.home(rank).delete("pod", f"{job.name}-r{rank}", job.namespace, "--wait=false")


def test_suspended_it_holds_nothing_and_resumed_it_runs_again(job: Job) -> None:
    before = job.pods()
    job.patch(suspend=True)
    job.await_reason("Suspended", "Suspended")
    jobs.await_nothing_left(job.namespace)
    assert job.resource()["status"]["phase"] == "Suspended"
    job.patch(suspend=False)
    after = job.await_running()
    assert not jobs.uids(before) & jobs.uids(after)
    assert job.resource()["status"].get("observed", {}).get("restarts", 0) == 0


def test_a_changed_spec_replaces_all_pods(job: Job) -> None:
    before, revision = job.pods(), job.resource()["status"]["revision"]
    container = jobs.serving() | {"env": [{"name": "GREETING", "value": "hello"}]}
    job.patch(template={"spec": {"containers": [container]}})
    wait_for(
        "new revision",
        lambda: job.resource()["status"]["revision"] != revision,
        30,
        seen=job.why,
    )
    after = job.await_running()
    assert not jobs.uids(before) & jobs.uids(after)
    for pod in after:
        greeting = {e["name"]: e["value"] for e in pod["spec"]["containers"][0]["env"]}["GREETING"]
        assert greeting == "hello"
    assert job.resource()["status"].get("observed", {}).get("restarts", 0) == 0


def test_a_moved_stage_leaves_nothing_in_its_old_data_centre(job: Job) -> None:
    stages = [{"dataCenter": "dc-west", "stages": 1}, {"dataCenter": "dc-central", "stages": 1}]
    job.patch(placement={"policy": "Fixed", "stages": stages})
    wait_for(
        "pods in their new place",
        lambda: (
            [p["spec"].get("nodeName") for p in job.pods()]
            == ["dc-west-control-plane", "dc-central-control-plane"]
        ),
        90,
        seen=job.why,
    )
    job.await_running()
    wait_for("empty dc-east", lambda: "dc-east" not in jobs.held(job.namespace), 30)
    where = {each["spec"]["dataCenter"] for each in hub().list("bws", job.namespace)}
    assert where == {"dc-west", "dc-central"}


def test_whoever_deletes_it_waits_until_all_is_gone(namespace: str) -> None:
    """The finalizer holds the job until its members hold nothing; there is nothing to wait for."""
    job = Job.applied(jobs.manifest(namespace, PAIR))
    job.await_running()
    assert labels.FINALIZER in job.resource()["metadata"]["finalizers"]
    assert set(jobs.held(namespace)) == {"dc-west", "dc-central", "dc-east"}
    job.delete()
    assert jobs.held(namespace) == {}
    for name in PAIR:
        assert Cluster(name).list("pods", namespace) == []
