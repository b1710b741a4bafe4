"""Namespaces that enforce a Pod Security level: which of geotrain's pods they take."""

import pytest

from e2e import jobs
from e2e.jobs import Job
from e2e.lab import DATA_CENTERS, Cluster, condition, hub, wait_for
from e2e.testbed.shell import each

pytestmark = pytest.mark.e2e

PAIR = {"dc-west": 1, "dc-east": 1}
CONFINED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


@pytest.fixture(scope="module")
def restricted(shared_namespace: str) -> str:
    """A namespace that takes only pods of the strictest level."""
    enforce(shared_namespace, "restricted")
    return shared_namespace


def enforce(namespace: str, level: str) -> None:
    label = f"pod-security.kubernetes.io/enforce={level}"
    each(
        DATA_CENTERS,
        lambda where: Cluster(where).kubectl("label", "--overwrite", "namespace", namespace, label),
    )


def test_a_confined_job_without_sidecars_runs_where_restricted_is_enforced(
    restricted: str,
) -> None:
    container = jobs.serving() | {"securityContext": CONFINED}
    network = {"enforcement": "None"}
    job = Job.applied(jobs.manifest(restricted, PAIR, container=container, network=network))
    assert len(job.await_running()) == 2
    job.delete()


def test_a_pools_router_runs_where_restricted_is_enforced(restricted: str) -> None:
    """It gets ready without capabilities, without root and with a root folder that is read-only."""
    times = '{"layers": 8, "layerTimes": [{"tokens": 512, "time": "1ms"}]}'
    hub().apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "prefill", "namespace": restricted},
            "data": {"prefill.json": times},
        },
        {
            "apiVersion": "geotrain.io/v1alpha1",
            "kind": "PrefillPool",
            "metadata": {"name": "chat", "namespace": restricted},
            "spec": {
                "trainingJobRef": {"name": "none"},
                "model": {"name": "chat"},
                "profileRef": {"name": "prefill"},
                "template": {"spec": jobs.pod_spec(jobs.serving(gpus=0))},
            },
        },
    )
    wait_for("Deployment chat-router", lambda: hub().get("deployment", "chat-router", restricted))
    ready = ("deployment/chat-router", "-n", restricted, "--for=condition=Available")
    hub().kubectl("wait", *ready, "--timeout=90s")
    said = condition(hub().get("pfp", "chat", restricted), "Serving")
    assert said["reason"] != "RouterNotReady" or "ready pod" in said["message"]
    hub().delete("pfp", "chat", restricted, "--timeout=60s")


def test_sidecars_need_a_privileged_namespace_and_the_condition_says_so(namespace: str) -> None:
    enforce(namespace, "baseline")
    job = Job.applied(jobs.manifest(namespace, PAIR))
    said = job.await_reason("Reserved", "PodSecurityRefused")
    assert f"namespace {namespace} in dc-" in said
    assert 'enforces Pod Security "baseline"' in said
    assert f"namespace {namespace} pod-security.kubernetes.io/enforce=privileged" in said
    enforce(namespace, "privileged")
    assert len(job.await_running()) == 2
    job.delete()
