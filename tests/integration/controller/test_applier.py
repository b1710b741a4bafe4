"""What a decision does to a real API server, and to the fake that stands for it elsewhere."""

import dataclasses
from pathlib import Path

import pytest

from geotrain.adapters.clock import SystemClock
from geotrain.api.objects import CONFIG_MAPS, PODS, TRAINING_JOBS
from geotrain.errors import Invalid
from geotrain.roles.controller.apply import Applier, Target
from geotrain.roles.controller.decision import HUB, Decision, Reference
from support import manifests

pytestmark = pytest.mark.controlplane

CRD = Path(__file__).parents[3] / "crds/geotrain.io_geotrainingjobs.yaml"
SUBJECT = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "subject", "namespace": "team-a"},
}
ROUTER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "router", "namespace": "team-a", "annotations": {"kept": "yes"}},
    "spec": {"containers": [{"name": "main", "image": "example.com/none"}]},
}


@pytest.fixture
async def carry_out(cluster):
    subject = await cluster.create(CONFIG_MAPS, SUBJECT)

    async def carry_out(decision):
        await applier(cluster).apply(CONFIG_MAPS, subject, decision)

    return carry_out


def applier(cluster):
    return Applier(lambda _: Target(cluster), SystemClock())


async def annotations(cluster):
    return (await cluster.get(PODS, "team-a", "router"))["metadata"]["annotations"]


async def test_annotations_are_set_and_others_stay(cluster, carry_out):
    pod = Reference.of(HUB, await cluster.create(PODS, ROUTER))
    await carry_out(Decision(annotate={pod: {"geotrain.io/routes": "a1"}}))
    await carry_out(Decision(annotate={pod: {"geotrain.io/routes": "b2"}}))
    assert await annotations(cluster) == {"kept": "yes", "geotrain.io/routes": "b2"}


async def test_a_pod_that_took_the_name_of_the_meant_one_is_not_annotated(cluster, carry_out):
    pod = Reference.of(HUB, await cluster.create(PODS, ROUTER))
    other = dataclasses.replace(pod, uid="3c1f4e0a-0000-4000-8000-000000000000")
    await carry_out(Decision(annotate={other: {"geotrain.io/routes": "a1"}}))
    assert await annotations(cluster) == {"kept": "yes"}


async def test_a_pod_that_went_is_not_missed(cluster, carry_out):
    pod = Reference.of(HUB, await cluster.create(PODS, ROUTER))
    await cluster.delete(PODS, "team-a", "router", grace=0)
    await carry_out(Decision(annotate={pod: {"geotrain.io/routes": "a1"}}))


@pytest.fixture
async def jobs(hub_plane, hub):
    """An API server that knows GeoTrainingJobs."""
    hub_plane.kubectl("apply", "--server-side", "-f", str(CRD))
    hub_plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    yield hub
    await hub.delete(TRAINING_JOBS, "team-a", "gpt")


async def test_a_job_that_was_made_anew_meanwhile_is_not_given_the_old_ones_status(jobs):
    old = await jobs.create(TRAINING_JOBS, manifests.training_job(namespace="team-a"))
    await jobs.delete(TRAINING_JOBS, "team-a", "gpt")
    await jobs.create(TRAINING_JOBS, manifests.training_job(namespace="team-a"))
    await applier(jobs).apply(TRAINING_JOBS, old, Decision(status={"phase": "Running"}))
    assert "status" not in await jobs.get(TRAINING_JOBS, "team-a", "gpt")


async def test_a_status_that_the_schema_refuses_is_a_fault(jobs):
    job = await jobs.create(TRAINING_JOBS, manifests.training_job(namespace="team-a"))
    with pytest.raises(Invalid, match="phase"):
        await applier(jobs).apply(TRAINING_JOBS, job, Decision(status={"phase": 7}))
