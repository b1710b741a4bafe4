import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.shaping.windows import Owner, Turn, Turns

M = 1e6
CELL = {1: "cell", 2: "cell"}
WINDOW = 1_000_000  # bytes: 0.1 s at 80 Mbit/s
SLACK = WINDOW // 10
ALTERNATING = Turns(
    [Turn(flow, offset, 0.1, 80 * M) for offset, flow in ((0.0, 1), (0.1, 2), (0.2, 1), (0.3, 2))],
    CELL,
)


def owner(sent: dict[int, int], turns: Turns = ALTERNATING) -> int:
    owners = {o.flow for o in turns.owners(sent).values()}
    assert len(owners) == 1
    return owners.pop()


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({}, 1),
        ({1: WINDOW}, 1),  # its last packets may still come
        ({1: WINDOW + SLACK}, 2),
        ({1: WINDOW + SLACK, 2: WINDOW + SLACK}, 1),
        ({2: WINDOW + SLACK}, 1),  # who went ahead does not take the turn along
        ({1: 2 * WINDOW + SLACK, 2: WINDOW + SLACK}, 2),
    ],
)
def test_the_flow_that_is_furthest_behind_has_the_turn(sent: dict[int, int], expected: int) -> None:
    assert owner(sent) == expected


def test_the_owner_says_what_is_left_and_when_it_may_be_over() -> None:
    found = ALTERNATING.owners({1: WINDOW // 2})
    assert found == dict.fromkeys((1, 2), Owner(1, 80 * M, WINDOW // 2 + SLACK))
    assert found[2].soonest == pytest.approx(0.06)


def test_after_the_last_window_nobody_has_the_turn() -> None:
    assert ALTERNATING.owners(dict.fromkeys((1, 2), 3 * WINDOW)) == {}
    assert owner({1: 3 * WINDOW}) == 2


def test_flows_of_different_cells_do_not_wait_for_each_other() -> None:
    turns = Turns([Turn(1, 0.0, 0.1, M), Turn(2, 0.0, 0.1, M)], {1: "there", 2: "back"})
    assert {flow: o.flow for flow, o in turns.owners({}).items()} == {1: 1, 2: 2}
    alone = Turns([Turn(3, 0.0, 0.1, M)], {})
    assert alone.owners({})[3].flow == 3


def test_windows_tell_what_an_iteration_carries() -> None:
    assert ALTERNATING.planned(1) == 2 * WINDOW
    assert ALTERNATING.planned(9) == 0
    assert ALTERNATING
    assert not Turns([], {})


TURN = st.builds(
    Turn,
    flow=st.integers(1, 4),
    offset=st.floats(0, 3),
    length=st.floats(0.001, 2),
    rate=st.just(M),
)


@given(st.lists(TURN, min_size=1, max_size=8))
def test_whoever_owns_and_sends_brings_every_window_to_its_end(turns: list[Turn]) -> None:
    plan = Turns(turns, dict.fromkeys(range(1, 5), "cell"))
    sent: dict[int, int] = {}
    steps = 0
    while owners := plan.owners(sent):
        (now,) = {o.flow: o for o in owners.values()}.values()
        assert now.left > 0
        sent[now.flow] = sent.get(now.flow, 0) + now.left
        steps += 1
    assert steps <= len(turns)
