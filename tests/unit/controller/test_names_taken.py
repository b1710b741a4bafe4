"""Objects of others that have a name which a job needs: untouched, and told of."""

from collections import Counter

import pytest

from geotrain.api import labels
from geotrain.api.objects import (
    BANDWIDTH_SCHEDULES,
    CONFIG_MAPS,
    DATA_CENTERS,
    ENDPOINT_SLICES,
    NETWORK_POLICIES,
    PODS,
    SERVICES,
    TRAINING_JOBS,
)
from geotrain.errors import Conflict, Unreachable
from geotrain.roles.controller.controller import Key
from geotrain.roles.controller.ownership import owner
from support import manifests
from support.scheduling import node_manifest
from support.world import CENTERS, GPU, World, job

MINE = {"app": "mine"}
HELD = [
    (SERVICES, "dc-west", "gpt", "dc-west"),
    (SERVICES, "dc-central", "gpt", "dc-central"),  # where the hub is a member
    (ENDPOINT_SLICES, "dc-east", "gpt-geotrain", "dc-east"),
    (NETWORK_POLICIES, "dc-west", "gpt-ranks", "dc-west"),
    (CONFIG_MAPS, "dc-east", "gpt-geotrain.dc-east", "dc-east"),
    (CONFIG_MAPS, "dc-central", "gpt-geotrain-plan", "the hub"),
    (BANDWIDTH_SCHEDULES, "dc-central", "gpt.dc-west", "the hub"),
    (PODS, "dc-west", "gpt-r8", "dc-west"),
    (PODS, "dc-central", "gpt-r0", "dc-central"),
]


@pytest.fixture
async def world():
    made = World()
    async with made.running():
        yield made


def theirs(resource, name, tags=MINE, **fields):
    meta = {"name": name, "namespace": "team-a", "labels": dict(tags)}
    made = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}
    if resource == BANDWIDTH_SCHEDULES:
        made["spec"] = {"job": "theirs", "dataCenter": "dc-west", "period": "1s"}
    elif resource != CONFIG_MAPS:
        made["spec"] = {"theirs": True}
    if resource == PODS:
        made["spec"] = {"containers": [{"name": "c"}], "nodeName": "elsewhere"}
    return made | fields


def found(world, center, resource, name):
    objects = world.clusters[center].everything(resource)
    return next((o for o in objects if o["metadata"]["name"] == name), None)


async def begun(world, *taken, **spec):
    """A job, submitted where others' objects have its names; gives them as they were put there."""
    put = [world.clusters[center].put(each) for center, each in taken]
    world.submit(job(**spec))
    await world.settle()
    return put


def deleted(world):
    return world.hub.delete(TRAINING_JOBS, "team-a", "gpt")


@pytest.mark.parametrize(
    "tags",
    [
        MINE,
        {},
        {labels.MANAGED_BY: "geotrain"},
        {labels.MANAGED_BY: "geotrain", labels.JOB: "gpt", labels.JOB_UID: "of-another-hub"},
        {labels.JOB: "gpt"},
    ],
    ids=["theirs", "bare", "our manager", "another hub's", "our name"],
)
@pytest.mark.parametrize(("resource", "center", "name", "where"), HELD, ids=str)
async def test_it_stays_as_it_is_and_the_job_says_what_to_do(
    world, resource, center, name, where, tags
):
    (put,) = await begun(world, (center, theirs(resource, name, tags)))
    status, reason, message = world.condition("Reserved")
    assert (status, reason) == ("False", "NameTaken")
    assert f"{resource.kind} team-a/{name}" in message
    assert where in message
    assert "rename the job or remove that object" in message
    assert "NameTaken" in world.events()
    assert world.status()["phase"] == "Waiting"
    assert found(world, center, resource, name) == put
    assert [n for n in world.pods() if n != name] == []
    assert [each for c in CENTERS for each in world.leftovers(c)] == (
        [f"{resource}/{name}"] if labels.MANAGED_BY in tags else []
    )
    await deleted(world)
    await world.settle()
    assert world.hub.everything(TRAINING_JOBS) == []
    assert found(world, center, resource, name) == put


@pytest.mark.parametrize(("resource", "center", "name"), [each[:3] for each in HELD], ids=str)
async def test_the_job_runs_once_it_is_gone(world, resource, center, name):
    await begun(world, (center, theirs(resource, name)))
    await world.later(600)
    assert world.condition("Reserved")[1] == "NameTaken"
    world.clusters[center].vanish(resource, "team-a", name)
    await world.drain()
    await world.later(5)
    assert world.status()["phase"] == "Running"
    assert world.condition("Reserved")[:2] == ("True", "GangReserved")
    assert len(world.pods()) == 12
    assert world.status()["attempt"] == 0


async def test_it_is_looked_at_again_soon_and_nothing_is_written_meanwhile(world):
    await begun(world, ("dc-west", theirs(SERVICES, "gpt")))
    for cluster in world.clusters.values():
        cluster.calls.clear()
    assert await world.look() == 5.0
    calls = [call for cluster in world.clusters.values() for call in cluster.calls]
    assert not [c for c in calls if c[0] in ("create", "apply", "patch", "delete")]
    assert ("list", "services", "gpt") in calls


async def test_all_taken_names_that_are_known_are_told_at_once(world):
    taken = [("dc-west", theirs(PODS, "gpt-r9")), ("dc-east", theirs(PODS, "gpt-r4"))]
    await begun(world, *taken)
    message = world.condition("Reserved")[2]
    assert "gpt-r9 in dc-west" in message
    assert "gpt-r4 in dc-east" in message
    created = [c for each in world.clusters.values() for c in each.calls if c[0] == "create"]
    assert not [c for c in created if c[1] != "events"]  # the mirrors know all pods


async def test_a_restarted_controller_leaves_it_alone_too(world):
    (put,) = await begun(world, ("dc-west", theirs(SERVICES, "gpt")))
    await world.restart()
    await world.settle()
    assert world.condition("Reserved")[1] == "NameTaken"
    assert found(world, "dc-west", SERVICES, "gpt") == put


async def test_a_member_that_is_cut_off_does_not_make_it_forgotten(world):
    (put,) = await begun(world, ("dc-west", theirs(SERVICES, "gpt")))
    world.clusters["dc-west"].fail_next("list", Unreachable("cut"))
    await world.look()
    assert world.condition("Reserved")[1] == "NameTaken"
    assert found(world, "dc-west", SERVICES, "gpt") == put


@pytest.mark.parametrize("resource", [SERVICES, ENDPOINT_SLICES, NETWORK_POLICIES, CONFIG_MAPS])
async def test_an_edit_of_ours_is_put_right(world, resource):
    await begun(world)
    cluster = world.clusters["dc-west"]
    (whole,) = cluster.everything(resource)
    part = "data" if resource == CONFIG_MAPS else "spec"
    part = "endpoints" if resource == ENDPOINT_SLICES else part
    old, meta = whole[part], whole["metadata"]
    wrong = dict.fromkeys(old, "wrong") if isinstance(old, dict) else []
    wrong_labels = {labels.REVISION: "wrong", "geotrain.io/more": "1", "theirs": "kept"}
    edit = {part: wrong, "metadata": {"labels": wrong_labels}}
    await cluster.patch(resource, "team-a", meta["name"], edit)
    await world.drain()
    await world.settle()
    (again,) = cluster.everything(resource)
    assert again[part] == old
    assert again["metadata"]["labels"] == {**meta["labels"], "theirs": "kept"}
    assert again["metadata"]["uid"] == meta["uid"]
    assert world.status()["attempt"] == 0


async def test_a_deleted_one_of_ours_is_made_again(world):
    await begun(world)
    for resource in (SERVICES, ENDPOINT_SLICES, NETWORK_POLICIES, CONFIG_MAPS):
        (held,) = world.clusters["dc-west"].everything(resource)
        world.clusters["dc-west"].vanish(resource, "team-a", held["metadata"]["name"])
    await world.drain()
    await world.settle()
    for resource in (SERVICES, ENDPOINT_SLICES, NETWORK_POLICIES, CONFIG_MAPS):
        assert world.clusters["dc-west"].everything(resource)
    assert world.condition("Reserved")[0] == "True"


async def unlabelled(world, center, resource, name):
    """A person takes all labels off, and so makes the object their own."""
    held = found(world, center, resource, name)["metadata"]["labels"]
    gone = {"metadata": {"labels": dict.fromkeys(held)}}
    await world.clusters[center].patch(resource, "team-a", name, gone)
    await world.drain()
    return found(world, center, resource, name)


async def test_who_takes_the_labels_off_a_service_has_it_and_the_gang_runs_on(world):
    await begun(world)
    before = {pod["metadata"]["uid"] for pod in world.pods().values()}
    now = await unlabelled(world, "dc-west", SERVICES, "gpt")
    await world.settle()
    assert world.status()["phase"] == "Running"
    assert world.condition("Reserved")[:2] == ("False", "NameTaken")
    assert {pod["metadata"]["uid"] for pod in world.pods().values()} == before
    assert found(world, "dc-west", SERVICES, "gpt") == now
    await deleted(world)
    await world.settle()
    assert world.hub.everything(TRAINING_JOBS) == []
    assert found(world, "dc-west", SERVICES, "gpt") == now
    assert world.everywhere_clean()


async def test_labels_that_are_put_back_make_it_ours_again(world):
    await begun(world)
    held = found(world, "dc-west", SERVICES, "gpt")["metadata"]["labels"]
    await unlabelled(world, "dc-west", SERVICES, "gpt")
    await world.settle()
    await world.clusters["dc-west"].patch(SERVICES, "team-a", "gpt", {"metadata": {"labels": held}})
    await world.drain()
    await world.settle()
    assert world.condition("Reserved")[:2] == ("True", "GangReserved")
    await deleted(world)
    await world.settle()
    assert found(world, "dc-west", SERVICES, "gpt") is None


@pytest.fixture
async def roomy():
    """With room for one more pod in each data centre."""
    made = World(gpus=5)
    async with made.running():
        yield made


async def test_who_takes_the_labels_off_a_pod_has_it_and_the_gang_waits_for_its_name(roomy):
    world = roomy
    await begun(world)
    now = await unlabelled(world, "dc-west", PODS, "gpt-r8")
    await world.settle()
    assert world.condition("Reserved")[1] == "NameTaken"
    assert "Pod team-a/gpt-r8" in world.condition("Reserved")[2]
    assert list(world.pods()) == ["gpt-r8"]
    assert found(world, "dc-west", PODS, "gpt-r8") == now
    world.clusters["dc-west"].vanish(PODS, "team-a", "gpt-r8")
    await world.drain()
    await world.later(5)
    assert world.status()["phase"] == "Running"
    assert world.status()["observed"]["restarts"] == 1


@pytest.mark.parametrize("resource", [SERVICES, ENDPOINT_SLICES, NETWORK_POLICIES, CONFIG_MAPS])
async def test_a_copy_that_a_person_made_of_ours_is_the_persons(world, resource):
    """Whatever its labels say: under another name, or in another namespace."""
    await begun(world)
    (ours,) = world.clusters["dc-west"].everything(resource)
    copies = []
    for changes in ({"name": f"{ours['metadata']['name']}-mine"}, {"namespace": "team-b"}):
        meta = {"name": ours["metadata"]["name"], "namespace": "team-a"} | changes
        meta["labels"] = ours["metadata"]["labels"]
        copies.append(world.clusters["dc-west"].put({**ours, "metadata": meta}))
    await world.drain()
    world.submit(job(failurePolicy={"maxRestarts": 9}))
    await world.settle()
    await deleted(world)
    await world.settle()
    await world.look(Key(DATA_CENTERS, "", "dc-west"))
    left = world.clusters["dc-west"].everything(resource)
    assert sorted(left, key=str) == sorted(copies, key=str)


async def test_a_foreign_pod_with_our_labels_is_no_rank(world):
    await begun(world)
    real = found(world, "dc-west", PODS, "gpt-r8")
    forged = theirs(PODS, "evil", real["metadata"]["labels"], spec=real["spec"])
    forged["metadata"]["namespace"] = "a-tenant"
    forged["status"] = {"phase": "Running", "podIP": "6.6.6.6"}
    put = world.clusters["dc-west"].put(forged)
    await world.drain()
    await world.settle()
    for center in CENTERS:
        for kind in (ENDPOINT_SLICES, NETWORK_POLICIES):
            assert "6.6.6.6" not in str(world.clusters[center].everything(kind))
    assert found(world, "dc-west", PODS, "gpt-r8")["metadata"]["uid"] == real["metadata"]["uid"]
    await deleted(world)
    await world.settle()
    assert found(world, "dc-west", PODS, "evil") == put


class Swapping:
    """Somebody who is quicker: does a thing right before the next write of a verb."""

    def __init__(self, cluster, verb, act):
        self.call, self.verb, self.act = getattr(cluster, verb), verb, act
        setattr(cluster, verb, self)

    async def __call__(self, resource, *rest, **more):
        act, self.act = self.act, None
        if act is not None and resource == SERVICES:
            act()
        else:
            self.act = act
        return await self.call(resource, *rest, **more)


async def test_what_comes_between_look_and_creation_is_not_written_over(world):
    cluster = world.clusters["dc-west"]
    Swapping(cluster, "create", lambda: cluster.put(theirs(SERVICES, "gpt")))
    await begun(world)
    assert world.condition("Reserved")[1] == "NameTaken"
    assert found(world, "dc-west", SERVICES, "gpt")["spec"] == {"theirs": True}
    assert list(world.pods()) == []


@pytest.mark.parametrize("unlabel_only", [False, True], ids=["swapped", "unlabelled"])
async def test_what_comes_between_look_and_change_is_not_written_over(world, unlabel_only):
    await begun(world)
    cluster = world.clusters["dc-west"]
    held = found(world, "dc-west", SERVICES, "gpt")

    def swap():
        cluster.vanish(SERVICES, "team-a", "gpt")
        kept = {"uid": held["metadata"]["uid"]} if unlabel_only else {}
        made = theirs(SERVICES, "gpt")
        cluster.put({**made, "metadata": {**made["metadata"], **kept}})

    await cluster.patch(SERVICES, "team-a", "gpt", {"spec": {"publishNotReadyAddresses": False}})
    await world.drain()
    Swapping(cluster, "patch", swap)
    await world.settle()
    assert found(world, "dc-west", SERVICES, "gpt")["spec"] == {"theirs": True}
    assert world.condition("Reserved")[:2] == ("False", "NameTaken")
    assert world.status()["phase"] == "Running"


async def test_what_comes_between_look_and_deletion_is_not_deleted(world):
    await begun(world)
    cluster = world.clusters["dc-west"]

    def swap():
        cluster.vanish(SERVICES, "team-a", "gpt")
        cluster.put(theirs(SERVICES, "gpt"))

    Swapping(cluster, "delete", swap)
    await deleted(world)
    await world.settle()
    assert found(world, "dc-west", SERVICES, "gpt")["spec"] == {"theirs": True}
    assert world.hub.everything(TRAINING_JOBS) == []


async def test_a_change_by_others_in_between_is_looked_at_and_put_right(world):
    await begun(world)
    cluster = world.clusters["dc-west"]
    await cluster.patch(SERVICES, "team-a", "gpt", {"spec": {"publishNotReadyAddresses": False}})
    await world.drain()

    def edit():
        held = found(world, "dc-west", SERVICES, "gpt")
        cluster.put({**held, "spec": {**held["spec"], "clusterIP": "10.0.0.9"}})

    Swapping(cluster, "patch", edit)
    await world.settle()
    spec = found(world, "dc-west", SERVICES, "gpt")["spec"]
    assert (spec["publishNotReadyAddresses"], spec["clusterIP"]) == (True, "None")
    assert world.faults == []


async def test_an_object_that_others_write_without_end_is_left_for_later(world):
    await begun(world)
    cluster = world.clusters["dc-west"]
    await cluster.patch(SERVICES, "team-a", "gpt", {"spec": {"publishNotReadyAddresses": False}})
    await world.drain()
    cluster.fail_next("patch", Conflict("busy"), times=3)
    await world.look()
    assert [str(fault) for fault in world.faults] == ["services gpt is being written by others"]
    await world.settle()
    assert found(world, "dc-west", SERVICES, "gpt")["spec"]["publishNotReadyAddresses"] is True


async def test_two_jobs_whose_names_run_into_those_of_data_centres_do_not_meet(world):
    """Job a in dc-west, and job a-dc in west."""
    ref = {"namespace": "geotrain-system", "name": "dc-west"}
    center = manifests.data_center("west", gpuResource=GPU, cluster={"kubeconfigSecretRef": ref})
    world.hub.put(center)
    world.clusters["dc-west"].put(node_manifest("west-node", "west", gpu="4", memory="64Gi"))
    await world.drain()
    for name, where in (("a", "dc-west"), ("a-dc", "west")):
        fixed = {"policy": "Fixed", "stages": [{"dataCenter": where, "stages": 2}]}
        world.submit(job(name, parallelism={"data": 2, "pipeline": 2}, placement=fixed))
        await world.settle(Key(TRAINING_JOBS, "team-a", name))
    for name in ("a", "a-dc"):
        assert world.status(name)["phase"] == "Running", world.condition("Reserved", name)
    held = [*world.hub.everything(BANDWIDTH_SCHEDULES)]
    held += world.clusters["dc-west"].everything(CONFIG_MAPS)
    assert Counter(map(owner, held)) == {world.job(n)["metadata"]["uid"]: 2 for n in ("a", "a-dc")}
