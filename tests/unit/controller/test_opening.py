"""Namespaces are opened by a member's people, and never made: jobs and pools wait for them."""

import asyncio

import pytest

from geotrain.api import labels
from geotrain.api.objects import DATA_CENTERS, NAMESPACES, TRAINING_JOBS
from support import manifests
from support.world import CENTERS, World, job

LABEL = "kubectl label namespace team-a geotrain.io/enabled=true"
FIXED = {
    "policy": "Fixed",
    "stages": [{"dataCenter": name, "stages": 2} for name in ("dc-west", "dc-central", "dc-east")],
}


def uids(world):
    return {name: pod["metadata"]["uid"] for name, pod in world.pods().items()}


@pytest.fixture
async def world():
    made = World()
    async with made.running():
        yield made


def shut(world, center):
    found = manifests.namespace("team-a")
    found["metadata"]["labels"][labels.ENABLED] = "false"
    world.clusters[center].put(found)


def opened(world, center, accounts=""):
    world.clusters[center].put(manifests.namespace("team-a", accounts=accounts))


async def test_a_job_waits_for_a_member_that_it_names_and_makes_nothing_there(world):
    shut(world, "dc-east")
    world.submit(job(placement=FIXED))
    await world.settle()
    status, reason, message = world.condition("Reserved")
    assert (status, reason) == ("False", "NamespaceNotEnabled")
    assert message == f"dc-east: namespace team-a has not opted in; in its cluster run: {LABEL}"
    assert world.condition("NamespacesEnabled")[:2] == ("False", "NamespaceNotEnabled")
    assert world.condition("Planned")[0] == "True"
    assert world.leftovers("dc-east") == []
    assert world.pods() == {}
    opened(world, "dc-east")
    await world.settle()
    assert world.status()["phase"] == "Running"
    assert world.condition("NamespacesEnabled")[:2] == ("True", "NamespacesEnabled")


async def test_a_namespace_that_is_not_there_is_not_made(world):
    world.clusters["dc-west"].vanish(NAMESPACES, "", "team-a")
    world.submit(job(placement=FIXED))
    await world.settle()
    assert "kubectl create namespace team-a && " + LABEL in world.condition("Reserved")[2]
    there = [each["metadata"]["name"] for each in world.clusters["dc-west"].everything(NAMESPACES)]
    assert "team-a" not in there
    assert ("create", "namespaces", "team-a") not in world.clusters["dc-west"].calls


async def test_a_job_that_may_go_anywhere_goes_where_it_may_and_says_where_not(world):
    shut(world, "dc-east")
    world.submit(job(parallelism={"data": 1, "pipeline": 6}))
    await world.settle()
    assert world.status()["phase"] == "Running"
    assert world.pods("dc-east") == {}
    assert world.condition("NamespacesEnabled") == ("", "", "")
    (left_out,) = world.status()["plan"]["leftOut"]
    assert left_out["dataCenter"] == "dc-east"
    assert LABEL in left_out["why"]
    opened(world, "dc-east")
    await world.later(60)
    assert world.status()["plan"]["leftOut"][0]["why"].startswith("it was not there, or not open")


async def test_where_nothing_is_open_there_is_no_plan_and_the_command_is_told(world):
    for name in CENTERS:
        shut(world, name)
    world.submit(job())
    await world.settle()
    status, reason, message = world.condition("Planned")
    assert (status, reason) == ("False", "NamespaceNotEnabled")
    assert message == (
        "dc-central, dc-east, dc-west: namespace team-a has not opted in; in its cluster run: "
        + LABEL
    )
    for name in CENTERS:
        opened(world, name)
    await world.settle()
    assert world.status()["phase"] == "Running"


async def test_what_does_not_fit_into_the_open_ones_says_which_are_shut(world):
    shut(world, "dc-east")
    world.submit(job())
    await world.settle()
    status, reason, message = world.condition("Planned")
    assert (status, reason) == ("False", "NoFeasiblePlacement")
    assert "dc-east is left out: namespace team-a has not opted in" in message


async def test_a_running_job_outlives_the_label_and_makes_nothing_new(world):
    world.submit(job(placement=FIXED))
    await world.settle()
    before = uids(world)
    shut(world, "dc-east")
    await world.later(10)
    assert world.status()["phase"] == "Running"
    assert uids(world) == before
    status, reason, message = world.condition("NamespacesEnabled")
    assert (status, reason) == ("False", "NamespaceNotEnabled")
    assert message.startswith("nothing new is made: dc-east: ")
    world.end("gpt-r0", "Failed")
    await world.later(10)
    await world.later(10)
    assert world.condition("Reserved")[1] == "NamespaceNotEnabled"
    assert world.pods() == {}
    opened(world, "dc-east")
    await world.settle()
    assert world.status()["phase"] == "Running"


async def test_a_job_that_waits_elsewhere_is_planned_anew_when_its_member_shuts(world):
    world.kubelets.binding = False
    world.submit(job(parallelism={"data": 1, "pipeline": 6}, reserveTimeout="60s"))
    await world.settle()
    used = {s["dataCenter"] for s in world.status()["plan"]["stages"]}
    await world.later(61)  # taken back
    shut(world, min(used))
    world.kubelets.binding = True
    await world.later(20)
    assert world.status()["phase"] == "Running"
    assert min(used) not in {s["dataCenter"] for s in world.status()["plan"]["stages"]}


async def test_a_service_account_is_used_where_the_namespace_lists_it(world):
    made = job(placement=FIXED)
    made["spec"]["template"]["spec"]["serviceAccountName"] = "writer"
    for name in ("dc-central", "dc-west"):
        opened(world, name, accounts="reader,writer")
    world.submit(made)
    await world.settle()
    message = world.condition("Reserved")[2]
    assert message.startswith("dc-east: namespace team-a does not let pods use service account w")
    assert message.endswith("namespace team-a geotrain.io/service-accounts=writer")
    opened(world, "dc-east", accounts="writer")
    await world.settle()
    assert world.status()["phase"] == "Running"
    for pod in world.pods().values():
        assert pod["spec"]["serviceAccountName"] == "writer"
        assert "automountServiceAccountToken" not in pod["spec"]


async def test_the_default_account_gives_pods_no_token(world):
    world.submit(job())
    await world.settle()
    for pod in world.pods().values():
        assert pod["spec"]["automountServiceAccountToken"] is False


async def test_a_change_of_a_namespace_wakes_the_job_within_a_second(world):
    shut(world, "dc-east")
    world.submit(job(placement=FIXED))
    await world.settle()
    world.controller.hub_changed(TRAINING_JOBS, "ADDED", world.job())
    work = asyncio.create_task(world.controller.queue.run(1))
    opened(world, "dc-east")
    try:
        async with asyncio.timeout(10):
            while world.condition("NamespacesEnabled")[0] != "True":
                await asyncio.sleep(0.02)
    finally:
        work.cancel()


async def test_a_hub_that_is_no_data_centre_needs_no_label():
    world = World()
    shut(world, "dc-central")
    world.hub.vanish(DATA_CENTERS, "", "dc-central")
    async with world.running():
        world.submit(job(parallelism={"data": 1, "pipeline": 6}))
        await world.settle()
        assert world.status()["phase"] == "Running"
        assert "leftOut" not in world.status()["plan"] or not world.status()["plan"]["leftOut"]
