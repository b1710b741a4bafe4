"""Wrong input, too little room, and controllers that die anywhere."""

import json

import pytest

from geotrain.api.objects import (
    BANDWIDTH_SCHEDULES,
    CONFIG_MAPS,
    DATA_CENTERS,
    PODS,
    SECRETS,
    TRAINING_JOBS,
    WAN_LINKS,
)
from geotrain.errors import Forbidden, Invalid, TooManyRequests, Unreachable
from geotrain.roles.controller.controller import Key
from support import manifests
from support.scheduling import GPU, node_manifest
from support.world import CENTERS, PROFILE, World, job, profile, secret

WRITES = ("create", "apply", "patch", "delete")


@pytest.fixture
async def world():
    made = World()
    async with made.running():
        yield made


def stranger(name, center, gpus):
    asked = {GPU: str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "other"},
        "spec": {
            "nodeName": f"{center}-node",
            "containers": [{"name": "c", "resources": {"requests": asked}}],
        },
        "status": {"phase": "Running"},
    }


def center_condition(world, name, kind):
    found = next(c for c in world.hub.everything(DATA_CENTERS) if c["metadata"]["name"] == name)
    return next(c for c in found["status"]["conditions"] if c["type"] == kind)


async def test_a_job_that_cannot_be_placed_says_which_data_center_lacks_what(world):
    world.clusters["dc-west"].put(stranger("other", "dc-west", 3))
    await world.drain()
    world.submit(job())
    await world.settle()
    status, reason, message = world.condition("Planned")
    assert (status, reason) == ("False", "NoFeasiblePlacement")
    assert "dc-west has 1 free GPU" in message
    assert world.status()["phase"] == "Pending"
    assert world.everywhere_clean()
    assert "NoFeasiblePlacement" in world.events()


async def test_it_starts_when_there_is_room(world):
    world.clusters["dc-west"].put(stranger("other", "dc-west", 3))
    await world.drain()
    world.submit(job())
    await world.settle()
    world.clusters["dc-west"].vanish(PODS, "other", "other")
    await world.drain()
    await world.settle()
    assert world.status()["phase"] == "Running"


async def test_a_gang_that_lost_its_room_before_it_was_let_go_waits_and_holds_nothing(world):
    world.submit(job())
    await world.look()
    assert len(world.pods()) == 12
    world.clusters["dc-west"].put(stranger("other", "dc-west", 3))
    await world.drain()
    await world.settle()
    assert world.condition("Reserved")[0] == "False"
    assert "dc-west" in world.condition("Planned")[2] + world.condition("Reserved")[2]
    assert list(world.pods()) == ["other"]


async def test_a_data_center_without_memory_is_told_as_such():
    small = World()
    for name in CENTERS:
        small.clusters[name].put(node_manifest(f"{name}-node", name, gpu="4", memory="1Mi"))
    async with small.running():
        small.submit(job())
        await small.settle()
        assert "memory wanted" in small.condition("Planned")[2]


async def test_of_two_gangs_for_the_same_room_one_runs_and_the_other_says_why(world):
    world.submit(job("one"))
    world.submit(job("two"))
    keys = [Key(TRAINING_JOBS, "team-a", name) for name in ("one", "two")]
    for _ in range(4):
        for key in keys:
            await world.look(key)
        world.kubelets.work()
        await world.drain()
    phases = sorted(world.status(name)["phase"] for name in ("one", "two"))
    assert phases == ["Pending", "Running"]
    assert len(world.pods()) == 12


@pytest.mark.parametrize(
    ("text", "reason", "part"),
    [
        (None, "ProfileMissing", "ConfigMap team-a/profile does not exist"),
        ("{", "ProfileInvalid", "not JSON"),
        ("[]", "ProfileInvalid", "must be a JSON object"),
        (
            json.dumps({**PROFILE, "layers": [{**PROFILE["layers"][0], "forward": "-3ms"}]}),
            "ProfileInvalid",
            "forward",
        ),
        ('{"1": {"1": {"0": [0.1, 0.2, 0]}}}', "ProfileInvalid", "give spec.model too"),
    ],
)
async def test_a_wrong_profile_is_a_condition(world, text, reason, part):
    world.hub.vanish(CONFIG_MAPS, "team-a", "profile")
    if text is not None:
        world.hub.put(profile(text))
    world.submit(job())
    await world.settle()
    status, told, message = world.condition("Planned")
    assert (status, told) == ("False", reason)
    assert part in message
    assert world.faults == []
    world.hub.put(profile())
    await world.settle()
    assert world.status()["phase"] == "Running"


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"parallelism": {"data": 2, "pipeline": 9}}, "InvalidParallelism"),
        ({"placement": {"dataCenters": ["dc-nowhere"]}}, "UnknownDataCenter"),
        ({"profileRef": None, "model": manifests.training_job()["spec"]["model"]}, ""),
    ],
)
async def test_a_job_that_can_never_be_placed_is_a_condition(world, spec, reason):
    world.submit(job(**spec))
    await world.settle()
    told = world.condition("Planned")[1]
    assert told == (reason or "PlanReady")
    assert world.faults == []


async def test_a_job_that_cannot_be_read_is_a_condition(world):
    world.submit(job(parallelism={"pipeline": "many"}))
    await world.settle()
    assert world.condition("Planned")[:2] == ("False", "InvalidSpec")
    assert "pipeline" in world.condition("Planned")[2]
    assert world.faults == []


async def test_somebody_elses_job_is_left_alone(world):
    world.submit(job(managedBy="kueue.x-k8s.io/multikueue"))
    await world.settle()
    assert world.status() == {}
    assert "finalizers" not in world.job()["metadata"]


async def test_a_member_that_refuses_an_object_is_a_condition(world):
    world.clusters["dc-east"].fail_next("create", Invalid("spec.containers[0].image: Required"))
    world.submit(job())
    await world.look()
    assert world.condition("Reserved")[:2] == ("False", "MemberRefused")
    assert "image" in world.condition("Reserved")[2]
    await world.settle()
    assert world.status()["phase"] == "Running"


async def test_a_namespace_that_is_too_strict_is_a_condition_with_what_to_do(world):
    said = 'pods "gpt-r0" is forbidden: violates PodSecurity "baseline:latest": hostPath volumes'
    for cluster in world.clusters.values():
        cluster.fail_next("create", Forbidden(said))
    world.submit(job())
    await world.look()
    status, reason, message = world.condition("Reserved")
    assert (status, reason) == ("False", "PodSecurityRefused")
    assert message.startswith('namespace team-a in dc-central enforces Pod Security "baseline"')
    assert "pod-security.kubernetes.io/enforce=privileged" in message
    assert "PodSecurityRefused" in world.events()


@pytest.mark.parametrize(
    ("held", "reason", "part"),
    [
        (None, "CredentialsMissing", "does not exist"),
        ({"other": "eA=="}, "CredentialsMissing", "no key 'kubeconfig'"),
        ({"kubeconfig": "!"}, "CredentialsInvalid", "not text"),
        ({"kubeconfig": "eA=="}, "CredentialsInvalid", "current-context"),
        ({"kubeconfig": "eA=="}, "CredentialsInvalid", "Secret geotrain-system/dc-west, key "),
    ],
)
async def test_a_wrong_kubeconfig_is_a_condition_until_it_is_repaired(world, held, reason, part):
    world.hub.vanish(SECRETS, "geotrain-system", "dc-west")
    if held is not None:
        broken = secret("dc-west", "")
        broken["data"] = held
        world.hub.put(broken)
    key = Key(DATA_CENTERS, "", "dc-west")
    await world.look(key)
    condition = center_condition(world, "dc-west", "Reachable")
    assert (condition["status"], condition["reason"]) == ("False", reason)
    assert part in condition["message"]
    assert world.faults == []
    world.hub.vanish(SECRETS, "geotrain-system", "dc-west")
    world.hub.put(secret("dc-west", "dc-west"))
    await world.look(key)
    assert center_condition(world, "dc-west", "Reachable")["status"] == "True"


async def test_a_member_that_forbids_says_so(world):
    world.clusters["dc-west"].fail_next("get", Forbidden("deployments is forbidden"), times=2)
    await world.look(Key(DATA_CENTERS, "", "dc-west"))
    assert center_condition(world, "dc-west", "Reachable")["reason"] == "Forbidden"


async def test_a_data_center_counts_its_gpus(world):
    world.clusters["dc-west"].put(stranger("other", "dc-west", 3))
    await world.drain()
    await world.look(Key(DATA_CENTERS, "", "dc-west"))
    found = next(
        c for c in world.hub.everything(DATA_CENTERS) if c["metadata"]["name"] == "dc-west"
    )
    assert found["status"]["gpus"] == {"capacity": 4, "allocatable": 4, "free": 1}
    assert found["status"]["nodes"] == 1


async def test_a_link_tells_what_jobs_reserved_and_what_is_wrong_with_it(world):
    world.submit(job())
    await world.settle()
    key = Key(WAN_LINKS, "", "dc-west-dc-east")
    await world.look(key)
    link = next(o for o in world.hub.everything(WAN_LINKS) if o["metadata"]["name"] == key.name)
    conditions = {c["type"]: c["reason"] for c in link["status"]["conditions"]}
    assert conditions == {"Valid": "LinkValid", "Measured": "NotMeasured"}
    assert [each["job"] for each in link["status"]["reserved"]] == ["team-a/gpt"]
    world.submit(manifests.wan_link("lost", to="dc-nowhere"))
    await world.look(Key(WAN_LINKS, "", "lost"))
    lost = next(o for o in world.hub.everything(WAN_LINKS) if o["metadata"]["name"] == "lost")
    valid = next(c for c in lost["status"]["conditions"] if c["type"] == "Valid")
    assert valid["reason"] == "UnknownDataCenter"
    assert "dc-nowhere" in valid["message"]


async def writes_of_a_placement():
    made = World()
    async with made.running():
        for cluster in made.clusters.values():
            cluster.calls.clear()
        made.submit(job())
        await made.settle()
    return {
        (name, verb): sum(call[0] == verb for call in cluster.calls)
        for name, cluster in made.clusters.items()
        for verb in WRITES
    }


@pytest.mark.parametrize("error", [Unreachable("cut"), TooManyRequests("later", 0.1)], ids=str)
async def test_a_controller_that_dies_at_any_write_of_a_placement_goes_on_where_it_was(error):
    for (center, verb), count in (await writes_of_a_placement()).items():
        for number in {0, count // 2} if count else ():
            world = World()
            async with world.running():
                world.clusters[center].fail_after(verb, number, error)
                world.submit(job())
                await world.look()
                await world.restart()
                await world.settle()
                assert world.status()["phase"] == "Running", (center, verb, number)
                assert len(world.pods()) == 12
                assert world.status()["attempt"] == 0
                assert len(world.hub.everything(BANDWIDTH_SCHEDULES)) == 3


async def test_a_restarted_controller_makes_the_same_plan_though_the_topology_changed(world):
    world.submit(job())
    await world.settle()
    before, revision = world.pods(), world.status()["revision"]
    for link in world.hub.everything(WAN_LINKS):
        link["spec"]["capacity"] = "1G"
        world.hub.put(link)
    await world.restart()
    await world.settle()
    assert world.status()["revision"] == revision
    assert world.pods() == before


async def test_a_gang_half_let_go_at_a_crash_is_let_go_whole(world):
    world.submit(job())
    await world.look()
    world.clusters["dc-west"].fail_after("patch", 2, Unreachable("cut"))
    await world.look()
    gated = [n for n, p in world.pods().items() if p["spec"].get("schedulingGates")]
    assert 0 < len(gated) < 12
    await world.restart()
    await world.settle()
    assert world.status()["phase"] == "Running"
    assert world.status()["attempt"] == 0
