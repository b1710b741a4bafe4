import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain import units


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("40ms", 0.04),
        ("1.5s", 1.5),
        ("1m30s", 90),
        ("18522us", 0.018522),
        ("7µs", 7e-6),
        ("2h", 7200),
    ],
)
def test_durations_are_read_as_go_reads_them(text, seconds):
    assert units.parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "40", "ms", "-1s", "1 s", "1d", "nan", "1e3s"])
def test_what_is_no_duration_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="write one like 40ms"):
        units.parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.04, "40ms"), (1.5, "1.5s"), (2.5e-6, "2.5us"), (3e-9, "3ns"), (36000, "36000s")],
)
def test_durations_are_written_in_the_unit_that_reads_best(seconds, text):
    assert units.format_duration(seconds) == text


@given(st.floats(min_value=1e-8, max_value=9_999))
def test_a_written_duration_reads_back(seconds):
    again = units.parse_duration(units.format_duration(seconds))
    assert math.isclose(again, seconds, rel_tol=1e-3)


@pytest.mark.parametrize(
    ("text", "size"), [("64Gi", 64 * 2**30), ("500M", 500_000_000), ("12", 12), ("1.5Ki", 1536)]
)
def test_quantities_are_read_as_kubernetes_reads_them(text, size):
    assert units.parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "5GB", "-5", "5 Gi", "Gi"])
def test_what_is_no_quantity_is_refused(text):
    with pytest.raises(ValueError, match="is not a quantity"):
        units.parse_bytes(text)


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0"), (512, "512"), (2**30, "1Gi"), (1536, "1.5Ki")]
)
def test_sizes_are_written_with_binary_suffixes(size, text):
    assert units.format_bytes(size) == text


@pytest.mark.parametrize(
    ("text", "rate"), [("5G", 5e9), ("50M", 5e7), ("9600", 9600), ("1.5k", 1500)]
)
def test_rates_are_bits_per_second(text, rate):
    assert units.parse_rate(text) == rate
    assert units.parse_rate(units.format_rate(rate)) == rate


@pytest.mark.parametrize("text", ["5Gi", "5Gbit", "", "-1G"])
def test_what_is_no_rate_is_refused(text):
    with pytest.raises(ValueError, match="is not a rate"):
        units.parse_rate(text)


def test_bits_and_bytes_meet_here_only():
    assert units.transfer_time(1_000_000, 8e6) == 1.0
    assert units.bytes_per_second(50e6) == 6_250_000
    assert units.bits(3) == 24


def test_one_connection_carries_a_window_each_round_trip():
    assert units.window_rate(1_500_000, 0.04) == pytest.approx(300e6)
    assert units.window_rate(1, 0) == math.inf
