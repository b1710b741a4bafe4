"""The search, beside brute force over placement, degree and policy."""

from dataclasses import replace
from itertools import combinations

import pytest

from geotrain.model.decision import Infeasible
from geotrain.model.plan import Plan
from geotrain.model.topology import DataCenter, Topology
from geotrain.planning.placement.branching import Budget
from geotrain.planning.placement.choose import at, choose
from geotrain.planning.placement.robust import Jitter
from support import brute_force
from support.planning import links, placement, profile, topology, workload

WITHIN = 1.005


def plan(places, work, **values):
    found = choose(places, work, **values)
    assert isinstance(found, Plan), found
    return found


@pytest.mark.figures
@pytest.mark.parametrize("seed", [0, 35, 51, 186])
def test_no_placement_degree_and_policy_is_better(seed):
    """A sample of benchmarks/placements.py; seeds that took long, or that a wrong bound missed."""
    places, work = brute_force.problem(seed)
    best = brute_force.best(places, work)
    found = plan(places, work)
    assert best is not None
    assert found.proof is not None
    assert brute_force.rank(work, found) <= WITHIN * best.rank
    assert brute_force.rank(work, found) <= (1 + (found.proof.loss or 0)) * best.rank * (1 + 1e-9)


@pytest.mark.figures
def test_ten_data_centres_of_100_000_gpus_lose_three_per_cent_at_most():
    gpus = [20_000, 16_000, 14_000, 12_000, 10_000, 8_000, 7_000, 6_000, 4_000, 3_000]
    names = [f"dc{number}" for number in range(len(gpus))]
    wan = links(
        *combinations(names, 2),
        capacity=1e15,
        round_trip=0.04,
        window=1 << 20,
        per_pod_capacity=40e9,
    )
    work = workload(
        profile=profile(64, 67_100_000, forward=0.02, input_gradient=0.02, weight_gradient=0.02),
        pipeline=64,
        data=None,
        tensor=8,
        global_batch=4_096,
        round_batch=True,
        schedule="Auto",
    )
    found = plan(topology(dict(zip(names, gpus, strict=True)), wan), work)
    assert found.proof is not None
    assert (found.proof.loss or 0.0) <= 0.03


def test_a_small_problem_too():
    places, work = brute_force.problem(1)
    best = brute_force.best(places, work)
    assert best is not None
    assert brute_force.rank(work, plan(places, work)) == pytest.approx(best.rank)


def test_where_brute_force_finds_nothing_neither_does_the_search():
    places, work = brute_force.problem(0)
    tight = replace(work, memory_per_gpu=1)
    assert brute_force.best(places, tight) is None
    assert isinstance(choose(places, tight), Infeasible)


def test_the_faster_accelerators_win_where_they_are_fewer():
    """The rule tries the data centre with the most GPUs first, which here has the slower ones."""
    slow = profile(12)
    fast = profile(12, forward=0.004, input_gradient=0.004, weight_gradient=0.004)
    places = Topology(
        (DataCenter("many", 16, accelerator="slow"), DataCenter("few", 12, accelerator="fast")),
        links(("many", "few"), capacity=1e8, round_trip=0.06),
    )
    work = workload(
        profile=slow, profiles=(("fast", fast),), data=None, global_batch=24, schedule="Auto"
    )
    assert plan(places, work).placement == placement(("few", 4), data=3)


def test_an_order_that_the_rules_order_has_no_links_for_is_found():
    places = topology({"a": 4, "b": 3, "c": 2}, links(("a", "c"), ("c", "b")))
    found = plan(places, workload(data=1, pipeline=8, profile=profile(8)))
    assert [name for name, _ in found.placement.segments] in (["a", "c", "b"], ["b", "c", "a"])


@pytest.mark.parametrize("policy", brute_force.POLICIES)
def test_auto_is_as_good_as_every_policy_on_one_placement(policy):
    places = topology({"a": 4, "b": 4}, links(("a", "b"), capacity=2e9, round_trip=0.04))
    fixed = at(workload(global_batch=12, schedule="Auto"), placement(("a", 2), ("b", 2), data=2))
    named = plan(places, replace(fixed, schedule=policy))
    assert plan(places, fixed).iteration <= named.iteration * (1 + 1e-9)


def test_a_proven_choice_says_nothing_and_another_how_much_may_be_lost():
    places = topology({"a": 4, "b": 4, "c": 4, "d": 3}, None)
    work = workload(data=None, global_batch=16, pipeline=6, profile=profile(12), schedule="Auto")
    proven = plan(places, work)
    assert proven.proof is not None
    assert proven.proof.loss == 0
    assert not any("at most" in note for note in proven.notes)
    hasty = plan(places, work, budget=Budget(100, 1, 1))
    assert hasty.proof is not None
    assert (hasty.proof.loss or 0) > 0
    assert hasty.iteration <= (1 + (hasty.proof.loss or 0)) * proven.iteration
    assert any("at most" in n and "slower than the best" in n for n in hasty.notes)
    dear = plan(places, replace(work, objective="Cost"))
    assert dear.proof is not None


def test_without_prices_the_cheapest_is_the_fastest():
    places = topology({"a": 4, "b": 3})
    work = workload(data=None, global_batch=8, objective="Cost")
    found = plan(places, work)
    assert found.proof is not None
    assert found.proof.loss == 0
    assert found.iteration == plan(places, replace(work, objective="Throughput")).iteration


def test_under_jitter_what_may_be_better_is_replayed_too():
    places = topology({"a": 4, "b": 4}, links(("a", "b"), capacity=2e9, round_trip=0.01))
    work = workload(data=None, global_batch=16)
    steady, shaken = plan(places, work), plan(places, work, jitter=Jitter(0.3, replays=2))
    assert steady.proof is not None
    assert shaken.proof is not None
    assert shaken.proof.replayed >= steady.proof.replayed


@pytest.mark.figures
def test_a_long_iteration_ends_with_the_first_pattern_that_is_near_its_bound():
    work = workload(data=1, global_batch=26_000, pipeline=2, schedule="Auto")
    found = plan(topology({"a": 4}), work)
    assert found.proof is not None
    assert found.proof.loss is not None
    assert 0 < found.proof.loss < 0.005
    assert {each.schedule for each in found.alternatives} <= {"OneFOneB", "Atlas", "Atlas +memory"}


def test_a_batch_beyond_any_replay_is_refused():
    refused = choose(topology({"a": 8}), workload(data=None, global_batch=524_288))
    assert isinstance(refused, Infeasible)
    assert "it counts sequences, not tokens" in refused.reasons[0].sentence


def test_where_there_is_too_much_to_look_at_the_best_goes_on_to_its_neighbours():
    """The largest data centre is the dearest; the rule fills it first, and the price says no."""
    places = Topology(
        (DataCenter("a", 8, 9.0), DataCenter("b", 6, 1.0), DataCenter("c", 6, 2.0)),
        links(("a", "b"), ("a", "c"), ("b", "c"), capacity=100e9, round_trip=0.001),
    )
    work = workload(data=2, objective="Cost")
    hasty = plan(places, work, budget=Budget(judged=0))
    assert hasty.placement == plan(places, work).placement
    assert dict(hasty.placement.segments).keys() == {"b", "c"}


def test_where_the_rest_may_cost_nothing_no_loss_is_known():
    free = (DataCenter("one", 2, 0.0), DataCenter("two", 2, 0.0))
    places = Topology((DataCenter("dear", 8, 1.0), *free), links(("one", "two")))
    work = workload(data=1, objective="Cost")
    hasty = plan(places, work, budget=Budget(judged=0))
    assert hasty.proof is not None
    assert hasty.proof.loss is None
    assert "how much dearer than the best of all it may be is not known" in hasty.notes
    assert plan(places, work).price_per_iteration == 0


def test_an_order_that_reaches_its_bound_is_the_last_one_made():
    found = plan(topology({"a": 1}), workload(pipeline=1, data=1, schedule="Auto"))
    assert not {each.schedule for each in found.alternatives} & {"ZeroBubble", "Greedy"}


def test_of_a_long_iteration_patterns_are_replayed_until_one_is_near_the_bound():
    places = topology({"a": 4}, ())
    work = workload(data=1, global_batch=13_000, schedule="OneFOneB")
    found = plan(places, work)
    assert found.proof is not None
    assert found.proof.loss is not None
    assert found.proof.loss <= 0.005
