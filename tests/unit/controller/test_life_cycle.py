"""A job's whole life over three clusters in memory, one reconcile at a time."""

import pytest

from geotrain.api import labels
from geotrain.api.objects import (
    BANDWIDTH_SCHEDULES,
    DATA_CENTERS,
    ENDPOINT_SLICES,
    PODS,
    TRAINING_JOBS,
)
from geotrain.roles.controller.controller import Key
from support.world import CENTERS, World, job


@pytest.fixture
async def world():
    made = World()
    async with made.running():
        yield made


async def running(world, **spec):
    world.submit(job(**spec))
    await world.settle()
    assert world.condition("PodsReady")[:2] == ("True", "PodsRunning")


async def test_a_job_is_planned_reserved_let_go_and_runs(world):
    await running(world)
    assert world.status()["phase"] == "Running"
    assert world.condition("Planned")[0] == "True"
    assert world.condition("Reserved")[:2] == ("True", "GangReserved")
    assert len(world.pods()) == 12
    assert [len(world.pods(name)) for name in CENTERS] == [4, 4, 4]
    assert len(world.hub.everything(BANDWIDTH_SCHEDULES)) == 3


async def test_every_member_knows_the_addresses_of_all_ranks(world):
    await running(world)
    for name in CENTERS:
        (found,) = world.clusters[name].everything(ENDPOINT_SLICES)
        assert [e["hostname"] for e in found["endpoints"]] == [f"gpt-r{n}" for n in range(12)]


async def test_nothing_is_written_when_nothing_changed(world):
    await running(world)
    for cluster in world.clusters.values():
        cluster.calls.clear()
    await world.look()
    writes = {"create", "apply", "patch", "delete"}
    assert not [c for cluster in world.clusters.values() for c in cluster.calls if c[0] in writes]


async def test_a_suspended_job_holds_nothing_and_comes_back(world):
    await running(world)
    world.submit(job(suspend=True))
    await world.settle()
    assert world.condition("Suspended")[0] == "True"
    assert world.status()["phase"] == "Suspended"
    assert world.everywhere_clean()
    world.submit(job(suspend=False))
    await world.settle()
    assert world.condition("Suspended")[0] == "False"
    assert world.status()["phase"] == "Running"


async def test_a_deleted_job_leaves_nothing(world):
    await running(world)
    await world.hub.delete(TRAINING_JOBS, "team-a", "gpt")
    await world.settle()
    assert world.everywhere_clean()
    assert world.hub.everything(TRAINING_JOBS) == []
    assert "CleanedUp" in world.events()


async def test_a_job_is_held_until_its_members_are_clean(world):
    await running(world)
    world.clusters["dc-west"].down = True
    await world.drain()
    await world.hub.delete(TRAINING_JOBS, "team-a", "gpt")
    await world.settle()
    assert world.condition("Reserved")[1] == "MemberUnreachable"
    assert "dc-west" in world.condition("Reserved")[2]
    assert not world.leftovers("dc-east")
    await world.recover("dc-west")
    await world.settle()
    assert world.hub.everything(TRAINING_JOBS) == []
    assert world.everywhere_clean()


async def test_a_deleted_data_center_is_given_up(world):
    await running(world)
    world.clusters["dc-west"].down = True
    await world.drain()
    await world.hub.delete(TRAINING_JOBS, "team-a", "gpt")
    await world.settle()
    await world.hub.delete(DATA_CENTERS, "", "dc-west")
    await world.look(Key(DATA_CENTERS, "", "dc-west"))
    await world.settle()
    assert world.hub.everything(TRAINING_JOBS) == []


async def test_what_a_lost_member_kept_of_a_job_that_is_gone_is_swept(world):
    await running(world)
    kept = world.clusters["dc-west"].everything(PODS)
    await world.hub.delete(TRAINING_JOBS, "team-a", "gpt")
    await world.settle()
    for each in kept:
        world.clusters["dc-west"].put(each)
    await world.drain()
    await world.look(Key(DATA_CENTERS, "", "dc-west"))
    world.kubelets.work()
    assert not world.leftovers("dc-west")


async def test_a_new_template_replaces_the_gang(world):
    await running(world)
    before = {name: pod["metadata"]["uid"] for name, pod in world.pods().items()}
    changed = job()
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "example.com/trainer:2"
    world.submit(changed)
    await world.settle()
    after = world.pods()
    assert world.status()["phase"] == "Running"
    assert {p["spec"]["containers"][0]["image"] for p in after.values()} == {
        "example.com/trainer:2"
    }
    assert not {pod["metadata"]["uid"] for pod in after.values()} & set(before.values())
    assert world.status()["attempt"] == 0


async def test_a_change_that_no_pod_is_made_of_replaces_nothing(world):
    await running(world)
    before = {pod["metadata"]["uid"] for pod in world.pods().values()}
    world.submit(job(failurePolicy={"maxRestarts": 9}))
    await world.settle()
    assert {pod["metadata"]["uid"] for pod in world.pods().values()} == before
    assert world.status()["observedGeneration"] == 2


async def test_a_running_gang_outlives_a_spec_that_cannot_be_planned(world):
    await running(world)
    before = {pod["metadata"]["uid"] for pod in world.pods().values()}
    world.submit(job(parallelism={"data": 2, "pipeline": 7}))
    await world.settle()
    assert world.condition("Planned")[:2] == ("False", "InvalidParallelism")
    assert {pod["metadata"]["uid"] for pod in world.pods().values()} == before


async def test_a_failed_pod_restarts_the_whole_gang(world):
    await running(world)
    before = {pod["metadata"]["uid"] for pod in world.pods().values()}
    world.end("gpt-r5", "Failed")
    await world.drain()
    await world.look()
    assert world.status()["phase"] == "Restarting"
    await world.settle()
    assert world.status()["phase"] == "Running"
    assert world.status()["attempt"] == 1
    assert world.status()["observed"]["restarts"] == 1
    pods = world.pods().values()
    assert not {pod["metadata"]["uid"] for pod in pods} & before
    assert {pod["metadata"]["labels"][labels.ATTEMPT] for pod in pods} == {"1"}
    assert "PodFailed" in world.events()


async def test_a_deleted_pod_counts_as_a_failure(world):
    await running(world)
    world.clusters["dc-east"].vanish(PODS, "team-a", next(iter(world.pods("dc-east"))))
    await world.drain()
    await world.settle()
    assert world.status()["attempt"] == 1
    assert world.status()["phase"] == "Running"


async def test_the_job_fails_after_its_last_restart(world):
    await running(world, failurePolicy={"maxRestarts": 1})
    for _ in range(2):
        world.end("gpt-r0", "Failed")
        await world.drain()
        await world.settle()
    assert world.condition("Failed")[:2] == ("True", "MaxRestartsExceeded")
    assert world.status()["phase"] == "Failed"
    assert [p["status"]["phase"] for p in world.pods().values()] == ["Failed"]


async def test_a_job_completes_with_its_last_rank_and_gives_back_its_rates(world):
    await running(world)
    world.end("gpt-r1", "Succeeded")
    await world.drain()
    await world.settle()
    assert world.status()["phase"] == "Running"
    world.end_all("Succeeded")
    await world.drain()
    await world.settle()
    assert world.condition("Complete")[:2] == ("True", "AllRanksSucceeded")
    assert len(world.pods()) == 12
    assert world.hub.everything(BANDWIDTH_SCHEDULES) == []


async def test_a_finished_job_is_deleted_after_its_time(world):
    await running(world, ttlAfterFinished="1h")
    world.end_all()
    await world.drain()
    await world.settle()
    await world.later(3599)
    assert world.status()["phase"] == "Complete"
    await world.later(2)
    await world.settle()
    assert world.hub.everything(TRAINING_JOBS) == []
    assert world.everywhere_clean()


async def test_a_job_that_runs_too_long_fails(world):
    await running(world, activeDeadline="2h")
    await world.later(7100)
    assert world.status()["phase"] == "Running"
    await world.later(200)
    assert world.condition("Failed")[:2] == ("True", "DeadlineExceeded")
    assert world.pods() == {}


async def test_a_gang_that_does_not_start_in_time_is_taken_back_and_tried_again(world):
    world.kubelets.binding = False
    world.submit(job())
    await world.settle()
    assert world.status()["phase"] == "Starting"
    await world.later(301)
    assert world.condition("Reserved")[:2] == ("False", "ReserveTimeout")
    assert world.pods() == {}
    world.kubelets.binding = True
    await world.later(16)
    assert world.status()["phase"] == "Running"
    assert world.status()["attempt"] == 0


async def test_a_pod_lost_before_all_ran_is_no_restart(world):
    world.kubelets.binding = False
    world.submit(job())
    await world.settle()
    world.clusters["dc-west"].vanish(PODS, "team-a", next(iter(world.pods("dc-west"))))
    await world.drain()
    await world.settle()
    assert world.condition("Reserved")[:2] == ("False", "ReserveTimeout")
    assert world.status()["attempt"] == 0


async def test_a_member_that_falls_silent_changes_nothing_until_it_answers(world):
    await running(world)
    world.clusters["dc-west"].down = True
    await world.drain()
    await world.settle()
    assert world.condition("PodsReady")[:2] == ("Unknown", "MemberUnreachable")
    assert len(world.pods()) == 12
    await world.recover("dc-west")
    await world.settle()
    assert world.condition("PodsReady")[0] == "True"
    assert world.status()["attempt"] == 0


async def test_a_silent_member_does_not_keep_a_gang_half_placed(world):
    world.kubelets.binding = False
    world.submit(job())
    await world.settle()
    world.clusters["dc-west"].down = True
    await world.drain()
    await world.settle()
    assert len(world.pods("dc-east")) == 4
    await world.later(301)
    assert not world.pods("dc-east")
    assert not world.pods("dc-central")


async def test_a_job_avoids_a_member_that_is_silent():
    roomy = World(gpus=6)
    async with roomy.running():
        roomy.clusters["dc-west"].down = True
        await roomy.drain()
        roomy.submit(job())
        await roomy.settle()
        assert roomy.status()["phase"] == "Running"
        assert not roomy.pods("dc-west")


async def test_a_deleted_data_center_moves_the_gang():
    roomy = World(gpus=6)
    async with roomy.running():
        await running(roomy)
        lost = next(name for name in CENTERS[1:] if roomy.pods(name))
        await roomy.hub.delete(DATA_CENTERS, "", lost)
        await roomy.look(Key(DATA_CENTERS, "", lost))
        await roomy.settle()
        assert roomy.status()["phase"] == "Running"
        assert roomy.status()["attempt"] == 1
        assert lost not in roomy.status()["plan"]["placement"]
