"""Prefill lives beside training only as long as no gang needs its room."""

from collections.abc import Iterator
from typing import Any

import pytest

from e2e import jobs
from e2e.jobs import Job
from e2e.lab import Cluster, condition, hub, wait_for
from geotrain.api import labels

pytestmark = pytest.mark.e2e

PLACE = "dc-east"
POOL = "chat"
SPARE = 200  # CPU in thousandths that nobody asks for


@pytest.fixture
def bound(namespace: str) -> Iterator[Job]:
    """A job of one rank in one data centre, and a prefill worker beside it on most of the CPU."""
    job = Job.applied(jobs.manifest(namespace, {PLACE: 1}, name="first"))
    job.await_running()
    hub().apply(profile(namespace), pool(namespace, free_cpu() - SPARE))
    wait_for("worker that runs", lambda: phases(namespace) == ["Running"], 60, seen=why(namespace))
    yield job
    hub().delete("pfp", POOL, namespace)
    job.delete()
    jobs.await_nothing_left(namespace)


def test_a_gang_that_needs_the_room_of_prefill_gets_it(bound: Job, namespace: str) -> None:
    (worker,) = workers(namespace)
    assert worker["metadata"]["labels"][labels.BESIDE_RANK] == "0"
    beside = jobs.uids(bound.pods())
    # More than is spare, and less than is spare once prefill is gone.
    gang = jobs.manifest(
        namespace, {PLACE: 1}, name="second", container=jobs.serving(cpu=f"{2 * SPARE}m")
    )
    second = Job.applied(gang)
    second.await_running()
    assert worker["metadata"]["uid"] not in jobs.uids(running(namespace)), "prefill went"
    assert jobs.uids(bound.pods()) == beside, "and no training pod did"
    assert bound.condition("PodsReady")["status"] == "True"
    said = wait_for("word in the pool", lambda: unserved(namespace), 60, seen=why(namespace))
    assert said["message"]
    # The room is free again, and prefill comes back.
    second.delete()
    wait_for("prefill's return", lambda: running(namespace), 90, seen=why(namespace))


def test_the_board_shows_the_pool(bound: Job, namespace: str) -> None:
    title, line = hub().kubectl("get", "pfp", "-n", namespace).splitlines()
    shown = dict(zip(title.split(), line.split(), strict=False))
    assert shown["NAME"] == POOL
    assert shown["JOB"] == bound.name
    assert shown["PHASE"] not in ("<none>", "<unknown>", "")


def profile(namespace: str) -> dict[str, Any]:
    times = '{"layers": 8, "layerTimes": [{"tokens": 512, "time": "1ms"}]}'
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "prefill", "namespace": namespace},
        "data": {"prefill.json": times},
    }


def pool(namespace: str, cpu: int) -> dict[str, Any]:
    """A pool whose workers ask for ``cpu`` thousandths of a core."""
    worker = jobs.serving(cpu=f"{cpu}m", gpus=0) | {"name": "worker"}
    return {
        "apiVersion": "geotrain.io/v1alpha1",
        "kind": "PrefillPool",
        "metadata": {"name": POOL, "namespace": namespace},
        "spec": {
            "trainingJobRef": {"name": "first"},
            "model": {"name": "chat"},
            "profileRef": {"name": "prefill"},
            "template": {"spec": jobs.pod_spec(worker)},
        },
    }


def workers(namespace: str) -> list[dict[str, Any]]:
    return Cluster(PLACE).list("pods", namespace, f"{labels.ROLE}={labels.ROLE_PREFILL}")


def running(namespace: str) -> list[dict[str, Any]]:
    return [pod for pod in workers(namespace) if pod["status"]["phase"] == "Running"]


def phases(namespace: str) -> list[str]:
    return [pod["status"]["phase"] for pod in workers(namespace)]


def unserved(namespace: str) -> dict[str, Any] | None:
    found = condition(hub().get("pfp", POOL, namespace), "Serving")
    return found if found.get("status") == "False" else None


def why(namespace: str) -> Any:
    return lambda: str((hub().get("pfp", POOL, namespace) or {}).get("status"))


def free_cpu() -> int:
    """CPU of the node that no pod has asked for, in thousandths."""
    (node,) = Cluster(PLACE).list("nodes")
    taken = sum(
        thousandths(container.get("resources", {}).get("requests", {}).get("cpu", "0"))
        for pod in Cluster(PLACE).list("pods")
        if pod["status"]["phase"] in ("Pending", "Running") and pod["spec"].get("nodeName")
        for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ()))
    )
    return thousandths(node["status"]["allocatable"]["cpu"]) - taken


def thousandths(cpu: str) -> int:
    return int(cpu[:-1]) if cpu.endswith("m") else int(float(cpu) * 1000)
