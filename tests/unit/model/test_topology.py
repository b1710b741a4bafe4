import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.model.topology import DataCenter, Lan, MessageRates, Topology, WanLink


def link(**values):
    return WanLink(**{"source": "a", "target": "b", "capacity": 1e9, "round_trip": 0.04, **values})


def test_a_pod_reaches_its_cap_or_what_may_be_reserved():
    assert link().pod_rate == 1e9
    assert link(reservable=0.5).pod_rate == 5e8
    assert link(reservable=0.5, per_pod_capacity=1e8).pod_rate == 1e8


POINTS = MessageRates((1.0, 4.0, 16.0), (10.0, 20.0, 40.0))


def test_points_are_joined_by_lines_over_the_logarithm():
    assert [POINTS.rate(size) for size in (1, 2, 4, 8, 16, 99)] == [10, 15, 20, 30, 40, 40]


@given(st.floats(1, 1e6))
def test_below_the_first_point_a_message_takes_as_long_as_the_first(size):
    points = MessageRates((1e6, 2e6), (1e9, 5e9))
    assert size / points.rate(size) == pytest.approx(1e6 / 1e9)
    assert points.rate(0) == points.rate(1)


def test_a_pod_pair_reaches_what_the_size_of_a_message_allows():
    assert link().message_rate(1) == 1e9
    measured = link(message_rates=MessageRates((1e3, 1e6), (1e6, 5e8)))
    assert measured.pod_rate == measured.message_rate(1e9) == 5e8
    assert measured.message_rate(1e3) == 1e6
    assert link(message_rates=POINTS, per_pod_capacity=30.0).message_rate(16) == 30


@pytest.mark.parametrize(
    ("sizes", "rates", "sentence"),
    [
        ((), (), "at least one size, each with its rate"),
        ((1.0,), (), "at least one size, each with its rate"),
        ((0.0,), (1.0,), "must be above 0 and ascend"),
        ((2.0, 2.0), (1.0, 1.0), "must be above 0 and ascend"),
        ((1.0, 2.0), (1.0, 0.0), "message rates must be above 0"),
    ],
)
def test_wrong_message_rates_are_refused(sizes, rates, sentence):
    with pytest.raises(ValueError, match=sentence):
        MessageRates(sizes, rates)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"capacity": 0}, "capacity must be above 0"),
        ({"round_trip": -0.1}, "round trip must be 0 or more"),
        ({"reservable": 0}, r"reservable must be in \(0, 1\]"),
        ({"reservable": 1.1}, r"reservable must be in \(0, 1\]"),
        ({"efficiency": 0}, r"efficiency must be in \(0, 1\]"),
    ],
)
def test_wrong_values_are_refused(values, sentence):
    with pytest.raises(ValueError, match=f"link a-b: {sentence}"):
        link(**values)


def test_a_data_centre_has_no_negative_gpus():
    with pytest.raises(ValueError, match="'a' has -1 GPUs; give 0 or more"):
        DataCenter("a", -1)


@pytest.mark.parametrize(
    ("rate", "latency", "sentence"),
    [(0, 0, "reaches 0 bit/s of another; give more than 0"), (1, -1, "of -1 s is negative")],
)
def test_a_wrong_lan_is_refused(rate, latency, sentence):
    with pytest.raises(ValueError, match=sentence):
        Lan(rate, latency)


def test_what_is_there_is_found_and_what_is_not_is_none():
    places = Topology((DataCenter("a", 1), DataCenter("b", 2)), (link(),))
    assert places.data_center("b") == DataCenter("b", 2)
    assert places.data_center("c") is None
    assert places.link("a", "b") == link()
    assert places.link("b", "a") is None
    assert Topology((DataCenter("a", 1, lan=Lan(1e9)),)).lan("a") == Lan(1e9)
    assert places.lan("c") == Lan()
