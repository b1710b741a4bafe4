import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.planning.placement import what_if
from geotrain.planning.placement.costing import Costing
from geotrain.planning.placement.runner import Runner
from geotrain.planning.placement.trials import fitted, patterned
from geotrain.planning.schedule import costs, orders
from geotrain.planning.schedule.compiled import PLAIN, Engine
from geotrain.planning.schedule.timeline import program, replay
from support.planning import links, placement, profile, topology, workload
from unit.planning.schedule.test_compiled import interpreted

GIB = 2**30
PLACES = topology({"a": 8, "b": 8}, links(("a", "b"), capacity=50e6, per_pod_capacity=40e6))


def outcomes(**values):
    exact = values.pop("exact", False)
    return what_if.what_if(PLACES, workload(data=None, **values), exact=exact)


def test_every_placement_has_its_throughput_and_price_the_best_first():
    found = outcomes()
    assert [each.placement for each in found] == [
        placement(("a", 4), data=2),
        placement(("a", 4), data=1),
        placement(("a", 2), ("b", 2), data=4),
    ]
    assert found[0].schedule == "Atlas"
    assert found[0].iteration == pytest.approx(0.06 * (8 + 3), rel=0.01)
    assert found[0].samples_per_second == pytest.approx(16 / found[0].iteration)
    assert found[0].price_per_sample == 0.0


def test_over_the_wide_area_the_warm_up_may_be_the_better_one():
    (best,) = (each for each in outcomes(global_batch=64) if len(each.placement.segments) == 2)
    assert best.schedule == "Atlas +rule"
    fixed = [each.schedule for each in outcomes(schedule="OneFOneB")]
    assert set(fixed) == {"OneFOneB"}


def test_the_exact_replay_of_a_cell_is_never_faster():
    one, all_of_them = outcomes(global_batch=32), outcomes(global_batch=32, exact=True)
    periods = {each.placement: each.iteration for each in one}
    assert all(each.iteration >= periods[each.placement] for each in all_of_them)
    cell = next(each for each in all_of_them if len(each.placement.segments) == 2)
    cost = Costing(PLACES, workload(global_batch=32)).costs(cell.placement)
    depths = (8, 8, 8, 8) if cell.schedule != "Atlas" else (4, 3, 2, 1)
    assert cell.iteration >= replay(program(orders.with_depths(depths, 8)), cost, 4).period - 1


def test_what_memory_does_not_hold_is_left_out():
    heavy = profile(parameters=10 * GIB, activation=GIB)
    assert outcomes(profile=heavy, memory_per_gpu=16 * GIB) == ()
    tight = profile(activation=GIB)
    assert outcomes(profile=tight, memory_per_gpu=4 * GIB, schedule="GPipe") == ()


def test_a_degree_that_does_not_divide_the_batch_may_round_it_down():
    odd = {each.placement.data: each for each in outcomes(global_batch=10, round_batch=True)}
    assert sorted(odd) == [1, 2, 3, 4]
    assert odd[3].samples_per_second == pytest.approx(9 / odd[3].iteration)
    assert sorted({each.placement.data for each in outcomes(global_batch=10)}) == [1, 2]


def test_work_that_takes_no_time_has_no_throughput():
    nothing = profile(1, 0, forward=0.0, input_gradient=0.0, weight_gradient=0.0)
    (found,) = what_if.what_if(
        topology({"a": 1}), workload(profile=nothing, pipeline=1, data=1, global_batch=1)
    )
    assert (found.iteration, found.samples_per_second, found.price_per_sample) == (0.0, 0.0, 0.0)


@given(
    stages=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    data=st.integers(1, 4),
    gradients=st.sampled_from([0, 10**6]),
    recompute=st.booleans(),
    borrowed=st.booleans(),
)
def test_parts_worked_out_once_are_those_of_the_placement_alone(
    stages, data, gradients, recompute, borrowed
):
    names = ["a", "b", "c"][: len(stages)]
    places = topology(dict.fromkeys(names, 99))
    where = placement(*zip(names, stages, strict=True), data=data)
    layers = profile(10)
    work = workload(
        profile=type(layers)(layers.layers, layers.boundary, 0.5, gradients),
        pipeline=sum(stages), recompute=recompute, early_recompute=recompute,
        borrowed_paths=borrowed,
    )  # fmt: skip
    costing = Costing(places, work)
    for replicas in (data, data + 1):
        where = placement(*where.segments, data=replicas)
        assert costing.costs(where) == costs.costs(places, work, where, costing.layers)


@pytest.mark.parametrize("engine", [PLAIN, interpreted()], ids=["lists", "arrays"])
def test_a_runner_replays_what_a_timeline_does(engine: Engine):
    where = placement(("a", 2), ("b", 2), data=2)
    cost = Costing(PLACES, workload()).costs(where)
    runner = Runner(engine, cost, 2)
    assert runner.has_turns
    names = set()
    for trial in patterned(cost, workload(), 8, (8, 6, 4, 2)):
        if hasattr(trial, "ready"):
            names.add(trial.made is None)
            one = replay(trial.ready, cost, 2, representative=True).period
            assert runner.representative(trial) == pytest.approx(one)
            assert runner.exact(trial) == pytest.approx(replay(trial.ready, cost, 2).period)
    assert names == {True, False}
    alone = fitted("1F1B", (4, 3, 2, 1), 8, (8, 8, 8, 8))
    assert not Runner(engine, cost, 1).has_turns
    assert Runner(engine, cost, 1).exact(alone) == Runner(engine, cost, 1).representative(alone)
