from dataclasses import replace

import pytest

from geotrain.model.topology import DataCenter, Lan, Topology, WanLink
from geotrain.planning.costs.calibrations import Node
from geotrain.planning.costs.tiers import Constant, Tier
from geotrain.planning.explore import regions as module
from geotrain.planning.explore.network import way
from geotrain.planning.explore.regions import Pods

NODE = Node(8, Tier(Constant(3.6e12)), Tier(Constant(1e11)))


def regions(places, devices, gpus, allowed=(), **values):
    return module.regions(places, devices, lambda _: Pods(gpus, NODE, **values), allowed)


def link(source, target, capacity=8e9, round_trip=0.04):
    return WanLink(source, target, capacity, round_trip, per_pod_capacity=5e9, efficiency=0.9)


def both(*arguments):
    source, target, *rest = arguments
    return link(source, target, *rest), link(target, source, *rest)


PLACES = Topology(
    (DataCenter("c", 8), DataCenter("a", 8), DataCenter("b", 16)),
    (*both("a", "b"), *both("b", "c", 4e9), *both("a", "c", 8e9, 0.08)),
)


def test_the_largest_come_first_and_share_evenly():
    found = list(regions(PLACES, 16, 2))
    assert [each.data_centers for each in found] == [("b",), ("b", "a")]
    assert [each.network.devices for each in found] == [16, 16]
    assert len(found[0].network.tiers) == 2
    assert [each.data_centers for each in regions(PLACES, 24, 2)] == [("b", "a", "c")]


def test_the_slowest_link_is_shared_by_the_devices_of_a_data_centre():
    (three,) = regions(PLACES, 24, 2)
    node, inside, wide = three.network.tiers
    assert (node.units, inside.units, wide.units) == (2, 4, 3)
    assert (inside.rate, inside.most) == (50e9, 100e9)
    assert (wide.rate, wide.most, wide.latency) == (4e9 / 8, 4e9, 0.04)
    assert three.network.transports[0].efficiency == (1.0, 1.0, 0.9)
    assert three.network.inner is NODE


def test_a_pods_gpus_share_what_it_reaches_of_another_data_centre():
    (three,) = regions(PLACES, 24, 2)
    transport = three.network.transports[0]
    assert way(three.network, transport, (1, 4, 12), 2).borders[3].rate == 0.9 * 4e9 / 2
    assert way(three.network, transport, (1, 4, 12), 1).borders[3].rate == 0.9 * 4 * 4e9 / 8


def test_a_window_bounds_a_pod_as_in_a_plan():
    small = [replace(each, window=10_000) for each in PLACES.links]
    (three,) = regions(replace(PLACES, links=tuple(small)), 24, 2, connections=2)
    assert three.network.tiers[2].most == pytest.approx(2 * 10_000 * 8 / 0.08 / 0.9)


def test_a_gpu_with_an_adapter_of_its_own_uses_no_more_than_that_alone():
    c, a, b = PLACES.data_centers
    own = replace(PLACES, data_centers=(c, a, replace(b, lan=Lan(200e9, 1e-5, 40e9))))
    (one, _) = regions(own, 16, 2)
    assert (one.network.tiers[1].rate, one.network.tiers[1].most) == (40e9, 40e9)


def test_the_slowest_lan_stands_for_all_that_take_part():
    c, a, b = PLACES.data_centers
    mixed = (c, replace(a, lan=Lan(40e9, 1e-5)), replace(b, lan=Lan(80e9, 5e-5)))
    one, two = regions(replace(PLACES, data_centers=mixed), 16, 2)
    inside = [each.network.tiers[1] for each in (one, two)]
    assert [(tier.rate, tier.most, tier.latency) for tier in inside] == [
        (40e9, 80e9, 5e-5),
        (20e9, 40e9, 5e-5),
    ]


@pytest.mark.parametrize(
    ("devices", "node", "allowed"),
    [(15, 1, ("a",)), (64, 2, ()), (16, 3, ()), (16, 1, ("x",))],
)
def test_where_there_is_no_room_there_is_no_region(devices, node, allowed):
    assert list(regions(PLACES, devices, node, allowed)) == []


def test_data_centres_without_a_link_do_not_share():
    apart = Topology(PLACES.data_centers, both("a", "c"))
    assert [each.data_centers for each in regions(apart, 16, 2)] == [("b",)]
    assert list(regions(apart, 16, 2, ("b", "c"))) == list(regions(apart, 16, 2, ("b",)))
