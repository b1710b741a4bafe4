"""Links and GPUs are given back when a job's last pod has gone, wherever that was."""

import dataclasses

import pytest

from geotrain.api.objects import (
    BANDWIDTH_SCHEDULES,
    CONFIG_MAPS,
    DATA_CENTERS,
    NETWORK_POLICIES,
    PODS,
    TRAINING_JOBS,
)
from geotrain.roles.controller import reconcile
from geotrain.roles.controller.controller import Key
from support.world import CENTERS, World, job

EVERYWHERE = {
    "policy": "Fixed",
    "stages": [{"dataCenter": name, "stages": 2} for name in ("dc-west", "dc-central", "dc-east")],
}
ALL = {f"gpt-r{rank}" for rank in range(12)}


@pytest.fixture
async def world():
    made = World()
    async with made.running():
        yield made


async def running(world, **spec):
    """A running gang; gives what it holds of the links."""
    world.submit(job(placement=EVERYWHERE, **spec))
    await world.settle()
    assert world.status()["phase"] == "Running"
    held = await world.reserved()
    assert set(held) == {"team-a/gpt of dc-west-dc-central", "team-a/gpt of dc-central-dc-east"}
    return held


async def let_go(world, *names):
    """Let lingering pods end."""
    world.kubelets.lingering -= set(names)
    await world.settle()


async def suspend(world):
    world.submit(job(placement=EVERYWHERE, suspend=True))
    await world.settle()


async def delete(world):
    await world.hub.delete(TRAINING_JOBS, "team-a", "gpt")
    await world.settle()


async def fail(world):
    world.end("gpt-r1", "Failed")
    await world.drain()
    await world.settle()


async def outrun(world):
    await world.later(3700)


STOPS = [
    pytest.param({}, suspend, id="suspended"),
    pytest.param({}, delete, id="deleted"),
    pytest.param({"failurePolicy": {"maxRestarts": 0}}, fail, id="failed"),
    pytest.param({"activeDeadline": "1h"}, outrun, id="too long"),
]


@pytest.mark.parametrize(("spec", "stop"), STOPS)
@pytest.mark.parametrize("last", ["gpt-r0", "gpt-r6", "gpt-r11"])
async def test_the_last_pod_holds_the_links(world, spec, stop, last):
    held = await running(world, **spec)
    world.kubelets.lingering = set(ALL)
    await stop(world)
    assert await world.reserved() == held
    await let_go(world, *(ALL - {last}))
    assert last in world.pods()
    assert await world.reserved() == held
    await world.later(600)
    assert await world.reserved() == held
    await let_go(world, last)
    assert await world.reserved() == {}
    assert world.hub.everything(BANDWIDTH_SCHEDULES) == []


@pytest.mark.parametrize(("spec", "stop"), STOPS)
async def test_a_member_that_does_not_answer_holds_the_links(world, spec, stop):
    held = await running(world, **spec)
    world.clusters["dc-west"].down = True
    await world.drain()
    await stop(world)
    await world.later(600)
    assert await world.reserved() == held
    await world.recover("dc-west")
    await world.settle()
    assert await world.reserved() == {}


@pytest.mark.parametrize(("spec", "stop"), STOPS)
async def test_a_controller_that_never_saw_that_member_holds_them_too(world, spec, stop):
    held = await running(world, **spec)
    world.clusters["dc-west"].down = True
    await world.drain()
    await stop(world)
    await world.restart()
    await world.later(600)
    assert await world.reserved() == held
    await world.recover("dc-west")
    await world.settle()
    assert await world.reserved() == {}


@pytest.mark.parametrize(("spec", "stop"), STOPS)
async def test_a_deleted_data_center_is_given_up_with_its_pods(world, spec, stop):
    await running(world, **spec)
    world.clusters["dc-west"].down = True
    await world.drain()
    await stop(world)
    await world.hub.delete(DATA_CENTERS, "", "dc-west")
    await world.look(Key(DATA_CENTERS, "", "dc-west"))
    await world.settle()
    assert world.hub.everything(BANDWIDTH_SCHEDULES) == []


async def test_suspending_says_what_still_ends_and_where(world):
    await running(world)
    world.kubelets.lingering = set(ALL)
    await suspend(world)
    status, reason, message = world.condition("Suspended")
    assert (status, reason) == ("False", "Suspending")
    assert message == (
        "Suspending: 12 pods still end (4 in dc-central, 4 in dc-east, 4 in dc-west)"
    )
    assert world.status()["phase"] == "Suspending"
    await let_go(world, *(ALL - {"gpt-r3"}))
    assert world.condition("Suspended")[2].startswith("Suspending: 1 pod still ends (1 in dc-")
    await let_go(world, "gpt-r3")
    assert world.condition("Suspended")[:2] == ("True", "Suspended")
    assert world.status()["phase"] == "Suspended"
    assert world.everywhere_clean()


async def test_suspending_names_the_member_that_does_not_answer(world):
    await running(world)
    world.clusters["dc-west"].down = True
    await world.drain()
    await suspend(world)
    status, _, message = world.condition("Suspended")
    assert status == "False"
    assert "dc-west: dc-west does not answer: pods there count as running" in message
    await world.recover("dc-west")
    await world.settle()
    assert world.condition("Suspended")[0] == "True"
    world.clusters["dc-west"].down = True  # nothing of the job is there any more
    await world.drain()
    await world.later(600)
    assert world.condition("Suspended")[0] == "True"
    await delete(world)
    assert world.hub.everything(TRAINING_JOBS) == []


async def test_what_stands_around_pods_stays_as_long_as_they_do(world):
    await running(world)
    world.kubelets.lingering = {"gpt-r0"}
    home = next(name for name in CENTERS if "gpt-r0" in world.pods(name))
    await suspend(world)
    assert world.clusters[home].everything(NETWORK_POLICIES)
    assert any("gpt-geotrain." in c for c in world.leftovers(home))
    for name in set(CENTERS) - {home}:
        assert not [each for each in world.leftovers(name) if "bandwidth" not in each]


async def test_a_job_that_is_resumed_while_pods_end_waits_for_them(world):
    held = await running(world)
    world.kubelets.lingering = {"gpt-r0"}
    await suspend(world)
    world.submit(job(placement=EVERYWHERE, suspend=False))
    await world.settle()
    assert list(world.pods()) == ["gpt-r0"]
    assert await world.reserved() == held
    await let_go(world, "gpt-r0")
    assert world.status()["phase"] == "Running"
    assert await world.reserved() == held


async def test_a_restart_keeps_the_links_throughout(world):
    held = await running(world)
    world.kubelets.lingering = {"gpt-r4"}
    world.end("gpt-r5", "Failed")
    await world.drain()
    await world.settle()
    assert world.status()["phase"] == "Restarting"
    assert await world.reserved() == held
    await let_go(world, "gpt-r4")
    assert world.status()["phase"] == "Running"
    assert await world.reserved() == held


async def test_a_gang_that_is_taken_back_keeps_the_links_until_its_pods_are_gone(world):
    world.kubelets.binding = False
    world.submit(job(placement=EVERYWHERE))
    await world.settle()
    held = await world.reserved()
    bound = next(iter(world.pods("dc-west").values()))
    world.clusters["dc-west"].put({**bound, "spec": {**bound["spec"], "nodeName": "dc-west-node"}})
    world.kubelets.lingering = {bound["metadata"]["name"]}
    await world.later(301)
    assert world.condition("Reserved")[1] == "ReserveTimeout"
    world.submit(job(placement=EVERYWHERE, suspend=True))
    await world.settle()
    assert await world.reserved() == held
    await let_go(world, bound["metadata"]["name"])
    assert await world.reserved() == {}


TWO = {
    "policy": "Fixed",
    "stages": [{"dataCenter": "dc-west", "stages": 3}, {"dataCenter": "dc-central", "stages": 3}],
}


@pytest.mark.parametrize("cut", [False, True], ids=["ending", "cut off"])
async def test_a_moved_gang_gives_back_its_old_links_with_its_last_old_pod(cut):
    world = World(gpus=8)
    async with world.running():
        held = await running(world)
        old = set(world.pods("dc-east"))
        world.kubelets.lingering = old
        if cut:
            world.clusters["dc-east"].down = True
            await world.drain()
        world.submit(job(placement=TWO))
        await world.settle()
        assert held.items() <= (await world.reserved()).items()
        await world.later(600)
        assert held.items() <= (await world.reserved()).items()
        if cut:
            await world.recover("dc-east")
        await let_go(world, *old)
        await world.later(60)
        assert world.status()["phase"] == "Running"
        assert set(await world.reserved()) == {"team-a/gpt of dc-west-dc-central"}
        assert {
            each["spec"]["dataCenter"] for each in world.hub.everything(BANDWIDTH_SCHEDULES)
        } == {
            "dc-west",
            "dc-central",
        }


async def test_a_job_without_a_plan_any_more_holds_the_links_while_its_pods_end(world):
    world.submit(job(placement=EVERYWHERE))
    await world.look()
    held = await world.reserved()
    bound = next(iter(world.pods("dc-west").values()))
    world.clusters["dc-west"].put({**bound, "spec": {**bound["spec"], "nodeName": "dc-west-node"}})
    world.kubelets.lingering = {bound["metadata"]["name"]}
    nowhere = {"policy": "Fixed", "stages": [{"dataCenter": "dc-nowhere", "stages": 6}]}
    world.submit(job(placement=nowhere))
    await world.settle()
    assert world.condition("Planned")[0] == "False"
    assert await world.reserved() == held
    await let_go(world, bound["metadata"]["name"])
    assert await world.reserved() == {}


async def test_a_job_that_starts_beside_a_dying_one_does_not_get_its_rate(world):
    world = World(gpus=8)
    async with world.running():
        world.submit(job("a", placement=EVERYWHERE))
        await world.settle(Key(TRAINING_JOBS, "team-a", "a"))
        world.kubelets.lingering = set(world.pods())
        world.submit(job("a", placement=EVERYWHERE, suspend=True))
        await world.settle(Key(TRAINING_JOBS, "team-a", "a"))
        world.submit(job("b", placement=EVERYWHERE))
        await world.settle(Key(TRAINING_JOBS, "team-a", "b"))
        assert {name.split(" ")[0] for name in await world.reserved()} == {"team-a/a", "team-a/b"}
        for link in world.hub.everything(BANDWIDTH_SCHEDULES):
            assert link["metadata"]["finalizers"]


async def test_a_dying_pod_holds_its_gpus(world):
    await running(world)
    world.kubelets.lingering = set(ALL)
    await suspend(world)
    other = Key(TRAINING_JOBS, "team-a", "other")
    world.submit(job("other"))
    await world.settle(other)
    assert world.condition("Planned", "other")[:2] == ("False", "NoFeasiblePlacement")
    await world.look(Key(DATA_CENTERS, "", "dc-west"))
    center = next(
        each for each in world.hub.everything(DATA_CENTERS) if each["metadata"]["name"] == "dc-west"
    )
    assert center["status"]["gpus"]["free"] == 0
    await let_go(world, *ALL)
    await world.settle(other)
    assert world.status("other")["phase"] == "Running"


async def test_deleted_schedules_hold_the_links_as_long_as_the_gang_runs(world):
    """As when a job is deleted in the foreground, or with its namespace."""
    held = await running(world)
    for each in world.hub.everything(BANDWIDTH_SCHEDULES):
        await world.hub.delete(BANDWIDTH_SCHEDULES, "team-a", each["metadata"]["name"])
    await world.drain()
    await world.settle()
    assert await world.reserved() == held
    assert world.status()["phase"] == "Running"
    await suspend(world)
    assert await world.reserved() == {}
    assert world.hub.everything(BANDWIDTH_SCHEDULES) == []


@pytest.mark.parametrize("again", [False, True], ids=["gone", "made anew"])
async def test_schedules_of_a_job_that_went_without_us_do_not_stay(world, again):
    """Somebody took our finalizer off the job; the collector then deletes what it owned."""
    await running(world)
    await world.hub.patch(TRAINING_JOBS, "team-a", "gpt", {"metadata": {"finalizers": None}})
    world.hub.vanish(TRAINING_JOBS, "team-a", "gpt")
    if again:
        world.submit(job(suspend=True))
    for each in world.hub.everything(BANDWIDTH_SCHEDULES):
        await world.hub.delete(BANDWIDTH_SCHEDULES, "team-a", each["metadata"]["name"])
    await world.drain()
    if again:
        world.submit(job(suspend=False, placement=EVERYWHERE))
        for name in CENTERS:
            await world.look(Key(DATA_CENTERS, "", name))
            world.kubelets.work()
    await world.settle()
    old = [
        each
        for each in world.hub.everything(BANDWIDTH_SCHEDULES)
        if "deletionTimestamp" in each["metadata"]
    ]
    assert old == []
    if again:
        await world.later(10)
        assert world.status()["phase"] == "Running"


async def test_a_finished_job_says_which_member_keeps_its_links(world):
    held = await running(world, failurePolicy={"maxRestarts": 0})
    world.clusters["dc-west"].down = True
    await world.drain()
    name = next(iter(world.pods("dc-east")))
    world.end(name, "Failed")
    await world.drain()
    await world.settle()
    assert world.status()["phase"] == "Failed"
    status, reason, message = world.condition("Reserved")
    assert (status, reason) == ("Unknown", "MemberUnreachable")
    assert message.startswith("dc-west: ")
    assert await world.reserved() == held
    await world.recover("dc-west")
    await world.settle()
    assert world.condition("Reserved")[:2] == ("False", "PodsFinished")
    assert await world.reserved() == {}


async def test_pods_that_ended_hold_nothing_and_stay_for_their_logs(world):
    await running(world)
    world.end_all()
    await world.drain()
    await world.settle()
    assert len(world.pods()) == 12
    assert await world.reserved() == {}


async def test_what_a_running_pod_mounts_stays_whatever_the_plan_calls_it_now(world):
    await running(world)
    observed = await world.controller.observer.job(world.job())
    member = observed.members["dc-west"]
    pods = [each for each in member.owned if each["kind"] == "Pod"]
    mount = {"name": "v", "configMap": {"name": "gpt-geotrain-dc-west"}}
    first = {**pods[0], "spec": {**pods[0]["spec"], "volumes": [mount, {"name": "other"}]}}
    meta = {"name": "gpt-geotrain-dc-west", "namespace": "team-a", "uid": "older"}
    older = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
    rest = tuple(
        each for each in member.owned if each["metadata"]["name"] != first["metadata"]["name"]
    )
    kept = dataclasses.replace(member, owned=(*rest, first, older))
    seen = dataclasses.replace(observed, members={**observed.members, "dc-west": kept})
    assert reconcile.decide(seen, world.clock.now()).deletions == ()
    bare = dataclasses.replace(member, owned=(*member.owned, older))
    seen = dataclasses.replace(observed, members={**observed.members, "dc-west": bare})
    assert [r.uid for r in reconcile.decide(seen, world.clock.now()).deletions] == ["older"]


@pytest.mark.parametrize("kind", [CONFIG_MAPS, PODS])
async def test_the_job_is_held_as_long_as_anything_is_left(world, kind):
    await running(world)
    held = world.clusters["dc-west"].everything(kind)[0]
    meta = {**held["metadata"], "finalizers": ["example.com/others"]}
    world.clusters["dc-west"].put({**held, "metadata": meta})
    await world.drain()
    if kind == PODS:
        world.kubelets.lingering = {held["metadata"]["name"]}
    await delete(world)
    assert world.hub.everything(TRAINING_JOBS)
    assert await world.reserved()
    world.clusters["dc-west"].vanish(kind, "team-a", held["metadata"]["name"])
    await world.drain()
    await let_go(world)
    assert world.hub.everything(TRAINING_JOBS) == []
    assert await world.reserved() == {}
