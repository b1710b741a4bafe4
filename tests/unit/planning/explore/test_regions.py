from dataclasses import replace

import pytest

from geotrain.model.topology import DataCenter, Lan, Topology, WanLink
from geotrain.planning.explore.regions import regions


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
