import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.prefill.percentiles import Correction, Recent, percentile


@pytest.mark.parametrize(
    ("share", "value"), [(1, 1), (25, 1), (26, 2), (50, 2), (90, 4), (99, 4), (100, 4)]
)
def test_percentiles_are_nearest_rank(share, value):
    assert percentile([3, 1, 4, 2], share) == value


def test_nothing_has_no_percentile():
    assert percentile([], 50) is None


@pytest.mark.parametrize("share", [0, -1, 101])
def test_a_share_is_a_percentage(share):
    with pytest.raises(ValueError, match=r"\(0, 100\]"):
        percentile([1.0], share)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.1, 100))
def test_at_least_the_share_lies_at_or_below_the_percentile(values, share):
    found = percentile(values, share)
    assert sum(v <= found for v in values) >= share / 100 * len(values) - 1e-6


def test_samples_age_and_are_few():
    recent = Recent(count=3, span=10.0)
    for now in range(5):
        recent.add(now, now * 1.0)
    assert recent.values(4.0) == [2, 3, 4]
    assert recent.values(13.0) == [3, 4]
    assert recent.values(99.0) == []


def test_predictions_are_corrected_by_their_error_at_the_percentile():
    correction = Correction(90, span=60.0)
    for i in range(19):
        correction.add(i, predicted=0.1, actual=0.1 + i / 100)
    assert correction.margin(19) == 0.0, "nineteen samples say nothing"
    correction.add(19, predicted=0.1, actual=0.29)
    assert correction.margin(19) == pytest.approx(0.17)
    assert correction.margin(1000) == 0.0, "old samples do not count"


def test_early_answers_do_not_loosen_the_objective():
    correction = Correction(50)
    for i in range(30):
        correction.add(i, predicted=1.0, actual=0.5)
    assert correction.margin(30) == 0.0
