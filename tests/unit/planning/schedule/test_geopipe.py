"""GeoPipe's claims: eight stages, cut after the second and the fourth, F = 1 and B = 2."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.errors import InputError
from geotrain.planning.schedule import checks, orders
from geotrain.planning.schedule.bubbles import bubble_ratio, makespan
from geotrain.planning.schedule.geopipe import (
    bound,
    depths,
    extra_forwards,
    fitted_depths,
    geopipe,
    geopipe_split,
)
from geotrain.planning.schedule.timeline import program, replay
from geotrain.planning.schedule.uniform import Uniform
from support.planning import pipeline, wan


def cut_twice(latency, transfer):
    return pipeline(8, {1: wan(transfer, latency), 3: wan(transfer, latency)})


def replayed(order, costs):
    return replay(program(order), costs, 1, iterations=1)


def bubble_cut(order, costs, micro_batches):
    """By how much the bubble ratio is less than 1F1B's."""
    plain = bubble_ratio(replayed(orders.one_f_one_b(8, micro_batches), costs))
    return 1 - bubble_ratio(replayed(order, costs)) / plain


@pytest.mark.parametrize("latency", [0, 1, 2, 3, 6])
@pytest.mark.parametrize("transfer", [0.5, 1, 2])
@pytest.mark.parametrize("micro_batches", [16, 64])
def test_an_iteration_meets_the_bound_where_memory_allows_the_warm_up(
    latency, transfer, micro_batches
):
    costs = cut_twice(latency, transfer)
    least = 3 * micro_batches + 7 * 3 + 2 * 2 * (latency + transfer)
    assert bound(costs, micro_batches) == pytest.approx(least)
    order = geopipe(costs, [micro_batches] * 8, micro_batches)
    assert makespan(replayed(order, costs)) == pytest.approx(least)
    enough = depths(costs, [micro_batches] * 8)
    assert geopipe(costs, enough, micro_batches) == order


@pytest.mark.figures
@pytest.mark.parametrize("latency", [2, 3, 4, 5, 6])
def test_the_bubble_cut_from_96_micro_batches_on(latency):
    costs = cut_twice(latency, 1)
    assert bubble_cut(geopipe(costs, [96] * 8, 96), costs, 96) >= 0.7891


@pytest.mark.no_cover
@pytest.mark.figures
def test_a_split_backward_cuts_more_in_the_same_memory_and_more_in_more():
    costs = cut_twice(3, 1)
    memory = max(checks.peak_in_flight(geopipe(costs, [64] * 8, 64)))
    same = geopipe_split(costs, None, 64)
    assert max(checks.peak_in_flight(same)) == memory == 14
    assert bubble_cut(same, costs, 64) >= 0.81
    assert bubble_cut(geopipe_split(costs, [20] * 8, 64), costs, 64) >= 0.87


def test_boundaries_beyond_three_are_moved_together():
    costs = pipeline(5, {b: wan(1.0, 1.0) for b in range(4)})
    order = geopipe_split(costs, None, 10)
    assert checks.problems(order) == []
    assert makespan(replayed(order, costs)) < makespan(
        replayed(geopipe(costs, [10] * 5, 10), costs)
    )


def test_the_warm_up_follows_the_round_trip_of_each_boundary():
    assert extra_forwards(cut_twice(3, 1)) == {1: 3, 3: 3}
    assert depths(cut_twice(3, 1), [99] * 8) == (14, 13, 9, 8, 4, 3, 2, 1)
    assert extra_forwards(pipeline(2, {0: wan(1.0, 1.0)}, 0.0, 0.0)) == {0: 0}


@pytest.mark.no_cover
@given(st.lists(st.integers(1, 9), min_size=8, max_size=8), st.integers(1, 12), st.floats(0, 9))
def test_memory_bounds_the_warm_up(caps, micro_batches, latency):
    costs = cut_twice(latency, 1)
    assert checks.problems(geopipe(costs, caps, micro_batches), caps) == []
    assert checks.problems(geopipe_split(costs, caps, micro_batches), caps) == []


@given(
    st.lists(st.integers(1, 12), min_size=8, max_size=8),
    st.integers(1, 24),
    st.floats(0, 9),
    st.floats(0, 4),
)
def test_in_the_memory_of_1f1b_it_is_never_worse(caps, micro_batches, latency, transfer):
    costs = cut_twice(latency, transfer)
    plain = orders.atlas(micro_batches, caps, [0] * 8)
    ours = makespan(replayed(geopipe(costs, caps, micro_batches), costs))
    assert ours <= makespan(replayed(plain, costs)) * (1 + 1e-9)


@pytest.mark.parametrize(("cap", "seconds"), [(4, 2031), (6, 891), (8, 597)])
def test_where_memory_cuts_the_warm_up_off_it_is_divided_anew(cap, seconds):
    """F = I = W = 1, two seconds one way: cut off at 8 in flight, the rule takes 1,377 s."""
    times = Uniform(1.0, 1.0, 1.0, 1.0, 0.0, 2.0, (1, 3))
    costs = times.costs(tuple(range(8)))
    assert makespan(replayed(geopipe(costs, [cap] * 8, 96), costs)) == seconds


def test_one_boundary_may_get_more_than_another():
    """Nine in flight do not hold two extras at both; neither two nor one at each is best."""
    times = Uniform(1.0, 1.0, 1.0, 1.0, 0.0, 2.0, (1, 4))
    costs = times.costs(tuple(range(6)))
    assert fitted_depths(costs, [9] * 6, 11) == (9, 8, 6, 5, 4, 1)


def test_a_very_long_iteration_is_tried_in_the_two_ways_that_are_known():
    costs = cut_twice(2.0, 1.0)
    assert fitted_depths(costs, [8] * 8, 300_000) == (8, 7, 6, 5, 4, 3, 2, 1)


@pytest.mark.parametrize(("caps", "micro_batches"), [([8, 0], 4), ([8, 8], 0)])
def test_no_room_and_no_micro_batch_are_refused(caps, micro_batches):
    with pytest.raises(InputError, match=r"give more memory|give at least one"):
        geopipe(pipeline(2), caps, micro_batches)
