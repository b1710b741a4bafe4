from hypothesis import given
from hypothesis import strategies as st

from geotrain.planning.placement.pareto import pareto
from geotrain.planning.placement.what_if import Outcome
from support.planning import placement

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
