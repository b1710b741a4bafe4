"""Memory of stages by what it is for: at the peak of the order that was chosen."""

from dataclasses import replace

from geotrain.planning.placement.choose import choose
from geotrain.planning.placement.footprint import footprints
from support.planning import profile, topology, workload

GIB = 2**30
LAYERS = profile(8, activation=GIB, parameters=3 * GIB)


def planned(places=None, **values):
    places = places or topology({"a": 8})
    asked = workload(profile=LAYERS, **values)
    plan = choose(places, asked)
    return plan, footprints(places, asked, plan)


def test_weights_stay_and_micro_batches_in_flight_hold_activations():
    plan, found = planned(schedule="OneFOneB")
    for layers, in_flight, each in zip(plan.layers, plan.in_flight, found, strict=True):
        assert each.memory.state == layers * 3 * GIB
        assert each.memory.transient == 0
        assert each.memory.activations == in_flight * layers * GIB
        assert each.memory.total == each.memory.state + each.memory.activations
        assert (each.limit, each.headroom) == (None, None)


def test_with_recompute_one_layer_is_made_again_and_the_rest_is_its_input():
    plan, found = planned(recompute=True, schedule="OneFOneB", memory_per_gpu=20 * GIB)
    for layers, in_flight, each in zip(plan.layers, plan.in_flight, found, strict=True):
        assert each.memory.transient == GIB
        assert each.memory.activations == in_flight * layers * LAYERS.boundary
        assert each.limit == 20 * GIB
        assert each.headroom == 20 * GIB - each.memory.total > 0


def test_what_stays_is_told_by_kind_where_the_profile_knows():
    known = profile(8, parameters=6 * GIB, state=(GIB, GIB, 4 * GIB))
    places, asked = topology({"a": 8}), workload(profile=known, schedule="OneFOneB")
    plan = choose(places, asked)
    for layers, each in zip(plan.layers, footprints(places, asked, plan), strict=True):
        found = each.memory
        assert (found.weights, found.gradients, found.optimizer) == (
            layers * GIB, layers * GIB, 4 * layers * GIB,
        )  # fmt: skip
        assert found.state == 0


def test_the_smaller_of_what_there_is_and_what_may_be_used_bounds_it():
    places = topology({"a": 8})
    small = replace(places, data_centers=(replace(places.data_centers[0], memory=30 * GIB),))
    _, found = planned(small, memory_per_gpu=40 * GIB, schedule="OneFOneB")
    assert {each.limit for each in found} == {30 * GIB}


def test_a_weight_gradient_that_is_put_off_holds_what_was_recomputed():
    """Greedy runs weight gradients apart: each stage stays within its memory at the peak."""
    plan, found = planned(recompute=True, schedule="Greedy", memory_per_gpu=16 * GIB)
    assert any(action.kind == "W" for row in plan.order for action in row)
    assert all(0 <= each.headroom < 16 * GIB for each in found)
    assert any(each.memory.activations > plan.in_flight[s] * 2 * LAYERS.boundary
               for s, each in enumerate(found))  # fmt: skip
