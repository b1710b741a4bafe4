import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.prefill.kernels import LayerTimes
from geotrain.prefill.admission import Piece
from geotrain.prefill.profile import LayerTime, PrefillProfile


@pytest.fixture
def profile():
    return PrefillProfile(4, (LayerTime(512, 0.001), LayerTime(2048, 0.004)))


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


def test_a_long_prompt_is_cut_into_equal_chunks(profile):
    pieces = profile.work(5000).pieces
    assert [piece.count for piece in pieces] == [4, 4, 4]
    assert max(piece.seconds for piece in pieces) <= 0.006
    assert profile.work(5000).seconds == pytest.approx(profile.prefill_time(5000))


def test_kernels_that_would_take_too_long_are_cut_further():
    slow = PrefillProfile(2, (LayerTime(1000, 0.020),))
    pieces = slow.work(1000).pieces
    assert len(pieces) == 4
    assert slow.work(1).seconds == pytest.approx(2 * 0.00002)


def test_one_token_is_the_smallest_chunk():
    slow = PrefillProfile(1, (LayerTime(2, 1.0),))
    assert [piece.seconds for piece in slow.work(2).pieces] == [0.5, 0.5]


def test_a_chunk_that_costs_nothing_is_no_piece():
    flat = PrefillProfile(1, (LayerTime(2048, 0.005), LayerTime(9000, 0.005)))
    assert flat.work(4096).pieces == (Piece(0.005, 1),)


@given(st.integers(1, 50_000))
def test_the_reference_worker_cuts_the_same_kernels(tokens):
    points = ((512, 0.0012), (2048, 0.00498), (8192, 0.0331))
    ours = PrefillProfile(80, tuple(LayerTime(*point) for point in points))
    theirs = LayerTimes(80, points)
    assert [p.seconds for p in ours.work(tokens).pieces] == pytest.approx(
        [chunk.seconds for chunk in theirs.chunks(tokens)]
    )


@pytest.mark.parametrize(
    ("tokens", "time", "words"),
    [
        (0, 0.001, "0 tokens; give 1 or more"),
        (1, 0.0, "takes 0.0 s; give above 0"),
        (1, -0.001, "give above 0"),
        (1, float("inf"), "give above 0"),
    ],
)
def test_a_wrong_point_is_refused(tokens, time, words):
    with pytest.raises(ValueError, match=words):
        LayerTime(tokens, time)


@pytest.mark.parametrize(
    ("layers", "points", "words"),
    [
        (0, [(1, 0.1)], "0 layers; give 1 or more"),
        (1, [], "no layer times"),
        (1, [(9, 0.1), (9, 0.2)], "must ascend in tokens"),
        (1, [(1, 0.2), (9, 0.1)], "never fall in time"),
    ],
)
def test_a_wrong_profile_is_refused(layers, points, words):
    with pytest.raises(ValueError, match=words):
        PrefillProfile(layers, tuple(LayerTime(*point) for point in points))


def test_a_profile_may_allow_longer_kernels():
    points = (LayerTime(2048, 0.02),)
    short, long = PrefillProfile(10, points), PrefillProfile(10, points, longest_kernel=0.02)
    assert len(short.work(2048).pieces) > len(long.work(2048).pieces) == 1


@pytest.mark.parametrize("longest", [0.0, -1.0, float("nan")])
def test_a_longest_kernel_of_nothing_is_refused(longest):
    with pytest.raises(ValueError, match="give above 0"):
        PrefillProfile(10, (LayerTime(2048, 0.02),), longest_kernel=longest)
