"""Single decisions about a job, from facts that are changed by hand."""

import dataclasses

import pytest

from geotrain.api import labels
from geotrain.api.facts import pod_from_manifest
from geotrain.api.v1alpha1 import GeoTrainingJob
from geotrain.fitting import Occupancy
from geotrain.roles.controller import measurement, reconcile
from geotrain.roles.controller.decision import Decision
from geotrain.roles.controller.observed import Observed, Report
from support.world import World, job


@pytest.fixture
async def world():
    made = World()
    async with made.running():
        yield made


async def facts(world):
    return await world.controller.observer.job(world.job())


async def gated(world):
    """A job whose pods exist behind their gates."""
    world.submit(job())
    await world.look()
    return await facts(world)


def with_member(observed, name, **changes):
    member = dataclasses.replace(observed.members[name], **changes)
    return dataclasses.replace(observed, members={**observed.members, name: member})


def with_job(observed, **meta):
    changed = observed.job.metadata.model_copy(update=meta)
    return dataclasses.replace(observed, job=observed.job.model_copy(update={"metadata": changed}))


def conditions(decision):
    return {
        c["type"]: (c["status"], c["reason"], c["message"]) for c in decision.status["conditions"]
    }


async def test_a_gang_behind_its_gates_waits_for_a_silent_member(world):
    observed = with_member(await gated(world), "dc-west", fault="it does not answer")
    decision = reconcile.decide(observed, world.clock.now())
    assert conditions(decision)["Reserved"] == (
        "False",
        "MemberUnreachable",
        "dc-west: it does not answer",
    )
    assert not decision.ungate
    assert "dc-west" not in decision.children


async def test_a_gang_behind_its_gates_waits_for_room_and_says_where_it_lacks(world):
    observed = await gated(world)
    empty = with_member(observed, "dc-west", occupancy=Occupancy())
    assert reconcile.wants_plan(empty)
    decision = reconcile.decide(empty, world.clock.now())
    status, reason, message = conditions(decision)["Reserved"]
    assert (status, reason) == ("False", "WaitingForCapacity")
    assert message.startswith("dc-west: ")
    assert not decision.ungate
    assert 2.0 <= decision.requeue_after <= 30.0


async def test_room_that_another_gang_was_promised_is_not_free(world):
    observed = await gated(world)
    member = observed.members["dc-west"]
    others = []
    for number in range(4):
        manifest = dict(next(o for o in member.owned if o["kind"] == "Pod"))
        meta = {**manifest["metadata"], "name": f"other-r{number}", "uid": f"o{number}"}
        tags = {**meta["labels"], labels.JOB: "other"}
        spec = {**manifest["spec"], "schedulingGates": []}
        others.append({**manifest, "metadata": {**meta, "labels": tags}, "spec": spec})
    promised = Occupancy(member.occupancy.nodes.values(), map(pod_from_manifest, others))
    decision = reconcile.decide(
        with_member(observed, "dc-west", occupancy=promised), world.clock.now()
    )
    assert conditions(decision)["Reserved"][1] == "WaitingForCapacity"


async def test_nothing_is_created_while_a_gang_that_was_taken_back_still_ends(world):
    world.kubelets.binding = False
    world.submit(job())
    await world.settle()
    world.clock.time += 301
    await world.look()
    observed = await facts(world)
    member = observed.members["dc-west"]
    meta = {"name": "gpt-r8", "namespace": "team-a", "uid": "u", "deletionTimestamp": "2026"}
    tags = {
        labels.RANK: "8",
        labels.ATTEMPT: "0",
        labels.REVISION: observed.job.status.revision,
        labels.JOB_UID: observed.job.metadata.uid,
    }
    going = {"apiVersion": "v1", "kind": "Pod", "metadata": {**meta, "labels": tags}, "spec": {}}
    world.clock.time += 60
    decision = reconcile.decide(
        with_member(observed, "dc-west", owned=(*member.owned, going)), world.clock.now()
    )
    assert not [c for found in decision.children.values() for c in found if c["kind"] == "Pod"]
    assert not decision.status


async def test_a_pod_of_a_rank_that_the_plan_does_not_have_is_removed(world):
    observed = await gated(world)
    member = observed.members["dc-west"]
    pod = next(o for o in member.owned if o["kind"] == "Pod")
    tags = {**pod["metadata"]["labels"], labels.RANK: "99"}
    meta = {**pod["metadata"], "name": "gpt-r99", "uid": "u99", "labels": tags}
    odd = with_member(observed, "dc-west", owned=(*member.owned, {**pod, "metadata": meta}))
    decision = reconcile.decide(odd, world.clock.now())
    assert [reference.name for reference in decision.deletions] == ["gpt-r99"]
    assert not decision.ungate


async def test_what_others_left_around_the_gang_is_removed(world):
    observed = await gated(world)
    member = observed.members["dc-west"]
    old = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "old", "uid": "o"}}
    decision = reconcile.decide(
        with_member(observed, "dc-west", owned=(*member.owned, old)), world.clock.now()
    )
    assert [reference.name for reference in decision.deletions] == ["old"]


def test_a_job_without_a_plan_and_without_a_reason_waits():
    manifest = job()
    manifest["metadata"] |= {"uid": "u", "generation": 1}
    decision = reconcile.decide(Observed(GeoTrainingJob.from_manifest(manifest)), 1e9)
    assert conditions(decision)["Reserved"][1] == "NotPlanned"
    assert decision.finalizer is True


async def test_a_deletion_that_others_hold_up_is_none_of_our_business(world):
    observed = with_job(await gated(world), deletion_timestamp="2026-01-01T00:00:00Z")
    observed = dataclasses.replace(observed, has_finalizer=False)
    assert reconcile.decide(observed, world.clock.now()) == Decision()


async def test_a_job_goes_only_after_its_last_pod(world):
    observed = with_job(await gated(world), deletion_timestamp="2026-01-01T00:00:00Z")
    ending = {name: dataclasses.replace(m, owned=()) for name, m in observed.members.items()}
    pod = {"name": "gpt-r0", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    one = {"apiVersion": "v1", "kind": "Pod", "metadata": pod, "spec": {}}
    ending["dc-west"] = dataclasses.replace(ending["dc-west"], owned=(one,))
    waiting = dataclasses.replace(observed, members=ending, hub=())
    decision = reconcile.decide(waiting, world.clock.now())
    assert decision.deletions == ()
    assert decision.finalizer is None
    assert decision.requeue_after is not None


async def test_an_unchanged_report_writes_nothing(world):
    world.submit(job())
    await world.settle()
    observed = await facts(world)
    ranks = measurement.asked(observed.planned.plan)

    def reported():
        said = {"iteration": 3, "iterationSeconds": 0.5, "windowsEnforced": True}
        return {rank: Report(world.clock.now(), said) for rank in ranks}

    first = reconcile.decide(observed.with_reports(reported()), world.clock.now())
    world.hub.put({**world.job(), "status": {**world.status(), **first.status}})
    world.clock.time += 6
    again = (await facts(world)).with_reports(reported())
    assert reconcile.decide(again, world.clock.now()).status is None
