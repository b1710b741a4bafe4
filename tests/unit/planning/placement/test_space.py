from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.model.topology import DataCenter
from geotrain.planning.placement.space import Space
from support import brute_force
from support.planning import links, topology, workload


def space(gpus, wan=None, **values):
    return Space(topology(gpus, wan), workload(**values))


def routes(found, data):
    """All routes with room for all stages."""
    grown = [()]
    for route in grown:
        grown += found.longer(route, data)
    return [route for route in grown if route and found.is_enough(route, data)]


def placements(found):
    return [
        (segments, data)
        for data in found.degrees
        for route in routes(found, data)
        for segments in found.splits(route, data)
    ]


def test_splits_fill_the_first_data_centres_first():
    found = space({"a": 3, "b": 8}, data=1)
    assert list(found.splits(("a", "b"), 1)) == [
        (("a", 3), ("b", 1)),
        (("a", 2), ("b", 2)),
        (("a", 1), ("b", 3)),
    ]
    assert list(found.splits(("b",), 1)) == [(("b", 4),)]


def test_every_stage_and_data_centre_of_a_split_has_room():
    found = space({"a": 3, "b": 2, "c": 2}, data=1, pipeline=6)
    assert list(found.splits(("c", "a", "b"), 1)) == [
        (("c", 2), ("a", 3), ("b", 1)),
        (("c", 2), ("a", 2), ("b", 2)),
        (("c", 1), ("a", 3), ("b", 2)),
    ]


def test_routes_are_no_longer_than_the_pipeline_and_cross_links_in_both_directions():
    wan = (*links(("a", "b")), *links(("b", "c"))[:1])
    found = space({"a": 4, "b": 3, "c": 2}, wan, data=1, pipeline=2)
    assert routes(found, 1) == [("a",), ("b",), ("c",), ("a", "b"), ("b", "a")]


def test_data_centres_without_room_are_on_no_route():
    assert routes(space({"a": 8, "b": 1}, data=2), 2) == [("a",)]


def test_of_interchangeable_data_centres_the_first_by_name_comes_first():
    assert routes(space({"b": 4, "a": 4}, data=1), 1) == [("a",), ("a", "b")]
    uneven = (*links(("a", "b")), *links(("a", "c"), ("b", "c"), round_trip=0.5))
    assert routes(space({"a": 2, "b": 2, "c": 1}, uneven, data=1), 1) == [
        ("a", "b"),
        ("a", "b", "c"),
        ("a", "c", "b"),
        ("c", "a", "b"),
    ]


@pytest.mark.parametrize("value", [{"cost_per_gpu_hour": 2.0}, {"accelerator": "other"}])
def test_data_centres_that_differ_in_anything_that_costs_are_not_interchangeable(value):
    places = topology({"a": 4, "b": 4})
    first, second = places.data_centers
    differing = replace(places, data_centers=(first, replace(second, **value)))
    found = Space(differing, workload(data=1))
    assert len(routes(found, 1)) == 4


def test_data_centres_whose_links_differ_are_not_interchangeable():
    there, back = links(("a", "b"))
    found = space({"a": 4, "b": 4}, (there, replace(back, round_trip=1.0)), data=1)
    assert ("b", "a") in routes(found, 1)


@given(st.integers(0, 400))
def test_a_space_has_every_placement_but_for_names(seed):
    """What brute force has and the space has not is one with interchangeable names exchanged."""
    places, work = brute_force.problem(seed)
    found = set(placements(Space(places, work)))
    everything = {(each.segments, each.data) for each in brute_force.placements(places, work)}
    assert found <= everything
    alike = {name: _key(places, name) for name in (c.name for c in places.data_centers)}
    if len(set(alike.values())) == len(alike):
        assert found == everything


def _key(places, name):
    center = places.data_center(name)
    assert isinstance(center, DataCenter)
    return replace(center, name="")


def test_degrees_divide_the_batch_unless_it_may_be_rounded():
    assert space({"a": 12}, pipeline=2, data=None, global_batch=12).degrees == (1, 2, 3, 4, 6)
    rounded = space({"a": 12}, pipeline=2, data=None, global_batch=10, round_batch=True)
    assert rounded.degrees == (1, 2, 3, 4, 5, 6)
    assert space({"a": 12}, data=7).degrees == (7,)
