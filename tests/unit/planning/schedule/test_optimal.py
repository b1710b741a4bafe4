import sys
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geotrain.errors import InputError
from geotrain.planning.schedule import checks
from geotrain.planning.schedule.costs import Costs, Hop, StageCosts
from geotrain.planning.schedule.greedy import greedy
from geotrain.planning.schedule.layouts import interleaved, one_stage_each, v_shape
from geotrain.planning.schedule.optimal import Solution, begins_of, optimal, ticks
from geotrain.planning.schedule.shop import rows_of, shop, sweep
from support.optima import cases, costs_of
from support.planning import pipeline, wan

SOLVER = "geotrain.planning.schedule.optimal_solver"
TIMES = st.integers(0, 4).map(float)
TIGHT = pipeline(3, {1: wan(1.0, 4.0)})


@st.composite
def small(draw, work=TIMES):
    devices, micro_batches = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    layout = draw(
        st.sampled_from([one_stage_each(devices), v_shape(devices), interleaved(devices, 2)])
    )
    stages = len(layout)
    each, hop = st.builds(StageCosts, st.just(1), work, work, work), st.builds(Hop, TIMES, TIMES)
    costs = Costs(
        tuple(draw(each) for _ in range(stages)),
        tuple(draw(hop) for _ in range(stages - 1)),
        tuple(draw(hop) for _ in range(stages - 1)),
        layout,
    )
    return costs, micro_batches, [stages // devices + draw(st.integers(0, 2))] * devices


def broken(problem, begins):
    """What a solution does not keep to."""
    ends = [begin + length for begin, length in zip(begins, problem.lengths, strict=True)]
    yield from ((i, j) for i, j, gap in problem.after if begins[j] < begins[i] + gap)
    for group in problem.alone:
        taken = sorted((begins[i], ends[i]) for i in group if problem.lengths[i])
        yield from (pair for pair in pairwise(taken) if pair[1][0] < pair[0][1])
    for cap, stages in problem.held:
        pairs = [pair for stage in stages for pair in stage]
        for one, _ in pairs:
            # One that takes no time holds nothing once it is over.
            now = begins[one]
            if sum(begins[f] <= now < ends[w] for f, w in pairs) > cap:
                yield cap, now
    yield from ((i, gap) for i, gap in problem.ends if begins[i] + gap > problem.latest)


@given(small(), st.booleans())
def test_a_replay_keeps_to_everything_that_the_solver_is_told(case, split):
    costs, micro_batches, caps = case
    place = shop(costs, micro_batches, caps, split=split)
    found = sweep(place, rows_of(greedy(costs, micro_batches, caps, split=split), place))
    problem = ticks(place, found, 1.0)
    assert list(broken(problem, begins_of(found, 1.0))) == []
    assert len(problem.lengths) == len(begins_of(found, 1.0))


def test_a_solution_becomes_the_order_in_which_it_begins_its_actions():
    place = shop(TIGHT, 3, [2] * 3, split=True)
    best = sweep(place, rows_of(greedy(TIGHT, 3, [2] * 3), place))

    def solve(problem, start, effort):
        assert problem == ticks(place, best, 1.0)
        assert start == begins_of(best, 1.0)
        return Solution(tuple(start), int(best.makespan) - 2)

    found = optimal(TIGHT, 3, [2] * 3, effort=1.0, solve=solve)
    assert (found.makespan, found.bound) == (best.makespan, best.makespan - 2)
    assert not found.is_proven
    assert checks.problems(found.order, [2] * 3) == []


@pytest.mark.parametrize("begins", [None, (0,) * 36])
def test_what_does_not_help_leaves_greedys_order(begins):
    """All at once is beyond memory; a solver may also find nothing."""
    expected = greedy(TIGHT, 3, [2] * 3)
    found = optimal(TIGHT, 3, [2] * 3, solve=lambda *_: Solution(begins, 10**6))
    assert found.order == expected
    assert found.is_proven


def test_where_the_bound_is_met_nothing_is_solved():
    found = optimal(pipeline(3), 4, [12] * 3, solve=None)
    assert found.is_proven
    assert found.makespan == found.bound == 2.0 + 3.0 * 4


def test_times_are_rounded_down_where_they_have_too_many_ticks():
    costs = pipeline(2, {0: wan(1e-12, 5.0)}, forward=1.0, backward=1e-12)
    seen = []

    def solve(problem, start, effort):
        seen.append(problem)
        return Solution(None, 0)

    optimal(costs, 4, [1, 1], solve=solve)
    assert seen[0].latest <= 10**9 + 2


def test_a_case_that_is_too_large_is_refused():
    with pytest.raises(InputError, match="2400 actions are too many for a proof, at most 2000"):
        optimal(pipeline(8), 100, [8] * 8)


def test_without_or_tools_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, SOLVER, None)
    with pytest.raises(InputError, match=r"pip install geotrain\[optimal\]"):
        optimal(TIGHT, 3, [2] * 3)


def test_with_or_tools_it_is_asked(monkeypatch):
    solver = SimpleNamespace(cp_sat=lambda *_: Solution(None, 7))
    monkeypatch.setitem(sys.modules, SOLVER, solver)
    assert optimal(TIGHT, 3, [2] * 3).bound >= 7


@pytest.mark.figures
@pytest.mark.parametrize("case", [case for case in cases() if case["makespan"] < 130][::6])
def test_the_stored_optima_are_what_the_solver_proves(case):
    pytest.importorskip("ortools", reason="OR-Tools is not installed (the extra 'optimal')")
    found = optimal(costs_of(case), case["micro_batches"], case["caps"])
    assert (found.makespan, found.bound) == (case["makespan"], case["bound"])


@settings(max_examples=10)
@given(small(), st.booleans())
def test_no_order_that_is_found_is_below_the_bound(case, split):
    pytest.importorskip("ortools", reason="OR-Tools is not installed (the extra 'optimal')")
    costs, micro_batches, caps = case
    found = optimal(costs, micro_batches, caps, split=split)
    assert checks.problems(found.order, caps) == []
    assert found.bound <= found.makespan


@settings(max_examples=10)
@given(small(st.integers(1, 4).map(float)), st.booleans())
def test_a_small_case_is_proven_where_every_action_takes_time(case, split):
    """Not else: what takes no time holds no memory for the solver, and holds it in an order."""
    pytest.importorskip("ortools", reason="OR-Tools is not installed (the extra 'optimal')")
    costs, micro_batches, caps = case
    assert optimal(costs, micro_batches, caps, split=split).is_proven
