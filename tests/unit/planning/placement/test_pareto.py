from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.planning.placement import what_if
from geotrain.planning.placement.costing import Costing
from geotrain.planning.placement.pareto import pareto, pareto_front
from geotrain.planning.placement.what_if import Outcome
from geotrain.planning.schedule.compiled import PLAIN
from support import brute_force
from support.planning import placement, profile, topology, workload

PLACE = placement(("a", 1))


def outcome(rate, price):
    return Outcome(PLACE, "Atlas", 1.0, float(rate), float(price * rate))


OUTCOMES = st.lists(st.builds(outcome, st.integers(1, 6), st.integers(0, 6)), max_size=12)


def beats(one, other):
    better = (
        one.samples_per_second >= other.samples_per_second,
        one.price_per_sample <= other.price_per_sample,
    )
    return all(better) and one != other


@given(OUTCOMES)
def test_the_front_is_what_nobody_beats(outcomes):
    front = pareto(outcomes)
    assert set(front) == {a for a in outcomes if not any(beats(b, a) for b in outcomes)}
    rates = [each.samples_per_second for each in front]
    assert rates == sorted(set(rates), reverse=True)


def test_nothing_has_an_empty_front():
    assert pareto(()) == ()


@given(st.integers(0, 300))
def test_the_front_of_all_placements_is_that_of_brute_force(seed):
    places, work = brute_force.problem(seed)
    work = replace(work, schedule="OneFOneB")
    costing = Costing(places, work)
    judged = (
        what_if.judged(costing, work, each, PLAIN, exact=True)
        for each in brute_force.placements(places, work)
    )
    everything = pareto(outcome for outcome in judged if outcome is not None)
    found = pareto_front(places, work)
    assert len(found) == len(everything)
    for one, other in zip(found, everything, strict=True):
        assert one.samples_per_second == pytest.approx(other.samples_per_second)
        assert one.price_per_sample == pytest.approx(other.price_per_sample)


def test_a_fixed_placement_has_itself_as_its_front():
    places = topology({"a": 8, "b": 8})
    fixed = workload(placement="Fixed", fixed=(("a", 2), ("b", 2)), data=1)
    (found,) = pareto_front(places, fixed)
    assert found.placement == placement(("a", 2), ("b", 2), data=1)


def test_where_nothing_fits_the_front_is_empty():
    assert pareto_front(topology({"a": 1}), workload()) == ()


def test_what_memory_does_not_hold_of_a_pattern_is_not_on_the_front():
    tight = workload(profile=profile(activation=1 << 30), memory_per_gpu=4 << 30)
    assert pareto_front(topology({"a": 8}), replace(tight, schedule="GPipe")) == ()
    assert pareto_front(topology({"a": 8}), tight)
