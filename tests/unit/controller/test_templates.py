"""What the controller makes of templates that may not be, and of overrides."""

import copy

import pytest

from geotrain.api.objects import DATA_CENTERS, NODES, WAN_LINKS
from support.scheduling import node_manifest
from support.world import GPU, World, job

FIXED = {
    "policy": "Fixed",
    "stages": [{"dataCenter": name, "stages": 2} for name in ("dc-west", "dc-central", "dc-east")],
}
AMD = "amd.com/gpu"


@pytest.fixture
async def world():
    made = World()
    async with made.running():
        yield made


def containers(*gpus, **fields):
    """A template with a container for each number of GPUs, trainer and helpers."""
    names = ("trainer", "helper", "other")
    return {
        "spec": {
            "containers": [
                {"name": name, "image": "a", "resources": {"limits": {GPU: count}}}
                for name, count in zip(names, gpus, strict=False)
            ],
            **fields,
        }
    }


def with_amd(world, center="dc-east"):
    """Give a data centre GPUs of another kind."""
    cluster = world.clusters[center]
    cluster.vanish(NODES, "", f"{center}-node")
    node = node_manifest(f"{center}-node", center, memory="64Gi")
    node["status"]["allocatable"][AMD] = "4"
    cluster.put(node)
    (found,) = (d for d in world.hub.everything(DATA_CENTERS) if d["metadata"]["name"] == center)
    found["spec"]["gpuResource"] = AMD
    world.submit(found)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (
            containers(1),
            "each pod asks for 1 example.com/gpu in container trainer; parallelism.tensor is 2",
        ),
        (
            containers(1, 2),
            "each pod asks for 1 + 2 = 3 example.com/gpu in containers trainer, helper;"
            " parallelism.tensor is 2",
        ),
        (
            containers(1, 1),
            "each pod asks for 1 + 1 = 2 example.com/gpu in containers trainer, helper; the GPUs of"
            " a rank are one container's",
        ),
        ({"spec": {"containers": [{"name": "t", "image": "a"}]}}, "no container asks for"),
        (containers(2, hostPID=True), "spec.template.spec.hostPID: goes beyond Pod Security"),
        (containers(2, nodeNme="a"), "spec.template.spec.nodeNme: unknown field; did you mean"),
        (containers(2, subdomain="a"), "spec.template.spec.subdomain: geotrain sets it"),
    ],
    ids=["fewer", "two", "split", "none", "baseline", "unknown", "owned"],
)
async def test_a_template_that_may_not_be_is_refused_with_what_would_be_right(
    world, template, said
):
    world.submit(job(template=template, parallelism={"data": 1, "pipeline": 6, "tensor": 2}))
    await world.settle()
    status, reason, message = world.condition("Planned")
    assert (status, reason) == ("False", "InvalidSpec")
    assert said in message
    assert message.count(said) == 1
    assert world.pods() == {}
    assert world.status()["phase"] == "Pending"


async def test_the_gpus_of_the_tensor_degree_are_those_of_the_plan(world):
    world.submit(job(template=containers(2), parallelism={"data": 1, "pipeline": 6, "tensor": 2}))
    await world.settle()
    assert world.status()["phase"] == "Running"
    assert [s["gpus"] for s in world.status()["plan"]["stages"]] == [4, 4, 4]


async def test_a_gang_runs_on_with_a_template_that_may_not_be_and_is_not_made_again(world):
    """As of a job that was there before the rule was."""
    world.submit(job(placement=FIXED))
    await world.settle()
    before = set(world.pods())
    wrong = copy.deepcopy(world.job())
    wrong["spec"]["template"]["spec"]["hostNetwork"] = True
    world.submit(wrong)
    await world.later(10)
    assert world.condition("Planned")[1] == "InvalidSpec"
    assert set(world.pods()) == before
    assert world.status()["phase"] == "Running"
    world.end("gpt-r0", "Failed")
    for _ in range(3):
        await world.later(10)
    assert world.pods() == {}


async def test_a_data_centre_with_other_gpus_is_left_out_where_it_is_not_needed(world):
    with_amd(world)
    world.submit(job(parallelism={"data": 1, "pipeline": 6}))
    await world.settle()
    assert world.status()["phase"] == "Running"
    (left_out,) = world.status()["plan"]["leftOut"]
    assert left_out["dataCenter"] == "dc-east"
    assert "no container asks for amd.com/gpu" in left_out["why"]


async def test_a_named_data_centre_with_other_gpus_is_refused_with_its_name(world):
    with_amd(world)
    world.submit(job(placement=FIXED))
    await world.settle()
    status, reason, message = world.condition("Planned")
    assert (status, reason) == ("False", "InvalidSpec")
    assert message.startswith("dc-east: no container asks for amd.com/gpu (its containers ask for")


async def test_an_override_makes_the_pods_of_one_data_centre_differ(world):
    with_amd(world)
    override = {
        "dataCenter": "dc-east",
        "image": "east/trainer:2",
        "resources": {"limits": {AMD: 1}},
        "tolerations": [{"key": "rdma", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "east"}],
        "runtimeClassName": "amd",
    }
    world.submit(job(placement=FIXED, overrides=[override]))
    await world.settle()
    assert world.status()["phase"] == "Running"
    for name, pod in world.pods().items():
        spec = pod["spec"]
        trainer = spec["containers"][0]
        is_east = name in world.pods("dc-east")
        assert trainer["image"] == ("east/trainer:2" if is_east else "example.com/trainer")
        assert (AMD in trainer["resources"]["limits"]) == is_east
        assert (GPU in trainer["resources"]["limits"]) != is_east
        assert spec.get("runtimeClassName") == ("amd" if is_east else None)
        assert ("imagePullSecrets" in spec) == is_east


async def test_a_change_of_an_override_replaces_the_gang_and_none_changes_nothing(world):
    world.submit(job(placement=FIXED))
    await world.settle()
    first = world.status()["revision"]
    world.submit(job(placement=FIXED, overrides=[]))
    await world.settle()
    assert world.status()["revision"] == first
    world.submit(job(placement=FIXED, overrides=[{"dataCenter": "dc-east", "image": "b"}]))
    for _ in range(3):
        await world.later(20)
    assert world.status()["revision"] != first
    assert world.status()["phase"] == "Running"


async def test_an_override_for_a_data_centre_that_is_not_there_is_said(world):
    world.submit(job(overrides=[{"dataCenter": "dc-north", "image": "b"}]))
    await world.settle()
    assert (
        "spec.overrides[0] is for 'dc-north', and there is no such"
        in (world.condition("Planned")[2])
    )
    assert world.status()["phase"] == "Running"


def narrow(world, **spec):
    for link in world.hub.everything(WAN_LINKS):
        link["spec"] |= spec
        world.submit(link)


@pytest.mark.parametrize("wanted", ["auto", 64, 61, 2])
async def test_nccl_gets_as_many_sockets_as_planned_and_no_more_than_it_takes(world, wanted):
    narrow(world, capacity="20G", perPodCapacity="5G", tcpWindow="128Ki", roundTripTime="73ms")
    world.submit(job(placement=FIXED, network={"enforcement": "None", "connections": wanted}))
    await world.settle()
    plan = world.status()["plan"]
    planned = max(link["connections"] for link in plan["links"])
    assert planned == (64 if wanted == "auto" else wanted)
    for pod in world.pods().values():
        env = {e["name"]: e.get("value") for e in pod["spec"]["containers"][0]["env"]}
        threads, sockets = (
            int(env[name]) for name in ("NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD")
        )
        assert threads <= 16
        assert planned <= threads * sockets <= 64
    told = "64 connections a path (NCCL's most between two ranks) instead of 698"
    assert (told in world.condition("Planned")[2]) == (wanted == "auto")
    assert any(told in note for note in plan["notes"]) == (wanted == "auto")


async def test_an_absurd_window_is_no_reason_for_a_hundred_thousand_connections(world):
    narrow(world, tcpWindow="1")
    world.submit(job(placement=FIXED))
    await world.settle()
    assert {link["connections"] for link in world.status()["plan"]["links"]} == {512}
    message = world.condition("Planned")[2]
    assert "512 connections a path (the sidecar's most) instead of" in message
    assert "raise the hosts' TCP buffers, and tcpWindow with them" in message
