"""A release's life with a live job: upgrade and rollback touch no pod, uninstalling asks first.

Namespaces enforce Pod Security: what the chart installs fits "restricted".
"""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from e2e import install, jobs
from e2e.jobs import Job
from e2e.lab import DATA_CENTERS, HUB, SYSTEM, Cluster, LabError, hub, wait_for
from e2e.testbed.config import Bed
from geotrain.api import labels

pytestmark = pytest.mark.e2e

PAIR = {"dc-west": 1, "dc-east": 1}
ENFORCE = "pod-security.kubernetes.io/enforce"


@pytest.fixture(scope="module", autouse=True)
def restricted(geotrain: Bed) -> Iterator[None]:
    """geotrain's own namespace enforces "restricted" in every cluster."""
    for name in DATA_CENTERS:
        Cluster(name).kubectl("label", "ns", SYSTEM, f"{ENFORCE}=restricted", "--overwrite")
    yield
    for name in DATA_CENTERS:
        Cluster(name).kubectl("label", "ns", SYSTEM, f"{ENFORCE}-")


@pytest.fixture(scope="module")
def job(shared_namespace: str) -> Iterator[Job]:
    """Two ranks without sidecars, in namespaces that enforce "baseline"."""
    for name in DATA_CENTERS:
        level = f"{ENFORCE}=baseline"
        Cluster(name).kubectl("label", "ns", shared_namespace, level, "--overwrite")
    job = Job.applied(jobs.manifest(shared_namespace, PAIR, network={"enforcement": "None"}))
    yield job
    job.delete()


@pytest.fixture(scope="module", autouse=True)
def as_installed(restricted: None) -> Iterator[None]:
    """Whatever these tests leave, the next module finds geotrain as the others installed it."""
    yield
    for name in DATA_CENTERS:
        if status(name) == "uninstalling":
            stay(name)
    install.install()


def deployments() -> set[str]:
    return {d["metadata"]["name"] for d in hub().list("deploy", SYSTEM)}


def last(name: str) -> dict[str, Any]:
    """The last revision of a cluster's release, as Helm has it; empty where there is none."""
    try:
        text = Cluster(name).helm("history", "geotrain", "-n", SYSTEM, "--max", "1", "-o", "json")
    except LabError:
        return {}
    return dict(json.loads(text)[-1])


def status(name: str) -> str:
    return str(last(name).get("status", ""))


def stay(name: str, revision: int = 0) -> None:
    """Go back to a revision, by default the last one: what a refused uninstall names."""
    which = str(revision or last(name)["revision"])
    cluster = Cluster(name)
    cluster.helm("rollback", "geotrain", which, "-n", SYSTEM, "--wait", "--timeout", "3m")


def upgrade(*more: str) -> None:
    hub().helm(
        *("upgrade", "geotrain", str(install.CHART), "-n", SYSTEM, *install.values(HUB), *more),
        *("--wait", "--timeout", "3m"),
    )


def controller_pods() -> set[str]:
    found = hub().list("pods", SYSTEM, "app.kubernetes.io/component=controller")
    return jobs.uids([p for p in found if "deletionTimestamp" not in p["metadata"]])


def test_upgrade_and_rollback_change_no_pod_of_a_job(job: Job) -> None:
    before, controller = job.await_running(), controller_pods()
    first = last(HUB)["revision"]
    upgrade("--set", "hub.settings.controller.workers=5")
    assert controller_pods().isdisjoint(controller), "the controller was not replaced"
    assert jobs.uids(seen_anew(job, 3600)) == jobs.uids(before)
    stay(HUB, first)
    assert jobs.uids(seen_anew(job, 7200)) == jobs.uids(before)
    assert job.resource()["status"].get("observed", {}).get("restarts", 0) == 0


def seen_anew(job: Job, keep: int) -> list[dict[str, Any]]:
    """The pods once the controller has looked at a change that concerns none of them."""
    job.patch(ttlAfterFinished=f"{keep}s")
    return job.await_running()


def test_uninstalling_refuses_while_the_job_runs_and_says_how_to_go_on(job: Job) -> None:
    before = job.await_running()
    said = uninstall(HUB)
    assert f"{job.namespace}/{job.name}" in said
    stay(HUB)
    assert status(HUB) == "deployed"
    said = uninstall("dc-east")
    assert f"{job.namespace}/{job.name}: 1" in said
    stay("dc-east")
    assert jobs.uids(job.await_running()) == jobs.uids(before)


def uninstall(name: str) -> str:
    """Uninstall in a cluster, which must fail; gives all that Helm said."""
    try:
        said = Cluster(name).helm("uninstall", "geotrain", "-n", SYSTEM, "--timeout", "2m")
    except LabError as refused:
        logs = ("logs", "-n", SYSTEM, "job/geotrain-uninstall")
        return f"{refused}{Cluster(name).kubectl(*logs)}"
    raise AssertionError(f"it was uninstalled: {said}")


def test_drained_it_leaves_the_job_but_no_pod_and_no_stuck_namespace(job: Job) -> None:
    job.await_running()
    upgrade("--set", "uninstall=Drain")
    hub().helm("uninstall", "geotrain", "-n", SYSTEM, "--timeout", "3m")
    assert not deployments()
    assert job.resource()["spec"]["suspend"] is True
    assert labels.FINALIZER not in (job.resource()["metadata"].get("finalizers") or [])
    wait_for("empty clusters", lambda: not job.pods(), 30)
    install.install()
    job.patch(suspend=False)
    job.await_running()


def test_an_installation_that_was_cut_off_is_not_in_the_way_of_the_next() -> None:
    member = Cluster("dc-east")
    waits = ("--set", "image.tag=none", "--wait", "--timeout", "4m")
    with pytest.raises(subprocess.TimeoutExpired):
        member.helm(
            *("upgrade", "geotrain", str(install.CHART), "-n", SYSTEM),
            *(*install.values(member.name), *waits),
            timeout=5,
        )
    assert status(member.name) == "pending-upgrade"
    install.install()
    assert status(member.name) == "deployed"
