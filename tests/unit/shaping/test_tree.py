import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.shaping.diff import DeleteClass, DeleteQdisc, PutClass, ReplaceQdisc, diff
from geotrain.shaping.tree import (
    LOCAL,
    OTHER,
    UNLIMITED,
    WIDE_AREA,
    HtbClass,
    Share,
    Tree,
    minor_of,
    priority_of,
    tree,
)
from support.htb import FakeHtb

M = 1e6
RATE = st.floats(1e6, 1e10)
SHARES = st.lists(
    st.builds(Share, flow=st.integers(1, 50), rate=RATE, idle_rate=st.floats(1e5, 1e9)),
    max_size=6,
    unique_by=lambda s: s.flow,
)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    shares = draw(SHARES)
    owners = draw(st.one_of(st.none(), st.sets(st.sampled_from([s.flow for s in shares] or [1]))))
    turns = None if owners is None else {flow: draw(RATE) for flow in sorted(owners)}
    return tree(shares, draw(st.one_of(st.none(), RATE)), turns)


def classes(shape: Tree) -> dict[int, HtbClass]:
    return {c.minor: c for c in shape.classes}


@given(trees())
def test_rates_handed_out_never_exceed_the_pods(shape: Tree) -> None:
    found = classes(shape)
    limit = found[WIDE_AREA].rate
    children = [c for c in shape.classes if c.parent == WIDE_AREA]
    assert sum(c.rate for c in children) <= limit * 1.0001
    assert all(c.rate <= c.ceil == limit for c in children)


@given(trees())
def test_no_flow_is_ever_stopped_and_every_rate_can_be_held_exactly(shape: Tree) -> None:
    assert all(c.rate > 0 and c.rate % 8 == 0 and c.ceil % 8 == 0 for c in shape.classes)
    assert all(c.quantum > 0 for c in shape.classes)


def test_the_owner_of_a_window_has_what_the_others_leave() -> None:
    shares = [Share(1, 50 * M, 5 * M), Share(2, 50 * M, 5 * M)]
    found = classes(tree(shares, 50 * M, {1: 50 * M}))
    assert found[minor_of(1)].quantum == 20 * found[minor_of(2)].quantum
    assert found[minor_of(1)].rate == found[minor_of(2)].rate == 5 * M  # rates never change
    assert found[OTHER].rate == 1 * M


def test_owners_of_two_turns_share_as_their_windows_say() -> None:
    shares = [Share(flow, 50 * M, 5 * M) for flow in (1, 2, 3)]
    found = classes(tree(shares, 50 * M, {1: 50 * M, 2: 25 * M}))
    assert found[minor_of(1)].quantum == 2 * found[minor_of(2)].quantum
    assert found[minor_of(3)].quantum < found[minor_of(2)].quantum
    nobody = classes(tree(shares, 50 * M, {}))
    assert len({nobody[minor_of(flow)].quantum for flow in (1, 2, 3)}) == 1


def test_without_turns_flows_share_in_proportion() -> None:
    found = classes(tree([Share(1, 50 * M, M), Share(2, 50 * M, M)], 50 * M))
    assert found[minor_of(1)].rate == found[minor_of(2)].rate == 24.5 * M


def test_idle_rates_that_exceed_the_pods_leave_half_to_borrow() -> None:
    shares = [Share(1, 50 * M, M), Share(2, 50 * M, 100 * M)]
    found = classes(tree(shares, 50 * M, {1: 50 * M}))
    assert found[minor_of(1)].rate + found[minor_of(2)].rate == pytest.approx(24.5 * M, abs=16)


def test_without_a_pod_rate_the_wide_area_has_the_links() -> None:
    found = classes(tree([], None))
    assert found[WIDE_AREA].rate == UNLIMITED
    assert set(found) == {WIDE_AREA, LOCAL, OTHER}


def test_a_class_is_named_by_the_sockets_priority() -> None:
    assert priority_of(minor_of(3)) == 0x10103


@given(st.one_of(st.none(), trees()), st.one_of(st.none(), trees()))
def test_a_second_application_has_nothing_to_do(before: Tree | None, after: Tree | None) -> None:
    kernel = FakeHtb()
    for wanted in (before, after):
        for operation in diff(kernel.observe(), wanted):
            kernel.apply(operation)
        assert diff(kernel.observe(), wanted) == []
    observed = kernel.observe()
    assert (observed is None) == (after is None)
    if observed is not None and after is not None:
        assert observed.classes == tuple(sorted(after.classes))


def test_only_what_changed_is_touched() -> None:
    shares = [Share(1, 50 * M, 5 * M), Share(2, 50 * M, 5 * M)]
    first, second = (tree(shares, 50 * M, {flow: 50 * M}) for flow in (1, 2))
    changed = diff(first, second)
    assert [type(o) for o in changed] == [PutClass, PutClass]
    assert {o.htb.minor for o in changed if isinstance(o, PutClass)} == {257, 258}


def test_a_class_that_moves_is_removed_and_added() -> None:
    top = HtbClass(1, 0, 8, 8)
    before = Tree(2, (top, HtbClass(5, 1, 8, 8)))
    after = Tree(2, (top, HtbClass(5, 0, 8, 8)))
    assert diff(before, after) == [DeleteClass(5), PutClass(HtbClass(5, 0, 8, 8))]


def test_another_default_needs_a_new_qdisc() -> None:
    assert diff(Tree(9, ()), Tree(2, ())) == [ReplaceQdisc(2)]
    assert diff(Tree(9, ()), None) == [DeleteQdisc()]


@pytest.mark.parametrize("rate", [0.0, 7.0])
def test_the_least_rate_is_not_nothing(rate: float) -> None:
    assert classes(tree([Share(1, rate, 0.0)], 50 * M))[257].rate == 8_000
