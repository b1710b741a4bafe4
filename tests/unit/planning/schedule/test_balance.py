from itertools import accumulate, combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.model.workload import LayerCosts
from geotrain.planning.schedule.balance import balanced_layers, balanced_over


def layers(*times):
    return tuple(LayerCosts(time, 0.0, 0.0) for time in times)


def test_equal_layers_that_divide_are_dealt_out_evenly():
    assert balanced_layers(layers(*[0.01] * 24), 6) == (4,) * 6


def test_what_is_left_over_goes_to_later_stages():
    assert balanced_layers(layers(*[0.0123] * 8), 5) == (1, 1, 2, 2, 2)


def test_a_heavy_layer_gets_a_stage_of_its_own():
    assert balanced_layers(layers(1, 1, 1, 9, 1, 1), 3) == (3, 1, 2)


def test_layers_that_take_no_time_are_counted():
    assert balanced_layers(layers(0, 0, 0, 0), 2) == (2, 2)


@pytest.mark.parametrize("stages", [0, 3])
def test_every_stage_needs_a_layer(stages):
    with pytest.raises(ValueError, match=f"2 layers cannot make {stages} stages"):
        balanced_layers(layers(1, 1), stages)


def splits(count, stages):
    if stages == 1:
        yield (count,)
        return
    for first in range(1, count - stages + 2):
        yield from ((first, *rest) for rest in splits(count - first, stages - 1))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=7), st.data())
def test_no_split_has_a_faster_slowest_stage(times, data):
    stages = data.draw(st.integers(1, len(times)))

    def slowest(split):
        begin, sums = 0, []
        for count in split:
            sums.append(sum(times[begin : begin + count]))
            begin += count
        return max(sums)

    found = balanced_layers(layers(*times), stages)
    assert sum(found) == len(times)
    assert min(found) >= 1
    assert slowest(found) == min(slowest(split) for split in splits(len(times), stages))


def test_stages_on_faster_devices_get_more_layers():
    slow, fast = layers(*[0.02] * 12), layers(*[0.01] * 12)
    assert balanced_over((slow, fast)) == (4, 8)
    assert balanced_over((fast, slow, slow)) == (6, 3, 3)


def test_equal_devices_are_balanced_as_ever():
    some = layers(1, 1, 1, 9, 1, 1)
    assert balanced_over((some,) * 3) == balanced_layers(some, 3)


def test_every_stage_of_different_devices_needs_a_layer():
    with pytest.raises(ValueError, match="1 layers cannot make 2 stages"):
        balanced_over((layers(1), layers(2)))


@given(
    st.lists(st.integers(0, 9), min_size=2, max_size=6),
    st.lists(st.integers(1, 4), min_size=2, max_size=6),
)
def test_no_split_over_different_devices_has_a_faster_slowest_stage(times, speeds):
    speeds = speeds[: len(times)]
    rows = tuple(layers(*(time * speed for time in times)) for speed in speeds)

    def slowest(split):
        ends = [sum(split[:i]) for i in range(len(split) + 1)]
        return max(
            speed * sum(times[a:b]) for speed, a, b in zip(speeds, ends, ends[1:], strict=False)
        )

    found = balanced_over(rows)
    assert sum(found) == len(times)
    assert min(found) >= 1
    assert slowest(found) == min(slowest(split) for split in splits(len(times), len(speeds)))


@pytest.mark.parametrize("stages", [1, 2, 3, 5])
@pytest.mark.parametrize("last", [0.5, 1, 1.5, 2, 7, 40])
def test_equal_layers_with_another_last_are_split_as_any(stages, last):
    """The least slowest stage, then the least squares, then more layers to later stages."""
    times = [10**12 + 1] * 9 + [round(last * 10**12) + 1]

    def worth(split):
        ends = list(accumulate(split))
        sums = [sum(times[end - count : end]) for count, end in zip(split, ends, strict=True)]
        return max(sums), sum(each**2 for each in sums), split

    cuts = combinations(range(1, 10), stages - 1)
    splits = [tuple(b - a for a, b in pairwise((0, *cut, 10))) for cut in cuts]
    found = balanced_layers(layers(*(1,) * 9, last), stages)
    assert found == min(splits, key=worth)
