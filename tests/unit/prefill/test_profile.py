import pytest

from geotrain.errors import InputError
from geotrain.prefill.admission import Piece
from geotrain.prefill.profile import LayerTime, PrefillProfile

DOCUMENT = {
    "layers": 4,
    "layerTimes": [{"tokens": 512, "time": "1ms"}, {"tokens": 2048, "time": "4ms"}],
}


@pytest.fixture
def profile():
    return PrefillProfile.from_document(DOCUMENT)


@pytest.mark.parametrize(
    ("tokens", "milliseconds"),
    [(256, 0.5), (512, 1.0), (1280, 2.5), (2048, 4.0), (3584, 7.0)],
    ids=["proportional below", "first point", "between", "last point", "extended beyond"],
)
def test_a_layer_is_piecewise_linear_in_tokens(profile, tokens, milliseconds):
    assert profile.layer_time(tokens) == pytest.approx(milliseconds / 1e3)


def test_one_point_is_a_proportion():
    profile = PrefillProfile(2, (LayerTime(1000, 0.010),))
    assert profile.layer_time(3000) == pytest.approx(0.030)


def test_a_third_point_bends_the_line():
    profile = PrefillProfile(1, (LayerTime(1, 1.0), LayerTime(2, 2.0), LayerTime(3, 4.0)))
    assert [profile.layer_time(n) for n in (1, 2, 3, 4)] == pytest.approx([1, 2, 4, 6])


def test_a_prefill_is_its_layers_one_after_another(profile):
    assert profile.prefill_time(512) == pytest.approx(0.004)
    assert profile.work(512).pieces == (Piece(0.001, 4),)
    assert profile.work(512).seconds == pytest.approx(profile.prefill_time(512))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"layers": None}, "lacks layers"),
        ({"layers": 0}, "0 layers; give 1 or more"),
        ({"layers": "many"}, "is wrong"),
        ({"layerTimes": []}, "give one or more points"),
        ({"layerTimes": [{"tokens": 0, "time": "1ms"}]}, "0 tokens; give 1 or more"),
        ({"layerTimes": [{"tokens": 1, "time": "0s"}]}, "give above 0"),
        ({"layerTimes": [{"tokens": 1, "time": "-1ms"}]}, "is not a duration"),
        ({"layerTimes": [{"tokens": 1}]}, "lacks time"),
        ({"layerTimes": 7}, "is wrong"),
        (
            {"layerTimes": [{"tokens": 9, "time": "1ms"}, {"tokens": 9, "time": "2ms"}]},
            "must ascend in tokens",
        ),
        (
            {"layerTimes": [{"tokens": 1, "time": "2ms"}, {"tokens": 9, "time": "1ms"}]},
            "never fall in time",
        ),
    ],
)
def test_a_wrong_profile_says_what_would_be_right(change, words):
    document = {key: value for key, value in (DOCUMENT | change).items() if value is not None}
    with pytest.raises(InputError, match="layerTimes") as caught:
        PrefillProfile.from_document(document)
    assert words in str(caught.value)
