"""Objects of others that have a name which a pool needs: untouched, and told of."""

import pytest

from geotrain.api import labels
from geotrain.api.objects import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    NETWORK_POLICIES,
    PODS,
    PREFILL_POOLS,
    SERVICES,
    TRAINING_JOBS,
)
from geotrain.roles.controller.controller import Key
from geotrain.roles.controller.decision import HUB
from geotrain.roles.controller.ownership import owner
from geotrain.roles.controller.pools import decide
from support import manifests, pools
from support.pools import HOMES, NOW
from support.world import CENTERS, World, job

POOL = Key(PREFILL_POOLS, "team-a", "chat")
ALL = ["chat-dc-east-0", "chat-dc-east-1", "chat-dc-west-0", "chat-dc-west-1"]


def step(world):
    decision = decide(world.observed(), NOW)
    world.carry_out(decision)
    return decision


def workers(world):
    return [name for center in HOMES for name in world.names("Pod", center)]


def serving(world):
    found = world.pool.status.condition("Serving")
    return found.status, found.reason, found.message


@pytest.mark.parametrize(
    ("api_version", "kind"), [("v1", "Service"), ("v1", "ConfigMap"), ("apps/v1", "Deployment")]
)
def test_without_a_router_nothing_is_made(api_version, kind):
    world = pools.World()
    world.take(HUB, api_version, kind, "chat-router")
    decision = step(world)
    assert world.objects == {}
    status, reason, message = serving(world)
    assert (status, reason) == ("False", "NameTaken")
    assert message.startswith(f"{kind} team-a/chat-router on the hub was not made by geotrain")
    assert "rename the pool or remove that object" in message
    assert decision.requeue_after == 5.0
    world.taken = ()
    step(world)
    assert workers(world) == ALL


def test_what_was_made_before_the_name_was_known_to_be_taken_goes():
    world = pools.World()
    step(world)
    world.take(HUB, "v1", "Service", "chat-router")
    step(world)
    assert world.objects == {}


def test_a_router_that_runs_goes_on():
    world = pools.World()
    step(world)
    world.add_router()
    world.start()
    world.take(HUB, "v1", "Service", "chat-router")
    decision = step(world)
    assert "Service" not in {each["kind"] for each in decision.children[HUB]}
    assert workers(world) == ALL
    assert serving(world)[1] == "NameTaken"


@pytest.mark.parametrize(
    ("api_version", "kind"), [("v1", "ConfigMap"), ("networking.k8s.io/v1", "NetworkPolicy")]
)
def test_where_workers_have_nothing_to_read_or_no_policy_none_is_made(api_version, kind):
    world = pools.World()
    world.take("dc-west", api_version, kind, "chat-geotrain")
    step(world)
    assert workers(world) == ALL[:2]
    assert world.names(kind, "dc-west") == []
    assert f"{kind} team-a/chat-geotrain in dc-west" in serving(world)[2]


def test_a_worker_whose_name_is_taken_is_not_made_and_the_others_are():
    world = pools.World()
    world.take("dc-east", "v1", "Pod", ALL[0])
    step(world)
    assert workers(world) == ALL[1:]
    assert f"Pod team-a/{ALL[0]} in dc-east" in serving(world)[2]


# Through the whole controller.


def pool(name="chat"):
    template = {"spec": {"containers": [{"name": "worker", "image": "example.com/worker"}]}}
    shape = {"name": "llama", "layers": 4, "hiddenSize": 64}
    profile = {"profileRef": {"name": "prefill"}, "template": template, "model": shape}
    return manifests.prefill_pool(name, "team-a", **profile)


@pytest.fixture
async def world():
    """A running job on three clusters, and what a pool needs."""
    world = World()
    text = '{"layers": 4, "layerTimes": [{"tokens": 512, "time": "1ms"}]}'
    meta = {"name": "prefill", "namespace": "team-a"}
    async with world.running():
        world.submit(job())
        await world.settle()
        world.hub.put(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": meta,
                "data": {"prefill.json": text},
            }
        )
        yield world


def condition(world, kind, name="chat"):
    (found,) = (p for p in world.hub.everything(PREFILL_POOLS) if p["metadata"]["name"] == name)
    said = next(c for c in found["status"]["conditions"] if c["type"] == kind)
    return said["status"], said["reason"], said["message"]


def held(world, uid):
    kinds = (PODS, CONFIG_MAPS, NETWORK_POLICIES, SERVICES, DEPLOYMENTS)
    found = [o for c in CENTERS for kind in kinds for o in world.clusters[c].everything(kind)]
    return [each for each in found if owner(each) == uid]


HELD = [
    (SERVICES, "dc-central", "chat-router"),
    (CONFIG_MAPS, "dc-central", "chat-router"),
    (DEPLOYMENTS, "dc-central", "chat-router"),
    (CONFIG_MAPS, "dc-west", "chat-geotrain"),
    (NETWORK_POLICIES, "dc-east", "chat-geotrain"),
    (PODS, "dc-west", "chat-dc-west-0"),
]


@pytest.mark.parametrize(("resource", "center", "name"), HELD, ids=str)
async def test_it_stays_as_it_is_until_it_goes_by_itself(world, resource, center, name):
    meta = {"name": name, "namespace": "team-a", "labels": {"app": "mine"}}
    spec = {"containers": [], "nodeName": "elsewhere"} if resource == PODS else {"theirs": True}
    put = world.clusters[center].put(
        {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, "spec": spec}
    )
    await world.drain()
    world.submit(pool())
    await world.settle(POOL)
    status, reason, message = condition(world, "Serving")
    assert (status, reason) == ("False", "NameTaken")
    assert f"{resource.kind} team-a/{name}" in message
    assert put in world.clusters[center].everything(resource)
    await world.hub.delete(PREFILL_POOLS, "team-a", "chat")
    await world.settle(POOL)
    assert world.hub.everything(PREFILL_POOLS) == []
    assert put in world.clusters[center].everything(resource)
    world.submit(pool())
    await world.settle(POOL)
    assert condition(world, "Serving")[1] == "NameTaken"
    world.clusters[center].vanish(resource, "team-a", name)
    await world.drain()
    world.clock.time += 5
    await world.settle(POOL)
    assert condition(world, "Serving")[1] == "RouterNotReady"


async def test_a_pool_of_its_jobs_name_meets_nothing_of_the_job(world):
    before = held(world, world.job()["metadata"]["uid"])
    world.submit(pool("gpt"))
    await world.settle(Key(PREFILL_POOLS, "team-a", "gpt"))
    assert condition(world, "Serving", "gpt")[1] == "RouterNotReady"
    await world.hub.delete(PREFILL_POOLS, "team-a", "gpt")
    await world.settle(Key(PREFILL_POOLS, "team-a", "gpt"))
    await world.settle()
    assert held(world, world.job()["metadata"]["uid"]) == before


async def test_a_job_that_is_named_as_a_router_waits_for_the_pool_and_says_so(world):
    world.submit(pool())
    await world.settle(POOL)
    name = Key(TRAINING_JOBS, "team-a", "chat-router")
    await world.hub.delete(TRAINING_JOBS, "team-a", "gpt")
    await world.settle()
    world.submit(job("chat-router"))
    await world.settle(name)
    status, reason, message = world.condition("Reserved", "chat-router")
    assert (status, reason) == ("False", "NameTaken")
    assert "Service team-a/chat-router in dc-central belongs to PrefillPool chat" in message
    await world.hub.delete(PREFILL_POOLS, "team-a", "chat")
    await world.settle(POOL)
    await world.later(5, name)
    assert world.status("chat-router")["phase"] == "Running"


async def test_of_two_pools_whose_workers_would_have_one_name_the_second_says_so(world):
    """Pool chat in dc-west, and a pool chat-dc in west."""
    world.submit(pool())
    await world.settle(POOL)
    theirs = next(
        p
        for p in world.clusters["dc-west"].everything(PODS)
        if labels.POOL in p["metadata"]["labels"]
    )
    tags = theirs["metadata"]["labels"] | {labels.POOL: "chat-dc", labels.POOL_UID: "other"}
    moved = {**theirs, "metadata": {**theirs["metadata"], "labels": tags}}
    world.clusters["dc-west"].put(moved)
    await world.drain()
    await world.settle(POOL)
    assert "belongs to PrefillPool chat-dc (uid other)" in condition(world, "Serving")[2]
