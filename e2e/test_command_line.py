"""A live job as a person looks at it: explain, logs over all clusters, links and top."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from e2e import jobs
from e2e.jobs import EVERYWHERE, Job
from e2e.lab import DATA_CENTERS, HUB, ROOT, Cluster, programs, wait_for

pytestmark = pytest.mark.e2e

GEOTRAIN = [sys.executable, "-c", "from geotrain.cli.main import main; main()"]
TALKING = (
    "import os, time\n"
    "print('rank', os.environ['RANK'], 'of attempt', os.environ['GEOTRAIN_ATTEMPT'], flush=True)\n"
    "time.sleep(3600)\n"
)


def geotrain(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the command with the user's kubeconfig, which has a context for each cluster."""
    return subprocess.run(
        [*GEOTRAIN, *arguments, "--hub-context", Cluster(HUB).context],
        capture_output=True, text=True, timeout=120, env=programs(), cwd=ROOT, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def job(shared_namespace: str) -> Iterator[Job]:
    """Six ranks in three data centres, each of which says a line and waits."""
    talking = {**jobs.serving(), "command": ["python3", "-c", TALKING]}
    made = Job.applied(jobs.manifest(shared_namespace, EVERYWHERE, container=talking))
    made.await_running()
    yield made
    made.delete()
    jobs.await_nothing_left(shared_namespace)


def explained(job: Job, *options: str) -> dict[str, Any]:
    done = geotrain("explain", job.name, "-n", job.namespace, "-o", "json", *options)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def codes(document: dict[str, Any]) -> set[str]:
    return {each["code"] for part in document["sections"] for each in part["findings"]}


def test_explain_replays_the_plan_and_finds_the_members(job: Job) -> None:
    found = explained(job)
    assert [part["title"] for part in found["sections"]] == ["Why here", "Why slow"]
    said = " ".join(f["sentence"] for part in found["sections"] for f in part["findings"])
    assert "(by replay)" in said
    assert "NotLooked" not in codes(found)  # all three clusters were looked into
    assert "Fixed" in codes(found)


def test_logs_come_from_every_cluster(job: Job) -> None:
    done = geotrain("logs", job.name, "-n", job.namespace, "--tail", "1")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sorted(line.split("] ")[1].strip() for line in lines) == [
        f"rank {rank} of attempt 0" for rank in range(6)
    ]
    assert {line.split()[1].rstrip("]") for line in lines} == set(DATA_CENTERS)
    chosen = ["--rank", "5", "-c", "geotrain-sidecar", "--tail", "1"]
    assert geotrain("logs", job.name, "-n", job.namespace, *chosen).returncode == 0


def test_links_and_top_show_the_job(job: Job) -> None:
    name = f"{job.namespace}/{job.name}"
    items = json.loads(geotrain("links", "-o", "json").stdout)["items"]
    using = [link for link in items if name in {use["job"] for use in link["jobs"]}]
    assert len(using) == 2
    assert all(use["planned"] for link in using for use in link["jobs"] if use["job"] == name)
    shown = json.loads(geotrain("top", "-n", job.namespace, "-o", "json").stdout)
    assert [(each["name"], each["phase"], each["gpus"]) for each in shown["jobs"]] == [
        (job.name, "Running", 6)
    ]
    wait_for("each data centre's used GPUs", lambda: min(used_gpus().values()) >= 2)


def used_gpus() -> dict[str, int]:
    """As the controller saw them at its latest contact."""
    shown = json.loads(geotrain("top", "dc", "-o", "json").stdout)["dataCenters"]
    return {each["name"]: each["usedGpus"] for each in shown}


def test_a_job_that_cannot_run_says_what_is_lacking(job: Job, namespace: str) -> None:
    wide = {"dc-west": 50, "dc-central": 50}
    waiting = Job.applied(jobs.manifest(namespace, wide, profileRef={"name": "nowhere"}))
    waiting.await_reason("Planned", "ProfileMissing")
    found = explained(waiting)
    assert found["sections"][0]["title"] == "Why it does not run"
    assert "ProfileMissing" in codes(found)
