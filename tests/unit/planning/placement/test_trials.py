import sys
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from geotrain.model.topology import DataCenter, Topology
from geotrain.planning.placement import trials
from geotrain.planning.placement.bounds import bound
from geotrain.planning.placement.costing import Costing
from geotrain.planning.schedule import checks
from geotrain.planning.schedule.timeline import replay
from support.planning import links, pipeline, placement, profile, topology, wan, workload

GIB = 2**30


def names(costs, micro_batches=8, room=None, **values):
    room = room or (micro_batches,) * len(costs.stages)
    return [
        t.name
        for t in trials.patterned(
            costs, workload(**{"schedule": "Auto", **values}), micro_batches, room
        )
    ]


def test_without_the_wide_area_only_memory_makes_a_warm_up():
    assert names(pipeline(3)) == ["GPipe", "OneFOneB", "Atlas +memory by arrival"]


def test_warm_ups_over_the_wide_area_are_tried_as_far_as_they_differ():
    costs = pipeline(3, {1: wan(1.0, 2.0)}, backward=1.0)
    assert names(costs, schedule="Atlas", micro_batches=32) == [
        "Atlas",
        "Atlas +rule",
        "Atlas +1",
        "Atlas +2",
        "Atlas +4",
        "Atlas +8",
        "Atlas +8 by arrival",
        "Atlas +16",
        "Atlas +memory",
    ]


def test_long_iterations_are_tried_by_patterns_alone():
    found = names(pipeline(3, {1: wan(1.0, 2.0)}), micro_batches=20_000)
    assert "Atlas +rule" in found
    assert not any("by arrival" in name for name in found)


@pytest.mark.parametrize("policy", ["GPipe", "OneFOneB"])
def test_a_policy_is_the_only_order(policy):
    assert names(pipeline(3, {1: wan(1.0, 2.0)}), schedule=policy) == [policy]


def test_orders_that_memory_does_not_hold_say_where():
    found = list(trials.patterned(pipeline(3), workload(schedule="Auto"), 8, (2, 2, 2)))
    assert found[:2] == [
        trials.Unfit("GPipe", "holds 8 micro-batches at stage 0; memory has room for 2"),
        trials.Unfit("OneFOneB", "holds 3 micro-batches at stage 0; memory has room for 2"),
    ]
    for trial in found[2:]:
        assert checks.problems(trials.order_of(trial.ready), (2, 2, 2)) == []


def test_geopipes_rule_needs_no_warm_up_where_work_takes_no_time():
    assert "Atlas +rule" not in names(
        pipeline(2, {0: wan(1.0, 2.0)}, forward=0.0, backward=0.0), schedule="Atlas"
    )


def test_room_is_what_memory_leaves_at_most_all_micro_batches():
    costs = pipeline(2, held=GIB, fixed=10 * GIB)
    assert trials.caps(costs, workload(schedule="Auto"), 8) == (8, 8)
    assert trials.caps(costs, workload(memory_per_gpu=13 * GIB), 8) == (3, 3)
    assert trials.caps(costs, workload(memory_per_gpu=80 * GIB), 8) == (8, 8)
    assert trials.caps(costs, workload(memory_per_gpu=9 * GIB), 8) == (-1, -1)


@given(
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 6),
    st.lists(st.floats(0, 5), min_size=4, max_size=4),
)
def test_no_order_beats_the_bound(stages, replicas, micro_batches, times):
    transfer, delay, forward, step = times
    crossing = {b: wan(transfer, delay, replicas=replicas) for b in range(0, stages - 1, 2)}
    costs = pipeline(stages, crossing, forward, step=step)
    least = bound(costs, micro_batches)
    for trial in trials.patterned(
        costs, workload(schedule="Auto"), micro_batches, (micro_batches,) * stages
    ):
        assert replay(trial.ready, costs, replicas).period >= least - 1e-9


@given(
    st.integers(1, 4),
    st.integers(1, 6),
    st.lists(st.floats(0, 5), min_size=6, max_size=6),
)
@example(2, 1, [0.0, 2.0, 0.0, 0.0, sys.float_info.min, 0.0])  # a message outlasts any work
@example(1, 1, [0.0, 0.0, 0.0, 0.0, sys.float_info.min, 1.0])
def test_no_order_with_weight_gradients_apart_beats_their_bound(stages, micro_batches, times):
    transfer, delay, forward, gradient, weight, step = times
    crossing = {b: wan(transfer, delay) for b in range(0, stages - 1, 2)}
    whole = pipeline(stages, crossing, forward, step=step)
    costs = replace(
        whole,
        stages=tuple(
            replace(s, input_gradient=gradient, weight_gradient=weight) for s in whole.stages
        ),
    )
    least = bound(costs, micro_batches, is_split=True)
    room = (micro_batches,) * stages
    work = workload(schedule="Auto")
    tried = list(trials.patterned(costs, work, micro_batches, room))
    for name in ("zb-1p", "geopipe-split", "greedy"):
        tried += trials.made(name, costs, work, micro_batches, room)
    for trial in tried:
        assert replay(trial.ready, costs, 1).period >= least - 1e-9


def test_price_counts_gpu_hours_and_bytes_that_leave():
    places = Topology(
        (DataCenter("a", 8, 2.0), DataCenter("b", 8, 1.0)),
        links(("a", "b"), cost_per_gigabyte=0.5),
    )
    work = workload(profile=profile(boundary=10**9), tensor=2, global_batch=16)
    where = placement(("a", 3), ("b", 1), data=2)
    assert Costing(places, work).wan_bytes(where) == {
        ("a", "b"): 16 * 10**9,
        ("b", "a"): 16 * 10**9,
    }
    gpus = 3 * 2 * 2 * 2.0 + 1 * 2 * 2 * 1.0
    assert Costing(places, work).price(where, 36.0) == pytest.approx(gpus * 0.01 + 2 * 16 * 0.5)
    alone = topology({"a": 8})
    assert Costing(alone, work).price(placement(("a", 4), data=2), 36.0) == 0.0
