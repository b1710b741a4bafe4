import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.prefill.kernels import CHUNK, LONGEST_KERNEL, Chunk, LayerTimes, ProfileError, seconds
from geotrain.prefill.profile import LayerTime, PrefillProfile

POINTS = ((512, 0.0012), (2048, 0.00498), (4096, 0.00994), (6144, 0.01586))
TIMES = LayerTimes(80, POINTS)
PROFILE = PrefillProfile(80, tuple(LayerTime(*point) for point in POINTS))


def two(tokens, time, more, later):
    points = [{"tokens": tokens, "time": time}, {"tokens": more, "time": later}]
    return {"layers": 2, "layerTimes": points}


@given(st.integers(1, 100_000))
def test_the_router_predicts_what_the_kernels_take(tokens):
    chunks = TIMES.chunks(tokens)
    assert 80 * sum(chunk.seconds for chunk in chunks) == pytest.approx(
        PROFILE.prefill_time(tokens)
    )


@given(st.integers(1, 100_000))
def test_no_kernel_holds_the_gpu_for_long(tokens):
    chunks = TIMES.chunks(tokens)
    assert max(chunk.seconds for chunk in chunks) <= LONGEST_KERNEL
    assert max(chunk.end - chunk.begin for chunk in chunks) <= CHUNK
    assert [chunk.begin for chunk in chunks] == [0, *(chunk.end for chunk in chunks[:-1])]
    assert chunks[-1].end == tokens


def test_a_prompt_that_fits_is_one_chunk():
    assert TIMES.chunks(2048) == [Chunk(0, 2048, 0.00498)]


def test_chunks_are_about_equal():
    assert [chunk.end for chunk in TIMES.chunks(4100)] == [1367, 2734, 4100]


def test_a_token_that_takes_too_long_is_a_kernel_of_its_own():
    slow = LayerTimes(1, ((1, 0.02),))
    assert slow.chunks(2) == [Chunk(0, 1, 0.02), Chunk(1, 2, 0.02)]


def test_the_profile_is_read():
    document = {"layers": 2, "layerTimes": [{"tokens": 512, "time": "1.2ms"}]}
    assert LayerTimes.from_json(json.dumps(document)) == LayerTimes(2, ((512, 0.0012),))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"layerTimes": []}, "KeyError('layers')"),
        ({"layers": 2, "layerTimes": []}, "a prefill profile needs layers and layerTimes"),
        ({"layers": 2, "layerTimes": [{"tokens": 1, "time": "fast"}]}, "'fast' is not a duration"),
        (
            {
                "layers": 2,
                "layerTimes": [{"tokens": 2, "time": "1ms"}, {"tokens": 1, "time": "2ms"}],
            },
            "layerTimes must ascend in tokens",
        ),
        (
            {
                "layers": 2,
                "layerTimes": [{"tokens": 1, "time": "2ms"}, {"tokens": 2, "time": "1ms"}],
            },
            "never fall in time",
        ),
        ([], "TypeError"),
    ],
)
def test_a_wrong_profile_is_refused(document, message):
    with pytest.raises(ProfileError) as error:
        LayerTimes.from_json(json.dumps(document))
    assert message in str(error.value)


@pytest.mark.parametrize(("text", "value"), [("2ms", 0.002), ("1.5s", 1.5), ("3us", 3e-6)])
def test_durations(text, value):
    assert seconds(text) == pytest.approx(value)
