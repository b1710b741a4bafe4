"""A gang whose traffic sidecars could not tell or carry is not started, and says why."""

import pytest

from geotrain.api.objects import DATA_CENTERS, ENDPOINT_SLICES, PODS
from geotrain.roles.controller.controller import Key
from support.world import CENTERS, World, job

NETWORKS = {"dc-central": "10.101.0.0/16", "dc-east": "10.102.0.0/16", "dc-west": "10.103.0.0/16"}


def world_with(**cidrs):
    """A world whose data centres have other pod networks; a list of none: what nodes tell."""
    made = World()
    for center in made.hub.everything(DATA_CENTERS):
        name = center["metadata"]["name"]
        if name in cidrs:
            center["spec"]["network"] = {"podCIDRs": cidrs[name]}
            made.hub.put(center)
    return made


async def settled(world, **spec):
    world.submit(job(**spec))
    await world.settle()


@pytest.mark.parametrize(
    ("cidrs", "reason", "says"),
    [
        ([], "PodNetworkUnknown", "dc-west: its nodes tell no spec.podCIDRs; set DataCenter"),
        (["10.102.7.0/24"], "PodNetworkOverlap", "overlaps 10.10"),
        (["fd00:3::/48"], "PodNetworkUnsupported", "dc-west: fd00:3::/48 is IPv6 only"),
    ],
)
async def test_a_job_over_such_networks_is_not_started(cidrs, reason, says):
    world = world_with(**{"dc-west": cidrs})
    async with world.running():
        await settled(world)
        assert world.condition("Reserved")[:2] == ("False", reason)
        assert says in world.condition("Reserved")[2]
        assert not world.pods()
        center = next(
            c for c in world.hub.everything(DATA_CENTERS) if c["metadata"]["name"] == "dc-west"
        )
        found = {c["type"]: c["reason"] for c in center["status"]["conditions"]}
        assert found["NetworkReady"] == reason


async def test_it_starts_once_the_networks_are_given():
    world = world_with(**{"dc-west": []})
    async with world.running():
        await settled(world)
        center = next(
            c for c in world.hub.everything(DATA_CENTERS) if c["metadata"]["name"] == "dc-west"
        )
        center["spec"]["network"] = {"podCIDRs": [NETWORKS["dc-west"]]}
        world.hub.put(center)
        await world.look(Key(DATA_CENTERS, "", "dc-west"))
        await world.later(20)
        assert world.status()["phase"] == "Running"


async def test_a_job_without_sidecars_needs_no_networks():
    world = world_with(**{"dc-west": []})
    async with world.running():
        await settled(world, network={"enforcement": "None"})
        assert world.status()["phase"] == "Running"


async def test_a_job_in_one_data_center_needs_no_networks():
    world = World(gpus=12)
    for center in world.hub.everything(DATA_CENTERS):
        center["spec"]["network"] = {"podCIDRs": []}
        world.hub.put(center)
    async with world.running():
        await settled(world, placement={"dataCenters": ["dc-west"]})
        assert world.status()["phase"] == "Running"


async def test_dual_stack_runs_over_ipv4():
    both = {name: [cidr, f"fd00:{n}::/48"] for n, (name, cidr) in enumerate(NETWORKS.items())}
    world = world_with(**both)
    async with world.running():
        world.submit(job())
        await world.look()
        for name in CENTERS:  # the first address is the IPv6 one
            for number, pod in enumerate(world.clusters[name].everything(PODS)):
                four = f"{NETWORKS[name].removesuffix('.0.0/16')}.1.{number}"
                ips = [{"ip": f"fd00::{number}"}, {"ip": four}]
                pod["status"] = {"phase": "Running", "podIP": ips[0]["ip"], "podIPs": ips}
                pod["spec"]["nodeName"] = f"{name}-node"
                world.clusters[name].put(pod)
        await world.drain()
        await world.settle()
        families = {e["addressType"] for e in world.hub.everything(ENDPOINT_SLICES)}
        assert families == {"IPv4"}


async def test_ranks_outside_of_the_networks_are_told_of():
    world = world_with(**{"dc-west": ["10.99.0.0/16"]})
    async with world.running():
        await settled(world)
        assert world.status()["phase"] == "Running"
        assert world.condition("WindowsEnforced")[:2] == ("False", "NotIntercepted")
        assert (
            "outside the pod networks of dc-west (10.99.0.0/16)"
            in (world.condition("WindowsEnforced")[2])
        )
