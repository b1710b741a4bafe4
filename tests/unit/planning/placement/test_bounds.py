from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.planning.placement.bounds import Bounds, bound
from geotrain.planning.placement.contenders import Contenders
from geotrain.planning.placement.costing import Costing
from geotrain.planning.placement.space import Space
from geotrain.planning.placement.trials import made, patterned
from geotrain.planning.schedule.timeline import replay
from support import brute_force
from support.planning import pipeline, wan, workload


def test_one_f_one_b_without_communication_meets_the_bound():
    assert bound(pipeline(4), 6) == pytest.approx((6 + 4 - 1) * 3)


def test_memory_bounds_how_many_are_on_their_way():
    """Two in flight on a trip of 20: each pair takes a trip."""
    costs = pipeline(2, {0: wan(1.0, 6.0)})
    assert bound(costs, 6) == pytest.approx(6 * 3 + 3 + 14)
    assert bound(costs, 6, (2, 6)) == pytest.approx(3 * (2 * 3 + 14))
    assert bound(costs, 6, (6, 1)) == bound(costs, 6)


def test_weight_gradients_are_left_to_do_when_gradients_come():
    """Stage 0 of two runs all forwards in 4, waits until 13, and has 8 to do."""
    costs = pipeline(2, {0: wan(1.0, 4.0)})
    assert bound(costs, 4, is_split=True) == pytest.approx(13 + 4 * 2)


def test_a_hop_that_is_slower_than_the_stages_sets_the_pace():
    costs = pipeline(2, {0: wan(10.0, 0.0)})
    assert bound(costs, 5) == pytest.approx(2 * 3 + 20 + 4 * 10)


@given(
    st.integers(2, 4),
    st.integers(1, 8),
    st.integers(1, 4),
    st.lists(st.floats(0, 5), min_size=3, max_size=3),
)
def test_no_pattern_within_memory_beats_the_bound(stages, count, held, times):
    transfer, delay, forward = times
    costs = pipeline(stages, {b: wan(transfer, delay) for b in range(0, stages - 1, 2)}, forward)
    room = tuple(min(held + stages - s, count) for s in range(stages))
    least = bound(costs, count, room)
    for trial in patterned(costs, workload(schedule="Auto"), count, room):
        if hasattr(trial, "ready"):
            assert replay(trial.ready, costs, 1).period >= least - 1e-9


@given(st.integers(0, 3000))
def test_no_order_of_uneven_stages_beats_the_bound(seed):
    """Stages of different accelerators, orders with weight gradients apart."""
    places, work = brute_force.problem(seed)
    costing = Costing(places, work)
    contenders = Contenders(work, costing)
    for placement in islice(brute_force.placements(places, work), 0, None, 7):
        candidate = contenders.candidate(placement)
        if candidate is not None:
            tried = made("zb-1p", candidate.costs, work, candidate.micro_batches, candidate.room)
            for trial in contenders.possible(candidate, tried):
                period = replay(trial.ready, candidate.costs, placement.data).period
                assert period >= candidate.least * (1 - 1e-9)


def bounded(seed, policy, objective):
    places, work = brute_force.problem(seed)
    work = replace(work, schedule=policy, objective=objective, data=None)
    costing = Costing(places, work)
    space = Space(places, work)
    bounds = Bounds(places, space, costing, is_split=policy == "Auto")
    return places, work, bounds, Contenders(work, costing)


@given(
    st.integers(0, 2000),
    st.sampled_from(["Auto", "Atlas"]),
    st.sampled_from(["Throughput", "Cost"]),
)
def test_a_routes_bound_is_below_that_of_all_its_placements(seed, policy, objective):
    places, work, bounds, contenders = bounded(seed, policy, objective)
    for placement in brute_force.placements(places, work):
        candidate = contenders.candidate(placement)
        if candidate is None:
            continue
        route = tuple(name for name, _ in placement.segments)
        own = bounds.route(route, placement.data)
        assert own[0] <= candidate.at_best[0] * (1 + 1e-9)
        for length in range(len(route) + 1):
            grown = bounds.grown(route[:length], placement.data)
            assert grown[0] <= own[0] * (1 + 1e-9)
            assert grown[1] <= own[1] * (1 + 1e-9)


def test_a_route_that_can_never_have_room_has_no_bound():
    places, work = brute_force.problem(0)
    space = Space(places, replace(work, data=99))
    bounds = Bounds(places, space, Costing(places, work), is_split=False)
    assert bounds.grown((), 99) == (float("inf"), float("inf"))
