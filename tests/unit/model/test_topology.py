import pytest

from geotrain.model.topology import DataCenter, Topology, WanLink


def link(**values):
    return WanLink(**{"source": "a", "target": "b", "capacity": 1e9, "round_trip": 0.04, **values})


def test_a_pod_reaches_its_cap_or_what_may_be_reserved():
    assert link().pod_rate == 1e9
    assert link(reservable=0.5).pod_rate == 5e8
    assert link(reservable=0.5, per_pod_capacity=1e8).pod_rate == 1e8


def test_a_connection_carries_a_window_in_each_round_trip():
    assert link().connection_rate == 1e9
    assert link(window=50_000).connection_rate == 1e7
    assert link(window=10**9).connection_rate == 1e9


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


def test_what_is_there_is_found_and_what_is_not_is_none():
    places = Topology((DataCenter("a", 1), DataCenter("b", 2)), (link(),))
    assert places.data_center("b") == DataCenter("b", 2)
    assert places.data_center("c") is None
    assert places.link("a", "b") == link()
    assert places.link("b", "a") is None
