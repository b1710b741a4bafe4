from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.planning.costs.shapes import Experts
from geotrain.planning.explore.layouts import (
    AXES,
    Degrees,
    Layout,
    Placement,
    degrees,
    factors,
    innermost,
    placements,
    spread,
    without,
)
from support.exploring import machine, problem


def test_axes_fill_the_tiers_from_the_inside_out():
    table = factors(machine(units=(8, 16, 4)), Degrees(8, 1, 16, 4), Placement())
    assert dict(zip(AXES, table, strict=True)) == {
        "tensor": (8, 1, 1),
        "context": (1, 1, 1),
        "data": (1, 4, 4),
        "pipeline": (1, 4, 1),
    }


def test_an_outer_axis_takes_the_outermost_tiers_first_and_the_rest_inside():
    placement = Placement(("tensor", "context", "pipeline", "data"), "pipeline", 1)
    table = factors(machine(units=(8, 16, 4)), Degrees(8, 1, 8, 8), placement)
    assert table[3] == (1, 2, 4)
    assert table[2] == (1, 8, 1)


@given(st.data())
def test_every_placement_spreads_every_group_evenly(draw):
    units = draw.draw(st.tuples(*[st.sampled_from([1, 2, 3, 4, 6])] * 3))
    network = machine(units=units)
    found = list(degrees(network, problem(network, heads=12, hidden=768).shape, 144))
    if found:
        each = draw.draw(st.sampled_from(found))
        table = factors(network, each, draw.draw(st.sampled_from(placements(network))))
        assert tuple(map(prod, table)) == each.axes
        assert tuple(map(prod, zip(*table, strict=True))) == units
        shard = innermost(table[2], each.shard)
        assert prod(shard) == each.shard
        assert prod(without(table[2], shard)) * each.shard == each.data
        assert spread(table[2])[-1] == each.data


def test_every_split_that_comes_out_even_is_tried_once():
    task = problem()
    found = list(degrees(task.network, task.shape, task.batch))
    assert len(found) == len(set(found))
    assert {each.devices for each in found} == {8}
    assert Degrees(8, 1, 1, 1) in found
    assert Degrees(1, 1, 8, 1, 1, 4) in found  # sharded over the replicas of a building
    assert all(each.expert == 1 for each in found)
    assert all(task.shape.layers >= each.pipeline for each in found)


def test_experts_are_spread_over_whole_tensor_groups():
    task = problem(experts=Experts(4, 2, 1024))
    found = list(degrees(task.network, task.shape, task.batch))
    assert {each.expert for each in found if each.tensor == 2} == {1, 2}
    assert all(each.tensor != 8 for each in found)


def test_a_nesting_names_every_axis_once():
    with pytest.raises(ValueError, match="must name tensor, context, data, pipeline once each"):
        Placement(("tensor",))
    assert len(placements(machine())) == len(set(placements(machine())))


def test_what_differs_is_named_and_the_data_degree_follows():
    one = Layout(Degrees(2, 1, 2, 2), micro_batch=1)
    other = Layout(Degrees(1, 1, 4, 2), micro_batch=2)
    assert one.differs(other) == ("tensor", "micro-batch")
    assert one.differs(one) == ()
