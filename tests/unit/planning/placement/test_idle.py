"""GPUs that are left idle: why, and which degrees would use them."""

from dataclasses import replace

import pytest

from geotrain.planning.placement.choose import choose
from geotrain.planning.placement.idle import better, idle
from support.planning import links, placement, profile, topology, workload

FAST = {"capacity": 100e9, "round_trip": 0.001}


def two(a, b):
    return topology({"a": a, "b": b}, links(("a", "b"), **FAST))


def test_each_data_centre_says_why_it_has_some_left():
    places = topology({"a": 9, "b": 4, "c": 1, "d": 8, "e": 4}, links(("a", "b"), ("a", "d")))
    asked = workload(allowed=("a", "b", "c", "d"))
    found = {
        each.data_center: (each.gpus, each.why)
        for each in idle(places, asked, placement(("a", 4), data=2))
    }
    assert found == {
        "a": (1, "another stage needs 2 (tensor 1 x data 2)"),
        "b": (4, "stages in it would make no faster iteration"),
        "c": (1, "one stage needs 2 (tensor 1 x data 2)"),
        "d": (8, "stages in it would make no faster iteration"),
        "e": (4, "placement.dataCenters does not name it"),
    }


def test_room_that_no_stage_is_left_for_and_places_without_link():
    places = topology({"a": 12, "b": 4}, ())
    first, second = idle(places, workload(), placement(("a", 4), data=2))
    assert first.why == "all 4 stages have their place"
    assert second.why == "no WanLink joins it with a"
    fixed = workload(placement="Fixed", fixed=(("a", 4),))
    assert {each.why for each in idle(places, fixed, placement(("a", 4), data=2))} == {
        "placement.stages asks for no more of it"
    }


def test_where_all_are_used_nothing_is_idle():
    assert idle(two(4, 4), workload(), placement(("a", 2), ("b", 2), data=2)) == ()


def planned(places, asked):
    plan = choose(places, asked)
    return plan, better(places, asked, plan)


def test_a_longer_pipeline_or_more_replicas_would_use_them():
    places = two(8, 4)
    plan, more = planned(places, workload(profile=profile(12), pipeline=4, global_batch=32))
    assert more is not None
    assert more.gpus > plan.ranks
    assert more.samples_per_second > plan.alternatives[0].samples_per_second * 1.01
    asked = workload(profile=profile(12), pipeline=more.pipeline, data=more.data, global_batch=32)
    assert choose(places, asked).iteration == more.iteration


@pytest.mark.parametrize(
    "changes",
    [{"objective": "Cost"}, {"placement": "Fixed", "fixed": (("a", 4),)}, {"global_batch": 2}],
)
def test_where_nothing_is_faster_nothing_is_said(changes):
    places = two(8, 4)
    plan, more = planned(places, workload(profile=profile(4), **changes))
    assert plan.ranks == 8
    assert more is None


def test_without_room_for_the_degrees_nothing_is_said():
    plan, more = planned(two(8, 1), workload(profile=profile(4)))
    assert more is None
    # A plan of another job, whose own degrees do not fit at all.
    heavy = workload(profile=profile(12, parameters=2**30), memory_per_gpu=2**20)
    assert better(two(8, 4), heavy, plan) is None


def test_what_patterns_promise_counts_only_where_the_whole_plan_is_faster():
    places, asked = two(8, 4), workload(profile=profile(12), global_batch=32)
    plan, more = planned(places, asked)
    assert more is not None
    first = replace(plan.alternatives[0], samples_per_second=1e9)
    assert better(places, asked, replace(plan, alternatives=(first,))) is None
