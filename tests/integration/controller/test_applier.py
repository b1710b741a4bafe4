"""What a decision does to a real API server, and to the fake that stands for it elsewhere."""

import asyncio
import dataclasses
from pathlib import Path

import pytest

from geotrain.adapters.clock import SystemClock
from geotrain.api import labels
from geotrain.api.objects import CONFIG_MAPS, ENDPOINT_SLICES, PODS, SERVICES, TRAINING_JOBS
from geotrain.errors import Invalid, NameTaken
from geotrain.roles.controller.apply import Applier, Target
from geotrain.roles.controller.decision import HUB, Decision, Reference
from geotrain.roles.controller.mirror import Mirror
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


@pytest.fixture
async def gang(cluster):
    """What a job ``gpt`` writes in a member, and the mirror by which it is seen."""
    mirror = Mirror(cluster, lambda *_: None)
    task = asyncio.create_task(mirror.run())
    await mirror.settled()
    made = Applier(lambda _: Target(cluster, mirror), SystemClock())

    async def write(*manifests):
        await made.apply(CONFIG_MAPS, SUBJECT, Decision(children={"dc-west": manifests}))

    yield write, mirror
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


OURS = {labels.MANAGED_BY: "geotrain", labels.JOB: "gpt", labels.JOB_UID: "job-uid"}


def service(port=29500, tags=OURS):
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "gpt", "namespace": "team-a", "labels": tags},
        "spec": {"clusterIP": "None", "ports": [{"name": "master", "port": port}]},
    }


def config_map(**data):
    meta = {"name": "gpt-geotrain.dc-west", "namespace": "team-a", "labels": OURS}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


async def in_place(cluster, resource=SERVICES, name="gpt"):
    return await cluster.get(resource, "team-a", name)


async def test_what_is_there_and_not_ours_is_left_as_it_is(cluster, gang):
    write, mirror = gang
    theirs = await cluster.create(SERVICES, service(5432, {"app": "mine"}))
    with pytest.raises(NameTaken, match="Service team-a/gpt in dc-west was not made by geotrain"):
        await write(service())
    assert await in_place(cluster) == theirs
    assert mirror.namesake(SERVICES, ("team-a", "gpt"))


async def test_what_another_jobs_labels_are_on_is_left_as_it_is(cluster, gang):
    write, _ = gang
    theirs = await cluster.create(SERVICES, service(5432, {**OURS, labels.JOB_UID: "another"}))
    with pytest.raises(NameTaken, match=r"belongs to GeoTrainingJob gpt \(uid another\)"):
        await write(service())
    assert await in_place(cluster) == theirs


async def test_ours_that_the_mirror_does_not_know_yet_is_changed(cluster, gang):
    write, _ = gang
    before = await cluster.create(SERVICES, service(5432))
    await write(service())
    after = await in_place(cluster)
    assert after["spec"]["ports"][0]["port"] == 29500
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


async def test_ours_whose_labels_are_gone_by_now_is_left_as_it_is(cluster, gang):
    write, mirror = gang
    await write(service())
    seen = mirror.find(SERVICES, ("team-a", "gpt"))
    await cluster.patch(SERVICES, "team-a", "gpt", {"metadata": {"labels": dict.fromkeys(OURS)}})
    mirror.drop(SERVICES, "team-a", "gpt")
    mirror.put(SERVICES, seen)  # as long as the watch has not told
    with pytest.raises(NameTaken):
        await write(service(1234))
    assert (await in_place(cluster))["spec"]["ports"][0]["port"] == 29500


async def test_a_namesake_that_came_after_the_look_is_left_as_it_is(cluster, gang):
    write, mirror = gang
    await write(service())
    seen = mirror.find(SERVICES, ("team-a", "gpt"))
    await cluster.delete(SERVICES, "team-a", "gpt")
    theirs = await cluster.create(SERVICES, service(5432, {"app": "mine"}))
    mirror.drop(SERVICES, "team-a", "gpt")
    mirror.put(SERVICES, seen)
    with pytest.raises(NameTaken):
        await write(service(1234))
    assert await in_place(cluster) == theirs


async def test_what_is_gone_since_the_look_is_made_again(cluster, gang):
    write, mirror = gang
    await write(service())
    seen = mirror.find(SERVICES, ("team-a", "gpt"))
    await cluster.delete(SERVICES, "team-a", "gpt")
    mirror.drop(SERVICES, "team-a", "gpt")
    mirror.put(SERVICES, seen)
    await write(service(1234))
    assert (await in_place(cluster))["spec"]["ports"][0]["port"] == 1234


async def test_keys_that_are_not_wanted_any_more_go(cluster, gang):
    write, _ = gang
    await write(config_map(a="1", b="2"))
    await write(config_map(a="1"))
    found = await in_place(cluster, CONFIG_MAPS, "gpt-geotrain.dc-west")
    assert found["data"] == {"a": "1"}


async def test_what_is_as_wanted_is_not_written(cluster, gang):
    """Though the server has filled in what was left out, and dropped what was empty."""
    write, _ = gang
    empty = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "gpt-geotrain", "namespace": "team-a", "labels": OURS},
        "addressType": "IPv4",
        "endpoints": [],
        "ports": [{"name": "master", "port": 29500, "protocol": "TCP"}],
    }
    wanted = service(), config_map(a="1"), empty
    places = (
        (SERVICES, "gpt"),
        (CONFIG_MAPS, "gpt-geotrain.dc-west"),
        (ENDPOINT_SLICES, "gpt-geotrain"),
    )
    await write(*wanted)
    before = [await in_place(cluster, *place) for place in places]
    await write(*wanted)
    assert [await in_place(cluster, *place) for place in places] == before
