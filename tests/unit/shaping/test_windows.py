import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.shaping.windows import Turn, Windows

M = 1e6


def owners(windows: Windows, now: float, base: float = 0.0, stretch: float = 1.0) -> list[int]:
    return [flow for flow, _ in windows.at(base, now, stretch)[0].owners]


TWO = Windows([Turn(1, 0.1, 0.2, 50 * M), Turn(2, 0.5, 0.2, 40 * M)], 1.0)


@pytest.mark.parametrize(
    ("now", "owner", "is_open", "end"),
    [
        (0.05, 2, False, 0.1),  # the gap before the first belongs to the last iteration's last
        (0.15, 1, True, 0.3),
        (0.35, 1, False, 0.5),
        (0.6, 2, True, 0.7),
        (0.9, 2, False, 1.0),
        (1.15, 1, True, 1.3),
        (-0.85, 1, True, -0.7),
    ],
)
def test_turns_follow_each_other(now: float, owner: int, is_open: bool, end: float) -> None:
    step, following = TWO.at(0.0, now)
    assert [flow for flow, _ in step.owners] == [owner]
    assert bool(step.open) == is_open
    assert following == pytest.approx(end)


def test_a_longer_iteration_stretches_the_windows() -> None:
    assert owners(TWO, 10.55, base=10.0) == [2]
    assert owners(TWO, 10.55, base=10.0, stretch=1.2) == [1]
    assert TWO.at(10.0, 10.55, 1.2)[1] == pytest.approx(10.6)


def test_windows_that_overlap_share_the_turn() -> None:
    windows = Windows([Turn(1, 0.0, 0.5, 10 * M), Turn(2, 0.4, 0.3, 20 * M)], 1.0)
    assert windows.at(0.0, 0.45)[0].owners == ((1, 10 * M), (2, 20 * M))
    assert owners(windows, 0.2) == [1]
    assert owners(windows, 0.6) == [2]


def test_a_window_may_run_into_the_next_iteration() -> None:
    windows = Windows([Turn(1, 0.9, 0.2, M), Turn(2, 0.5, 0.1, M)], 1.0)
    assert windows.at(0.0, 0.05)[0].open == {1}
    assert windows.at(0.0, 0.95)[0].open == {1}
    assert windows.at(0.0, 0.2)[0].open == frozenset()


@pytest.mark.parametrize("windows", [Windows([], 1.0), Windows([Turn(1, 0.0, 1.0, M)], 0.0)])
def test_no_windows_are_none(windows: Windows) -> None:
    assert not windows


TURN = st.builds(
    Turn,
    flow=st.integers(1, 4),
    offset=st.floats(0, 3),
    length=st.floats(0.001, 2),
    rate=st.just(M),
)


@given(
    st.lists(TURN, min_size=1, max_size=8),
    st.floats(0.5, 3),
    st.floats(-50, 50),
    st.floats(0.8, 1.5),
)
def test_somebody_always_has_the_turn_and_steps_end(
    turns: list[Turn], period: float, now: float, stretch: float
) -> None:
    windows = Windows(turns, period)
    step, end = windows.at(0.0, now, stretch)
    assert step.owners
    assert step.open <= {flow for flow, _ in step.owners}
    assert end >= now - 1e-6
    assert end - now <= period * stretch + 1e-6
