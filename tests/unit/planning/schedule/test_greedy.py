import os
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geotrain.errors import InputError
from geotrain.planning.schedule import checks, orders
from geotrain.planning.schedule.actions import read_order
from geotrain.planning.schedule.bubbles import bubble_ratio, longest_span, makespan
from geotrain.planning.schedule.costs import Costs, Hop, StageCosts
from geotrain.planning.schedule.greedy import LONG, RULES, greedy
from geotrain.planning.schedule.layouts import interleaved, one_stage_each, v_shape
from geotrain.planning.schedule.lists import list_schedule
from geotrain.planning.schedule.policies import RIVALS, policy, rivals
from geotrain.planning.schedule.shop import (
    bounds,
    order_of,
    rows_of,
    shop,
    sweep,
    within_memory,
)
from geotrain.planning.schedule.swaps import Goal, improve
from geotrain.planning.schedule.timeline import program, replay
from geotrain.planning.schedule.uniform import Uniform
from geotrain.planning.schedule.zero_bubble import zb_2p
from support.optima import cases, costs_of, greedys, random_cases
from support.planning import pipeline, wan

THOROUGH = os.environ.get("GEOTRAIN_THOROUGH") == "1"
TIMES = st.one_of(st.integers(0, 5).map(float), st.floats(0, 5))
ABOUT = pytest.approx


def measured(order, costs):
    timeline = replay(program(order), costs, 1, iterations=1)
    return makespan(timeline), longest_span(timeline)


def ratio(order, costs):
    return bubble_ratio(replay(program(order), costs, 1, iterations=1))


def far_apart(stages, boundaries, transfer, delay):
    """Equal stages of F = I = W = 1; messages over the boundaries take time, no others do."""
    return pipeline(stages, {boundary: wan(transfer, delay) for boundary in boundaries})


def profiled(stages, *microseconds):
    """Equal stages of F, I and W, and how long each message takes to arrive."""
    *times, delay = microseconds
    hops = (Hop(0.0, delay / 1e6),) * (stages - 1)
    return Costs((StageCosts(1, *(time / 1e6 for time in times)),) * stages, hops, hops)


@st.composite
def pipelines(draw, most_stages=5, most_micro_batches=7):
    devices, micro_batches = (
        draw(st.integers(1, most_stages)),
        draw(st.integers(1, most_micro_batches)),
    )
    layout = draw(
        st.sampled_from([one_stage_each(devices), v_shape(devices), interleaved(devices, 2)])
    )
    stages = len(layout)
    each = st.builds(StageCosts, st.just(1), TIMES, TIMES, TIMES)
    hop = st.builds(Hop, TIMES, TIMES)
    costs = Costs(
        tuple(draw(each) for _ in range(stages)),
        tuple(draw(hop) for _ in range(stages - 1)),
        tuple(draw(hop) for _ in range(stages - 1)),
        layout,
    )
    least = stages // devices
    caps = [draw(st.integers(least, least + micro_batches)) for _ in range(devices)]
    return costs, micro_batches, caps


@pytest.mark.parametrize(("cap", "optimum"), [(10, 81.0), (12, 75.0), (14, 69.0), (16, 63.0)])
def test_where_memory_is_tight_it_finds_the_optimum(cap, optimum):
    costs = far_apart(8, (1, 3), transfer=1.0, delay=3.0)
    order = greedy(costs, 16, [cap] * 8)
    assert measured(order, costs)[0] == optimum


@pytest.mark.figures
@pytest.mark.parametrize("case", cases()[:: 1 if THOROUGH else 5])
def test_of_fifty_small_cases_none_is_2_percent_above_the_bound(case):
    costs = costs_of(case)
    order = greedys(case)
    assert measured(order, costs)[0] <= 1.02 * case["bound"]


@pytest.mark.figures
@pytest.mark.parametrize("case", random_cases()[:: 1 if THOROUGH else 100])
def test_of_5000_random_small_cases_none_is_2_percent_above_the_bound(case):
    costs = costs_of(case)
    order = greedys(case)
    assert measured(order, costs)[0] <= 1.02 * case["bound"] + 1e-6


@pytest.mark.figures
@pytest.mark.parametrize(
    ("ours", "theirs", "stages", "cap"), [("greedy", "zb-1p", 32, 32), ("greedy-v", "zb-v", 16, 32)]
)
def test_it_is_not_worse_than_zero_bubble_in_the_same_memory(ours, theirs, stages, cap):
    """The profile of 28.3 billion parameters of arXiv 2401.10241, in microseconds."""
    times = Uniform(10419e-6, 10207e-6, 7715e-6, 408e-6)
    costs = times.costs(policy(ours).layout(stages, 1))
    best, other = (
        measured(policy(name).order(costs, [cap] * stages, 96), costs)[0] for name in (ours, theirs)
    )
    assert best <= other + 1e-9


@pytest.mark.figures
@pytest.mark.parametrize(("cap", "least"), [(14, 0.81), (20, 0.87)])
def test_of_the_bubble_that_two_far_boundaries_make_in_1f1b_it_cuts_most(cap, least):
    """GeoPipe's warm-up with the backward whole holds 14 there; 20 is more."""
    costs = far_apart(8, (1, 3), transfer=1.0, delay=3.0)
    plain = ratio(orders.one_f_one_b(8, 64), costs)
    assert 1 - ratio(greedy(costs, 64, [cap] * 8), costs) / plain >= least


@pytest.mark.figures
def test_in_the_memory_of_zb_2p_it_has_no_more_bubble():
    costs = profiled(8, 18522, 18086, 9337, 601)
    theirs = zb_2p(costs, 24)
    ours = greedy(costs, 24, checks.peak_in_flight(theirs), others=[theirs])
    assert ratio(ours, costs) <= ratio(theirs, costs)


@settings(max_examples=500 if THOROUGH else 8)
@given(pipelines())
def test_it_is_sound_within_memory_and_never_worse_than_any_other(case):
    costs, micro_batches, caps = case
    ours = policy("greedy").order(costs, tuple(caps), micro_batches)
    assert checks.problems(ours, caps) == []
    best = measured(ours, costs)
    place = shop(costs, micro_batches, caps, split=True)
    assert sweep(place, rows_of(ours, place)).score == ABOUT(best)
    assert all(found >= least - 1e-6 for found, least in zip(best, bounds(place), strict=True))
    for other in rivals(costs, tuple(caps), micro_batches):
        if checks.problems(other, caps) == []:
            assert best[0] <= measured(other, costs)[0] + 1e-6


@given(pipelines(), st.sampled_from(RULES), st.booleans(), st.booleans())
def test_every_list_runs_to_its_end_within_memory(case, listed, split, strict):
    costs, micro_batches, caps = case
    place = shop(costs, micro_batches, caps, split=split)
    rows = list_schedule(place, replace(listed, strict=strict)).rows
    assert within_memory(place, rows)
    assert checks.problems(order_of(place, rows), caps) == []
    assert rows_of(order_of(place, rows), place) == rows


def test_a_whole_backward_stays_whole_and_no_split_order_counts_against_it():
    costs = far_apart(4, (1,), transfer=1.0, delay=3.0)
    split = greedy(costs, 6, [6] * 4)
    whole = greedy(costs, 6, [6] * 4, split=False, others=[split])
    assert {str(action)[1] for row in whole for action in row} == {"F", "B"}
    assert measured(split, costs)[0] < measured(whole, costs)[0]
    assert measured(whole, costs)[0] <= measured(orders.gpipe(4, 6), costs)[0]


def test_others_that_wait_in_a_circle_do_not_count_and_no_search_is_made_without_budget():
    costs = pipeline(3, {1: wan(1.0, 4.0)})
    stuck = read_order("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n2F0,2B0,2F1,2B1\n")
    quick = greedy(costs, 2, [2] * 3, searched=0, others=[stuck])
    assert checks.problems(quick, [2] * 3) == []
    assert measured(greedy(costs, 2, [2] * 3), costs)[0] <= measured(quick, costs)[0]


def test_a_span_that_only_slower_orders_have_is_worth_one_per_cent_of_the_makespan():
    """Beside the other policies, some of which have a shorter span here than the optimum."""
    costs = Uniform(12e-6, 5e-6, 16e-6, 3e-6).costs(policy("greedy").layout(3, 1))
    order = policy("greedy").order(costs, [3] * 3, 7)
    assert measured(order, costs)[0] == ABOUT(261e-6)
    spans = [
        measured(each, costs)[1]
        for each in rivals(costs, (3,) * 3, 7)
        if checks.problems(each, [3] * 3) == []
    ]
    assert min(spans) < measured(order, costs)[1]


def test_what_follows_the_last_action_counts():
    costs = pipeline(2, all_reduce=5.0, step=1.0)
    place = shop(costs, 2, [2, 2], split=True)
    order = greedy(costs, 2, [2, 2])
    assert sweep(place, rows_of(order, place)).makespan == measured(order, costs)[0] + 6.0


def test_a_long_pipeline_is_listed_only_and_stays_near_its_bound():
    costs = far_apart(16, (7,), transfer=0.1, delay=3.0)
    place = shop(costs, 200, [40] * 16, split=True)
    found = sweep(place, rows_of(greedy(costs, 200, [40] * 16), place))
    assert found.makespan <= 1.01 * bounds(place)[0]


def test_an_order_that_waits_in_a_circle_is_no_replay():
    costs = pipeline(2)
    place = shop(costs, 1, [1, 1], split=False)
    assert sweep(place, [[0, 1], [4, 3]]) is None
    assert greedy(costs, 1, [1, 1], split=False, others=[read_order("0F0,0B0\n1F0,1B0\n")])


def test_a_swap_that_would_wait_in_a_circle_is_not_made():
    """The second stage takes no time, so the first one's F and I are neighbours on the chain."""
    busy, idle = StageCosts(1, 1.0, 1.0, 1.0), StageCosts(1, 0.0, 0.0, 0.0)
    costs = Costs((busy, idle), (Hop(0.0, 0.0),), (Hop(0.0, 0.0),))
    place = shop(costs, 1, [1, 1], split=True)
    only = sweep(place, [[0, 1, 2], [3, 4, 5]])
    goal = Goal(place, only.score)
    assert improve(goal, only, 10, by_span=False, enough=0.0)[0] is only


def test_a_very_long_iteration_is_set_beside_those_that_are_quick_and_says_so():
    one, micro_batches = pipeline(1), RIVALS // 3 + 1
    assert len(list(rivals(one, None, 40))) > len(list(rivals(one, None, micro_batches))) == 3
    assert policy("greedy").note(one, RIVALS // 3) == ""
    said = policy("greedy").note(one, micro_batches)
    assert "beyond 100,000 actions" in said
    assert "compared with patterns (gpipe, 1f1b, geopipe) and atlas alone" in said


def test_a_long_iteration_is_set_beside_the_others_in_the_same_memory_alone():
    one = pipeline(1)
    assert len(list(rivals(one, [9], 40))) > len(list(rivals(one, [9], 2_700)))


def test_a_very_long_iteration_is_made_of_one_list():
    place = shop(pipeline(1), LONG // 3 + 1, [3], split=True)
    found = sweep(place, rows_of(greedy(pipeline(1), LONG // 3 + 1, [3]), place))
    assert found.makespan == bounds(place)[0]


def test_stages_that_take_no_time_have_an_order():
    costs = pipeline(2, forward=0.0, backward=0.0)
    assert checks.problems(greedy(costs, 3, [2, 2]), [2, 2]) == []


@pytest.mark.parametrize(
    ("caps", "micro_batches", "layout", "sentence"),
    [
        ([1, 1], 0, (), "0 micro-batches make no iteration; give at least one"),
        ([1], 1, (), "1 caps for 2 ranks; give each rank one"),
        ([1, 0], 1, (), "rank 1 has room for 0 micro-batches in flight and runs 1 stages"),
        ([1], 1, (0, 0), "rank 0 has room for 1 micro-batches in flight and runs 2 stages"),
    ],
)
def test_what_cannot_run_is_refused(caps, micro_batches, layout, sentence):
    base = pipeline(2)
    costs = Costs(base.stages, base.forward, base.backward, layout)
    with pytest.raises(InputError, match=sentence):
        greedy(costs, micro_batches, caps)
