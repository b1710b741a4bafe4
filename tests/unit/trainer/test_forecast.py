import pytest

from examples.trainer.forecast import Forecast


@pytest.fixture
def forecast():
    return Forecast()


def test_nothing_is_foretold_before_the_first_iteration(forecast):
    forecast.ended(0, 9.0)
    assert forecast.until(0, is_first=True) is None
    assert forecast.until(1) is None


def test_a_wait_is_expected_to_end_where_it_ended_last_time(forecast):
    forecast.begin(10.0)
    assert forecast.until(1) is None
    forecast.ended(1, 10.25)
    forecast.begin(11.0)
    assert forecast.until(1) == pytest.approx(11.25)


def test_the_earliest_of_the_last_four_counts(forecast):
    ends = [(10.0, 10.1), (11.0, 11.5), (12.0, 12.75), (13.0, 13.8), (14.0, 14.6)]
    for begin, end in ends:
        forecast.begin(begin)
        forecast.ended(1, end)
    forecast.begin(15.0)
    assert forecast.until(1) == pytest.approx(15.5)


def test_the_first_wait_ends_a_period_after_the_last_beginning(forecast):
    forecast.begin(10.0)
    assert forecast.until(0, is_first=True) is None
    forecast.begin(11.5)
    assert forecast.until(0, is_first=True) == pytest.approx(13.0)
