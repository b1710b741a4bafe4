from dataclasses import replace

import pytest

from geotrain.model.plan import Kind
from geotrain.planning.explore.layouts import Degrees, factors
from geotrain.planning.explore.shapes import Experts
from geotrain.planning.explore.steps import (
    Book,
    Device,
    Overlap,
    costs,
    in_flight,
    layer_times,
    memory,
    micro_batches,
    split,
)
from geotrain.planning.schedule.interleaved import interleaved_1f1b
from support.exploring import given, machine, problem

EXPERTS = Experts(8, 2, 1024, 1)


def wires(task, layout):
    table = factors(task.network, layout.degrees, layout.placement)
    transport = {each.name: each for each in task.network.transports}[layout.transport]
    return Book(task.network).placed(layout.degrees, table, transport)


def times(task, layout):
    return layer_times(task, layout, wires(task, layout))


ALONE = {"tensor": 1, "pipeline": 1, "data": 8}


def test_without_exchanges_a_layer_costs_its_operations():
    task = problem()
    found = times(task, given(task, **ALONE))
    matrices = 2048 * task.shape.matrix_operations / 100e12
    attention = 2048 * 2.0 * 2048 * 2048 / 100e12
    assert found.parts == pytest.approx((matrices + attention, matrices + 2 * attention, matrices))
    assert found.backward == found.input_gradient + found.weight_gradient


def test_tensor_parallelism_divides_the_work_and_pays_four_passes_each_way():
    task = problem()
    layout = given(task)
    half, whole = times(task, layout), times(task, given(task, **ALONE))
    one = wires(task, layout).tensor.seconds(2048 * 2048 * 2)
    assert half.forward == pytest.approx(whole.forward / 2 + 4 * one)
    assert half.input_gradient == pytest.approx(whole.input_gradient / 2 + 4 * one)
    hidden = replace(task, overlap=Overlap(tensor=1.0))
    assert times(hidden, layout).forward == pytest.approx(whole.forward / 2)


def test_experts_exchange_instead_of_half_of_the_passes():
    task = problem(experts=EXPERTS)
    layout = given(task, expert=2)
    compute = 1024 * (task.shape.matrix_operations + task.shape.attention_operations) / 100e12
    known = wires(task, layout)
    passes = 2 * known.tensor.seconds(2048 * 2048 * 2)
    exchanges = 2 * known.expert.seconds(1024 * 2 * 2048 * 2)
    assert times(task, layout).forward == pytest.approx(compute + passes + exchanges)


def test_context_parallelism_hides_its_keys_behind_attention():
    slow = problem(machine(rates=(8e9, 8e9, 8e9)))
    layout = given(slow, tensor=1, context=2, pipeline=1, data=4)
    bare = replace(slow, overlap=Overlap(context=0.0))
    keys = wires(slow, layout).context.seconds(2 * 2048 * 512 * 2)
    difference = times(bare, layout).forward - times(slow, layout).forward
    assert 0 < difference < keys


def test_recompute_costs_the_forward_or_two_thirds_of_the_feed_forward():
    task = problem()
    plain, partly, fully = (
        times(task, given(task, recompute=each)) for each in ("none", "selective", "full")
    )
    assert fully.input_gradient == pytest.approx(plain.input_gradient + plain.forward)
    again = 1024 * task.shape.feed_forward_operations / 100e12 * 2 / 3
    assert partly.input_gradient == pytest.approx(plain.input_gradient + again)


def test_sharding_saves_memory_and_pays_where_compute_does_not_hide_it():
    task = problem(machine(rates=(8e9, 8e9, 8e9)))
    plain, sharded = given(task, **ALONE), given(task, **ALONE, shard=8)
    assert memory(task, sharded) < memory(task, plain)
    assert times(task, sharded).forward > times(task, plain).forward
    assert times(task, sharded).backward > times(task, plain).backward


@pytest.mark.parametrize("schedule", [("OneFOneB", 1), ("Interleaved", 2), ("Interleaved", 4)])
def test_in_flight_is_what_the_orders_hold(schedule):
    task = problem(batch=64)
    layout = given(task, schedule=schedule[0], chunks=schedule[1])
    for number in (2, 4, 16):
        for device, row in enumerate(interleaved_1f1b(2, schedule[1], number)):
            held = most = 0
            for action in row:
                held += 1 if action.kind == Kind.FORWARD else -1
                most = max(most, held)
            assert in_flight(layout, number, device) == most


def test_weights_are_divided_by_who_shares_them():
    task = problem(experts=EXPERTS)
    dense, mixed = given(task, recompute="full"), given(task, recompute="full", expert=2)
    half = 4 * task.shape.expert_weights / 2 * 6 / 2  # four layers, tensor 2, 6 bytes, expert 2
    assert memory(task, dense) - memory(task, mixed) == pytest.approx(half)


def test_the_vocabulary_weighs_on_both_ends_and_works_on_the_last():
    task, plain = problem(vocabulary=32_000), problem()
    layout = given(task)
    assert memory(task, layout) > memory(plain, layout)
    loaded = costs(task, layout, wires(task, layout)).stages
    bare = costs(plain, layout, wires(plain, layout)).stages
    assert loaded[0].forward == bare[0].forward
    head = 1024 * task.shape.head_operations / 100e12
    assert loaded[1].forward == pytest.approx(bare[1].forward + head)
    assert loaded[0].all_reduce > bare[0].all_reduce


def test_a_chunked_device_ends_its_iteration_once():
    task = problem()
    layout = given(task, schedule="Interleaved", chunks=2)
    found = costs(task, layout, wires(task, layout))
    assert found.layout == (0, 1, 0, 1)
    assert [stage.all_reduce > 0 for stage in found.stages] == [True, True, False, False]
    assert len(found.forward) == len(found.backward) == 3
    assert found.forward[0].occupancy == pytest.approx(2048 * 1024 * 2 * 8 / found_rate(task))


def found_rate(task):
    return task.network.tiers[1].rate * 0.8


def test_layers_are_split_evenly_and_batches_must_come_out():
    assert split(11, 4) == (3, 3, 3, 2)
    task = problem()
    assert micro_batches(task, given(task, micro_batch=2)) == 8
    assert micro_batches(task, given(task, micro_batch=3)) == 0


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Device(0.0, 1), "finite speed"),
        (lambda: Device(float("nan"), 1), "finite speed"),
        (lambda: Device(1.0, 0), "memory above 0"),
        (lambda: Overlap(tensor=1.5), "overlap tensor is 1.5"),
    ],
)
def test_what_cannot_be_is_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()


def test_the_degrees_of_the_best_wires_need_no_place():
    task = problem(experts=EXPERTS)
    degrees = Degrees(2, 1, 2, 2, 2, 2)
    assert Book(task.network).best(degrees).tensor.size == 2
