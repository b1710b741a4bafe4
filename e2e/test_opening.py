"""A member's people open a namespace; and the pods of one data centre differ from the others'."""

import shlex

import pytest

from e2e import jobs
from e2e.jobs import Job
from e2e.lab import Cluster, wait_for
from geotrain.api import labels

pytestmark = pytest.mark.e2e

SHUT = "dc-east"
STAGES = {"dc-central": 1, "dc-east": 1}
OVERRIDE = {
    "dataCenter": SHUT,
    "env": [{"name": "FABRIC", "value": "rdma"}],
    "tolerations": [{"key": "example.com/rdma", "operator": "Exists"}],
    "annotations": {"example.com/networks": "rdma"},
    "volumes": [{"name": "scratch", "emptyDir": {}}],
    "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
}


def test_a_job_waits_until_its_namespace_is_opened_and_differs_where_it_should(
    namespace: str,
) -> None:
    member = Cluster(SHUT)
    member.kubectl("label", "namespace", namespace, f"{labels.ENABLED}-")
    job = Job.applied(jobs.manifest(namespace, STAGES, overrides=[OVERRIDE]))
    said = job.await_reason("Reserved", "NamespaceNotEnabled")
    assert said.startswith(f"{SHUT}: ")
    assert jobs.held(namespace).keys() <= {"dc-central"}, "nothing is made where it is shut"
    assert job.pods() == []

    program, *command = shlex.split(said.partition("in its cluster run: ")[2])
    assert program == "kubectl"
    member.kubectl(*command)  # word for word as the condition has it
    wait_for("pods", lambda: len(job.pods()) == 2, 15, seen=job.why)
    plain, other = job.await_running()
    assert other["metadata"]["annotations"]["example.com/networks"] == "rdma"
    assert "example.com/networks" not in plain["metadata"].get("annotations", {})
    for pod, is_other in ((plain, False), (other, True)):
        (trainer,) = pod["spec"]["containers"]
        assert ("FABRIC" in [each["name"] for each in trainer["env"]]) == is_other
        assert ("/scratch" in [m["mountPath"] for m in trainer["volumeMounts"]]) == is_other
        keys = [each.get("key") for each in pod["spec"].get("tolerations", [])]
        assert ("example.com/rdma" in keys) == is_other
        assert pod["spec"]["automountServiceAccountToken"] is False

    member.kubectl("label", "namespace", namespace, f"{labels.ENABLED}-")
    job.await_reason("NamespacesEnabled", "NamespaceNotEnabled")
    assert jobs.uids(job.pods()) == jobs.uids([plain, other]), "what runs keeps running"
    job.delete()
    jobs.await_nothing_left(namespace)
