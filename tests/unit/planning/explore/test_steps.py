from dataclasses import replace

import pytest

from geotrain.model.plan import Kind
from geotrain.planning.costs.layers import Overlap
from geotrain.planning.costs.memory import Recompute
from geotrain.planning.costs.shapes import Experts
from geotrain.planning.explore.layouts import Degrees, factors
from geotrain.planning.explore.steps import (
    Book,
    costs,
    counts,
    in_flight,
    layer_times,
    layers_of,
    memory,
    micro_batches,
)
from geotrain.planning.schedule.interleaved import interleaved_1f1b
from support.exploring import device, given, hiding, machine, problem

EXPERTS = Experts(8, 2, 1024, 1)


def wires(task, layout):
    table = factors(task.network, layout.degrees, layout.placement)
    transport = {each.name: each for each in task.network.transports}[layout.transport]
    return Book(task.network).placed(layout.degrees, table, transport)


def times(task, layout):
    return layer_times(task, layout, wires(task, layout))


def needed(task, layout):
    known = layers_of(task, layout, wires(task, layout))
    return memory(task, layout, counts(task, layout, known))


ALONE = {"tensor": 1, "pipeline": 1, "data": 8}


def test_without_exchanges_a_layer_costs_its_operations():
    task = problem()
    found = times(task, given(task, **ALONE))
    matrices = task.shape.matrix_operations / 100e12
    attention = 2048 * 2.0 * 2048 * 2048 / 100e12
    assert found.parts == pytest.approx((matrices + attention, matrices + 2 * attention, matrices))
    assert found.backward == found.input_gradient + found.weight_gradient


def test_tensor_parallelism_divides_the_work_and_pays_four_passes_and_gathers_again():
    task = problem()
    layout = given(task)
    half, whole = times(task, layout), times(task, given(task, **ALONE))
    one = wires(task, layout).tensor.seconds(2048 * 2048 * 2)
    assert half.forward == pytest.approx(whole.forward / 2 + 4 * one)
    assert half.input_gradient == pytest.approx(whole.input_gradient / 2 + 6 * one)
    hidden = replace(task, training=hiding(Overlap(tensor=1.0)))
    assert times(hidden, layout).forward == pytest.approx(whole.forward / 2)


def test_experts_exchange_instead_of_half_of_the_passes():
    task = problem(experts=EXPERTS)
    layout = given(task, expert=2)
    compute = (task.shape.matrix_operations + task.shape.attention_operations) / 2 / 100e12
    known = wires(task, layout)
    passes = 2 * known.tensor.seconds(2048 * 2048 * 2)
    exchanges = 2 * known.expert.seconds(1024 * 2 * 2048 * 2)
    assert times(task, layout).forward == pytest.approx(compute + passes + exchanges)


def test_context_parallelism_hides_its_keys_behind_attention():
    slow = problem(machine(rates=(8e9, 8e9, 8e9)))
    layout = given(slow, tensor=1, context=2, pipeline=1, data=4)
    bare = replace(slow, training=hiding(Overlap(context=0.0)))
    keys = wires(slow, layout).context.seconds(2 * 2048 * 512 * 2)
    difference = times(bare, layout).forward - times(slow, layout).forward
    assert 0 < difference < keys


def test_recompute_costs_the_forward_or_two_thirds_of_the_feed_forward():
    task = problem()
    plain, partly, fully = (
        times(task, given(task, recompute=each))
        for each in (Recompute.NOTHING, Recompute.FEED_FORWARD, Recompute.ALL)
    )
    assert fully.input_gradient == pytest.approx(plain.input_gradient + plain.forward)
    again = task.shape.feed_forward_operations / 2 / 100e12 * 2 / 3
    assert partly.input_gradient == pytest.approx(plain.input_gradient + again)


def test_sharding_saves_memory_and_pays_where_compute_does_not_hide_it():
    task = problem(machine(rates=(8e9, 8e9, 8e9)))
    plain, sharded = given(task, **ALONE), given(task, **ALONE, shard=8)
    assert needed(task, sharded) < needed(task, plain)
    assert times(task, sharded).forward > times(task, plain).forward
    assert times(task, sharded).backward > times(task, plain).backward


@pytest.mark.parametrize("schedule", [("OneFOneB", 1), ("Interleaved", 2), ("Interleaved", 4)])
def test_in_flight_is_what_the_orders_hold(schedule):
    task = problem(batch=64)
    layout = given(task, schedule=schedule[0], chunks=schedule[1])
    for number in (2, 4, 16):
        for where, row in enumerate(interleaved_1f1b(2, schedule[1], number)):
            held = most = 0
            for action in row:
                held += 1 if action.kind == Kind.FORWARD else -1
                most = max(most, held)
            assert in_flight(layout, number, where) == most


def test_weights_are_divided_by_who_shares_them():
    task = problem(experts=EXPERTS)
    dense, mixed = (
        given(task, recompute=Recompute.ALL),
        given(task, recompute=Recompute.ALL, expert=2),
    )
    half = 4 * task.shape.expert_weights / 2 * 6 / 2  # four layers, tensor 2, 6 bytes, expert 2
    assert needed(task, dense) - needed(task, mixed) == pytest.approx(half)


def test_the_vocabulary_weighs_on_both_ends_and_works_on_the_last():
    task, plain = problem(vocabulary=32_000), problem()
    layout = given(task)
    assert needed(task, layout) > needed(plain, layout)
    even = (4, 4)
    task, plain = replace(task, stages=even), replace(plain, stages=even)
    loaded = costs(task, layout, wires(task, layout)).stages
    bare = costs(plain, layout, wires(plain, layout)).stages
    assert loaded[0].forward == bare[0].forward
    head = task.shape.head_operations / 2 / 100e12
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


def test_layers_are_split_by_time_as_given_and_batches_must_come_out():
    task = problem(layers=11)
    known = layers_of(task, given(task), wires(task, given(task)))
    assert counts(task, given(task), known) == (5, 6)
    assert counts(replace(task, stages=(8, 3)), given(task), known) == (8, 3)
    chunked = given(task, schedule="Interleaved", chunks=2)
    assert counts(replace(task, stages=(8, 3)), chunked, known) == (2, 3, 3, 3)
    assert micro_batches(task, given(task, micro_batch=2)) == 8
    assert micro_batches(task, given(task, micro_batch=3)) == 0


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: device(0.0, 1), "peak must be above 0"),
        (lambda: device(float("nan"), 1), "peak must be above 0"),
        (lambda: device(1.0, 0), "memory must be above 0"),
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
