"""A kubeconfig that leads to another cluster than the one that joined is not followed."""

import pytest

from geotrain.api import labels
from geotrain.api.objects import DATA_CENTERS, NAMESPACES
from geotrain.errors import Forbidden, Unreachable
from geotrain.roles.controller.controller import Key
from support.world import World, job

KEY = Key(DATA_CENTERS, "", "dc-west")


@pytest.fixture
async def world():
    made = World()
    async with made.running():
        yield made


def center(world):
    return next(c for c in world.hub.everything(DATA_CENTERS) if c["metadata"]["name"] == "dc-west")


def reachable(world):
    return next(c for c in center(world)["status"]["conditions"] if c["type"] == "Reachable")


def swap(world):
    """Another cluster answers in the place of dc-west."""
    world.clusters["dc-west"].vanish(NAMESPACES, "", "kube-system")
    meta = {"name": "kube-system", "uid": "another"}
    world.clusters["dc-west"].put({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})


async def test_the_cluster_is_remembered(world):
    spaces = {s["metadata"]["name"]: s for s in world.clusters["dc-west"].everything(NAMESPACES)}
    assert center(world)["status"]["clusterUID"] == spaces["kube-system"]["metadata"]["uid"]
    assert center(world)["status"]["kubernetesVersion"] == "v1.36.0"


@pytest.mark.parametrize("restart", [False, True])
async def test_another_cluster_gets_no_pods(world, restart):
    swap(world)
    if restart:
        await world.restart()
    await world.look(KEY)
    assert reachable(world)["reason"] == "AnotherCluster"
    assert "UID another" in reachable(world)["message"]
    world.submit(job(placement={"dataCenters": ["dc-west", "dc-east", "dc-central"]}))
    await world.settle()
    assert not world.pods("dc-west")
    assert world.status()["phase"] == "Pending"


async def test_what_join_wrote_counts_before_anything_was_seen(world):
    changed = center(world)
    changed["metadata"]["annotations"] = {labels.CLUSTER_UID: "written"}
    world.hub.put(changed)
    await world.look(KEY)
    assert reachable(world)["reason"] == "AnotherCluster"
    changed["metadata"]["annotations"] = {labels.CLUSTER_UID: center(world)["status"]["clusterUID"]}
    world.hub.put(changed)
    await world.look(KEY)
    assert reachable(world)["status"] == "True"


async def test_a_cluster_that_falls_silent_is_still_known(world):
    world.clusters["dc-west"].fail_next("get", Unreachable("away"))
    await world.look(KEY)
    assert reachable(world)["status"] == "True"


@pytest.mark.parametrize(
    ("error", "reason"),
    [(Forbidden("no namespaces"), "Forbidden"), (Unreachable("away"), "Unreachable")],
)
async def test_a_cluster_that_does_not_tell_who_it_is_is_not_used(error, reason):
    world = World()
    world.clusters["dc-west"].fail_next("get", error, times=3)
    async with world.running():
        assert world.controller.members.site("dc-west") is None
        assert reachable(world)["reason"] == reason
        for _ in range(3):
            await world.look(KEY)
        assert reachable(world)["status"] == "True"
