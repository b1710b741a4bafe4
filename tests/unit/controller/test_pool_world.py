"""Pools through the whole controller, on clusters in memory."""

import json

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
from geotrain.errors import Forbidden, Unreachable
from geotrain.roles.controller.controller import Key
from support import manifests
from support.world import CENTERS, World, job

POOL = Key(PREFILL_POOLS, "team-a", "chat")
PREFILL = {"layers": 4, "layerTimes": [{"tokens": 512, "time": "1ms"}]}


def pool(**spec):
    template = {"spec": {"containers": [{"name": "worker", "image": "example.com/worker"}]}}
    usual = {"profileRef": {"name": "prefill"}, "template": template, "decode": None, "model": None}
    made = manifests.prefill_pool("chat", "team-a", **(usual | spec))
    made["spec"] = {key: value for key, value in made["spec"].items() if value is not None}
    return made


TEXT = json.dumps(PREFILL)


def profile(text=TEXT, key="prefill.json"):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "prefill", "namespace": "team-a"},
        "data": {key: text},
    }


def put_router(world, ready="True"):
    (deployment,) = world.hub.everything(DEPLOYMENTS)
    world.hub.put(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "chat-router-1",
                "namespace": "team-a",
                "labels": deployment["spec"]["template"]["metadata"]["labels"],
            },
            "spec": {"nodeName": "dc-central-node", "containers": []},
            "status": {
                "phase": "Running",
                "podIP": "10.8.0.1",
                "conditions": [{"type": "Ready", "status": ready}],
            },
        }
    )


def status(world):
    (found,) = world.hub.everything(PREFILL_POOLS)
    return found.get("status", {})


def condition(world, kind):
    found = next(c for c in status(world)["conditions"] if c["type"] == kind)
    return found["status"], found["reason"], found["message"]


def workers(world):
    found = (p for name in CENTERS for p in world.clusters[name].everything(PODS))
    return [p for p in found if p["metadata"]["labels"].get(labels.ROLE) == "prefill"]


def of_pool(world):
    return [
        f"{name}: {resource}/{each['metadata']['name']}"
        for name in CENTERS
        for resource in (PODS, CONFIG_MAPS, NETWORK_POLICIES, SERVICES, DEPLOYMENTS)
        for each in world.clusters[name].everything(resource)
        if labels.POOL_UID in (each["metadata"].get("labels") or {})
    ]


@pytest.fixture
async def world():
    """A running job on three clusters, and a pool that nobody has looked at yet."""
    world = World()
    async with world.running():
        world.submit(job())
        await world.settle()
        world.hub.put(profile())
        world.submit(pool())
        yield world


@pytest.fixture
async def serving(world):
    await world.settle(POOL)
    put_router(world)
    world.hub.reports["team-a", "chat-router-1"] = {
        "admitted": 5,
        "refused": 1,
        "ttft": {"p50": 0.1, "p90": 0.2, "p99": 0.3},
        "bubbleSeconds": {"offered": 10.0, "used": 4.0},
    }
    await world.drain()
    await world.settle(POOL)
    return world


async def test_workers_run_beside_every_rank_on_its_own_cluster(serving):
    assert len(workers(serving)) == 12
    for name in CENTERS:
        ranks = {
            pod["metadata"]["labels"][labels.RANK]
            for pod in serving.pods(name).values()
            if pod["metadata"]["labels"].get(labels.ROLE) == "trainer"
        }
        beside = {
            pod["metadata"]["labels"][labels.BESIDE_RANK]
            for pod in serving.pods(name).values()
            if pod["metadata"]["labels"].get(labels.ROLE) == "prefill"
        }
        assert beside == ranks


async def test_the_status_reads_like_a_board(serving):
    assert condition(serving, "Serving")[:2] == ("True", "WorkersReady")
    assert status(serving)["phase"] == "Serving"
    assert status(serving)["readyWorkers"] == 12
    assert status(serving)["requests"] == {"admitted": 5, "refused": 1}
    assert status(serving)["timeToFirstToken"] == {"p50": "100ms", "p90": "200ms", "p99": "300ms"}
    assert status(serving)["bubbleSeconds"] == {"offered": 10.0, "used": 4.0}


async def test_the_router_is_not_asked_at_every_look(serving):
    asked = sum(verb == "proxy" for verb, *_ in serving.hub.calls)
    await serving.look(POOL)
    assert sum(verb == "proxy" for verb, *_ in serving.hub.calls) == asked
    await serving.later(6, POOL)
    assert sum(verb == "proxy" for verb, *_ in serving.hub.calls) > asked


async def test_a_router_that_does_not_answer_costs_nothing_but_its_counts(serving):
    serving.hub.fail_next("proxy", Unreachable("it does not answer"))
    await serving.later(6, POOL)
    assert status(serving)["requests"] == {"admitted": 5, "refused": 1}
    assert condition(serving, "Serving")[:2] == ("True", "WorkersReady")
    put_router(serving, ready="False")
    await serving.drain()
    await serving.later(6, POOL)
    assert condition(serving, "Serving")[:2] == ("False", "RouterNotReady")


async def test_a_member_that_refuses_workers_is_a_condition_and_the_rest_goes_on(serving):
    for pod in workers(serving):
        home = next(n for n in CENTERS if pod["metadata"]["name"] in serving.pods(n))
        serving.clusters[home].vanish(PODS, "team-a", pod["metadata"]["name"])
    await serving.drain()
    serving.clusters["dc-east"].fail_next("create", Forbidden("exceeded quota: gpus"))
    await serving.look(POOL)
    assert condition(serving, "Serving") == ("False", "MemberRefused", "exceeded quota: gpus")
    await serving.settle(POOL)
    assert condition(serving, "Serving")[:2] == ("True", "WorkersReady")


async def test_a_restarted_controller_changes_nothing(serving):
    before = serving.snapshot()
    await serving.restart()
    await serving.settle(POOL)
    assert serving.snapshot() == before


async def test_workers_leave_when_the_job_does(serving):
    serving.hub.put({**serving.job(), "spec": {**serving.job()["spec"], "suspend": True}})
    await serving.settle()
    await serving.settle(POOL)
    assert workers(serving) == []
    assert condition(serving, "Bound")[:2] == ("False", "JobNotRunning")


async def test_a_deleted_pool_leaves_nothing_behind(serving):
    await serving.hub.delete(PREFILL_POOLS, "team-a", "chat")
    for _ in range(4):
        await serving.look(POOL)
        serving.kubelets.work()
        await serving.drain()
    # The Deployment's pod goes with it, which nobody plays here.
    assert [each for each in of_pool(serving) if "chat-router-1" not in each] == []
    assert serving.hub.everything(PREFILL_POOLS) == []
    assert serving.status()["phase"] == "Running", "training does not notice"


@pytest.mark.parametrize(
    ("config", "reason", "words"),
    [
        (None, "ProfileMissing", "ConfigMap team-a/other does not exist"),
        (profile(key="x"), "ProfileMissing", "has no key 'prefill.json'"),
        (profile("{"), "ProfileInvalid", "is not JSON"),
        (
            profile('{"layers": 4, "layerTimes": [{"tokens": 1, "time": "-1ms"}]}'),
            "ProfileInvalid",
            "-1ms is negative",
        ),
    ],
)
async def test_a_profile_that_cannot_be_used_is_said(world, config, reason, words):
    if config is None:
        world.submit(pool(profileRef={"name": "other"}))
    else:
        del world.hub._objects[CONFIG_MAPS, "team-a", "prefill"]
        world.hub.put(config)
    await world.settle(POOL)
    found = condition(world, "Serving")
    assert found[:2] == ("False", reason)
    assert words in found[2]
    assert workers(world) == []


async def test_times_are_estimated_from_the_models_shape(world):
    del world.hub._objects[PREFILL_POOLS, "team-a", "chat"]
    shape = {"name": "m", "layers": 4, "hiddenSize": 1024}
    world.submit(pool(profileRef=None, model=shape))
    await world.settle(POOL)
    assert len(workers(world)) == 12


async def test_without_an_accelerator_there_is_no_estimate():
    world = World()
    for name in CENTERS:
        center = next(
            each
            for (_, _, found), each in world.hub._objects.items()
            if found == name and each["kind"] == "DataCenter"
        )
        del center["spec"]["accelerator"]
    async with world.running():
        world.submit(pool(profileRef=None, model={"name": "m", "layers": 4, "hiddenSize": 1024}))
        await world.settle(POOL)
    assert condition(world, "Serving")[:2] == ("False", "UnknownAccelerator")


async def test_a_job_that_is_not_there_is_said_and_found_when_it_comes():
    world = World()
    async with world.running():
        world.hub.put(profile())
        world.submit(pool())
        await world.settle(POOL)
        assert condition(world, "Bound")[:2] == ("False", "JobMissing")
        world.submit(job())
        await world.settle()
        await world.settle(POOL)
        assert condition(world, "Bound")[:2] == ("True", "JobBound")
        assert len(workers(world)) == 12
    assert len(world.hub.everything(TRAINING_JOBS)) == 1


async def test_before_the_hub_answered_nothing_is_decided(world):
    world.controller.members.hub_site.mirror._unsynced.add(PODS)
    assert await world.look(POOL) == 1.0
    assert "the hub has not answered yet" in str(world.faults[-1])


async def test_workers_wait_for_a_namespace_that_is_not_open(world):
    shut = manifests.namespace("team-a")
    shut["metadata"]["labels"][labels.ENABLED] = "false"
    world.clusters["dc-east"].put(shut)
    await world.settle(POOL)
    assert not any(each.startswith("dc-east: ") for each in of_pool(world))
    assert {w["spec"]["nodeSelector"][labels.DATA_CENTER] for w in workers(world)} == {
        "dc-central",
        "dc-west",
    }
    put_router(world)
    await world.later(20, POOL)
    assert "has not opted in; in its cluster run: kubectl label" in condition(world, "Serving")[2]
    world.clusters["dc-east"].put(manifests.namespace("team-a"))
    await world.later(20, POOL)
    assert any(each.startswith("dc-east: pods/") for each in of_pool(world))


async def test_a_template_that_may_not_be_makes_no_workers(world):
    made = pool()
    made["spec"]["template"]["spec"]["hostIPC"] = True
    world.submit(made)
    await world.settle(POOL)
    status, reason, message = condition(world, "Serving")
    assert (status, reason) == ("False", "InvalidSpec")
    assert message == (
        "spec.template.spec.hostIPC: goes beyond Pod Security baseline; leave it out"
    )
    assert workers(world) == []


async def test_workers_of_one_data_centre_may_differ(world):
    world.submit(pool(overrides=[{"dataCenter": "dc-east", "image": "east/worker:1"}]))
    await world.settle(POOL)
    images = {
        w["spec"]["nodeSelector"][labels.DATA_CENTER]: w["spec"]["containers"][0]["image"]
        for w in workers(world)
    }
    usual = "example.com/worker"
    assert images == {"dc-east": "east/worker:1", "dc-central": usual, "dc-west": usual}
