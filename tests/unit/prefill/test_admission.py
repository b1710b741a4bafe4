import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.prefill.admission import Calendar, Piece, Rules, Work, place, usable_seconds

FREE = Rules(guard=0.0)
LIMIT = 1000.0


def work(seconds, count=1):
    return Work((Piece(seconds, count),))


def test_a_prefill_that_fits_runs_in_the_first_bubble():
    calendar = Calendar(((1.0, 2.0),))
    assert place(work(0.25, 2), calendar, FREE, 0.0, LIMIT) == ((1.0, 1.5),)


def test_a_prefill_pauses_between_layers_and_spans_bubbles():
    calendar = Calendar(((0.0, 1.0), (2.0, 3.0)))
    assert place(work(0.4, 4), calendar, FREE, 0.0, LIMIT) == ((0.0, 0.8), (2.0, 2.8))


def test_a_layer_is_never_cut():
    calendar = Calendar(((0.0, 0.3), (1.0, 2.0)))
    assert place(work(0.4), calendar, FREE, 0.0, LIMIT) == ((1.0, 1.4),)


def test_the_guard_is_kept_free():
    calendar = Calendar(((0.0, 1.0), (2.0, 3.5)))
    assert place(work(1.0), calendar, Rules(guard=0.1), 0.0, LIMIT) == ((2.0, 3.0),)


def test_short_bubbles_are_left_alone():
    calendar = Calendar(((0.0, 0.4), (1.0, 1.5)))
    rules = Rules(guard=0.0, minimum_bubble=0.5)
    assert place(work(0.2), calendar, rules, 0.0, LIMIT) == ((1.0, 1.2),)


def test_work_starts_within_a_bubble_that_is_under_way():
    assert place(work(0.1), Calendar(((0.0, 1.0),)), FREE, 0.5, LIMIT) == ((0.5, 0.6),)


def test_pieces_of_different_length_run_in_order():
    two = Work((Piece(0.3, 2), Piece(0.1, 2)))
    calendar = Calendar(((0.0, 0.5), (1.0, 2.0)))
    assert place(two, calendar, FREE, 0.0, LIMIT) == ((0.0, 0.3), (1.0, 1.5))


def test_beyond_the_known_bubbles_the_last_period_repeats():
    calendar = Calendar(((0.0, 0.5), (1.0, 1.5)), period=1.0)
    openings = list(itertools.islice(calendar.openings(FREE, 0.0), 4))
    assert openings == [(0.0, 0.5), (1.0, 1.5), (2.0, 2.5), (3.0, 3.5)]


def test_a_far_start_skips_the_periods_before_it():
    calendar = Calendar(((0.0, 0.5),), period=1.0)
    assert next(calendar.openings(FREE, 1e6 + 0.25)) == (1e6 + 0.25, 1e6 + 0.5)


def test_a_bubble_longer_than_the_period_is_repeated_for_one_period():
    openings = list(itertools.islice(Calendar(((0.0, 5.0),), 1.0).openings(FREE, 0.0), 3))
    assert openings == [(0.0, 5.0), (5.0, 6.0), (6.0, 7.0)]


def test_without_a_period_nothing_comes_after_the_last_bubble():
    assert place(work(0.6), Calendar(((0.0, 0.5),)), FREE, 0.0, LIMIT) is None


def test_work_longer_than_any_bubble_is_given_up_at_the_limit():
    assert place(work(0.6), Calendar(((0.0, 0.5),), 1.0), FREE, 0.0, 50.0) is None
    assert place(work(0.1), Calendar(((0.0, 0.5),), 1.0), FREE, 51.0, 50.0) is None


def test_bubbles_that_are_all_too_short_end_the_search():
    rules = Rules(guard=1.0)
    assert place(work(0.1), Calendar(((0.0, 0.5),), 1.0), rules, 0.0, LIMIT) is None


def test_when_training_is_over_the_gpu_is_free_for_good():
    calendar = Calendar(((1.0, math.inf),), period=1.0)
    assert place(work(7.0, 2), calendar, Rules(), 3.0, LIMIT) == ((3.0, 17.0),)


def test_no_work_is_done_at_once():
    assert place(Work(()), Calendar(), FREE, 4.0, LIMIT) == ((4.0, 4.0),)


def test_a_closed_calendar_takes_nothing():
    assert place(work(0.1), Calendar(), FREE, 0.0, LIMIT) is None


def test_spans_of_any_order_make_a_calendar():
    spans = [(5.0, 6.0), (1.0, 2.0), (1.5, 3.0), (4.0, 4.0), (1.6, 1.7)]
    assert Calendar.from_spans(spans, -1.0) == Calendar(((1.0, 3.0), (5.0, 6.0)), 0.0)


@pytest.mark.parametrize("bubbles", [((1.0, 1.0),), ((2.0, 1.0),), ((0.0, 2.0), (1.0, 3.0))])
def test_a_calendar_refuses_bubbles_that_are_empty_or_overlap(bubbles):
    with pytest.raises(ValueError, match="bubble"):
        Calendar(bubbles)


@pytest.mark.parametrize(("seconds", "count"), [(0.0, 1), (-1.0, 1), (math.inf, 1), (1.0, 0)])
def test_a_piece_takes_time(seconds, count):
    with pytest.raises(ValueError, match="above 0"):
        Piece(seconds, count)


@pytest.mark.parametrize("wrong", [{"guard": -1.0}, {"minimum_bubble": -1.0}])
def test_rules_are_not_negative(wrong):
    with pytest.raises(ValueError, match="0 or more"):
        Rules(**wrong)


@pytest.mark.parametrize(
    ("left", "pieces"),
    [
        (0.0, ()),
        (0.05, (Piece(0.1, 1),)),
        (0.2, (Piece(0.1, 2),)),
        (0.3, (Piece(0.3, 1), Piece(0.1, 2))),
        (0.8, (Piece(0.3, 2), Piece(0.1, 2))),
        (9.0, (Piece(0.3, 2), Piece(0.1, 2))),
    ],
)
def test_what_remains_is_the_end_of_the_work_in_whole_kernels(left, pieces):
    assert Work((Piece(0.3, 2), Piece(0.1, 2))).remaining(left).pieces == pieces


def test_work_knows_its_time_and_its_longest_kernel():
    two = Work((Piece(0.3, 2), Piece(0.1, 2)))
    assert (two.seconds, two.kernel) == (pytest.approx(0.8), 0.3)
    assert Work(()).kernel == 0.0


def test_offered_time_is_what_may_be_used():
    calendar = Calendar(((0.0, 0.5),), period=1.0)
    assert usable_seconds(calendar, Rules(guard=0.1), 0.2, 1.3) == pytest.approx(0.5)
    assert usable_seconds(Calendar(), FREE, 0.0, 5.0) == 0.0
    assert usable_seconds(Calendar(((0.0, math.inf),)), FREE, 1.0, 3.0) == 2.0


# Properties


@st.composite
def calendars(draw):
    gaps = draw(st.lists(st.tuples(st.floats(0, 0.5), st.floats(0.001, 0.5)), max_size=8))
    at, spans = 0.0, []
    for gap, length in gaps:
        spans.append((at + gap, at + gap + length))
        at += gap + length + 0.001
    return Calendar(tuple(spans), draw(st.sampled_from([0.0, 0.3, 1.0, 5.0])))


works = st.builds(
    lambda parts: Work(tuple(Piece(s, n) for s, n in parts)),
    st.lists(st.tuples(st.floats(0.0005, 0.2), st.integers(1, 40)), min_size=1, max_size=3),
)
some_rules = st.builds(Rules, guard=st.floats(0, 0.05), minimum_bubble=st.floats(0, 0.1))
starts = st.floats(0, 20)
TOLERANCE = 1e-9


@given(works, calendars(), some_rules, starts)
def test_slots_lie_in_usable_bubbles_and_hold_exactly_the_work(task, calendar, rules, start):
    slots = place(task, calendar, rules, start, 30.0)
    if slots is None:
        return
    assert sum(e - b for b, e in slots) == pytest.approx(task.seconds, rel=1e-6)
    horizon = slots[-1][1] + 1.0
    openings = list(
        itertools.takewhile(lambda span: span[0] < horizon, calendar.openings(rules, start))
    )
    for begin, end in slots:
        assert any(b - TOLERANCE <= begin and end <= e + TOLERANCE for b, e in openings)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(slots))
    assert slots[0][0] >= start


@given(calendars(), some_rules, starts)
def test_openings_never_leave_their_bubbles_nor_touch_the_guard(calendar, rules, start):
    known = calendar.bubbles[-1][1] if calendar.bubbles else 0.0
    for begin, end in itertools.islice(calendar.openings(rules, start), 20):
        assert start <= begin < end
        if end <= known - rules.guard:
            inside = [b for b in calendar.bubbles if b[0] <= begin and end <= b[1] - rules.guard]
            assert len(inside) == 1
            assert inside[0][1] - rules.guard - inside[0][0] >= rules.minimum_bubble


@given(works, st.integers(1, 50), calendars(), some_rules, starts)
def test_more_work_never_finishes_earlier(task, more, calendar, rules, start):
    last = task.pieces[-1]
    longer = Work((*task.pieces[:-1], Piece(last.seconds, last.count + more)))
    short = place(task, calendar, rules, start, 30.0)
    long = place(longer, calendar, rules, start, 30.0)
    if long is not None:
        assert short is not None
        assert short[-1][1] <= long[-1][1]


@given(works, calendars(), some_rules, starts, st.floats(0, 5))
def test_a_later_start_never_finishes_earlier(task, calendar, rules, start, delay):
    early = place(task, calendar, rules, start, 30.0)
    late = place(task, calendar, rules, start + delay, 30.0)
    if early is not None and late is not None:
        assert early[-1][1] <= late[-1][1] + TOLERANCE
