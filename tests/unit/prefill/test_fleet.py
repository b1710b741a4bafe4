import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.prefill.admission import Calendar, Piece, Rules, Work
from geotrain.prefill.fleet import Fleet, Observation
from geotrain.prefill.routing import Admit, Objective, Refuse, Request

SECOND = Objective(1.0)


@pytest.fixture
def fleet():
    fleet = Fleet(Rules(guard=0.0), layers=4)
    fleet.keep(["a", "b"])
    return fleet


def report(*spans, period=0.0, **more):
    return Observation(Calendar(tuple(spans), period), **more)


def request(name, seconds=0.1, count=4, arrival=0.0):
    return Request(name, Work((Piece(seconds, count),)), arrival)


def test_requests_are_booked_one_after_another(fleet):
    fleet.observe("a", report((0.0, 9.0)), 0.0)
    first = fleet.admit(request("1"), SECOND, 0.0)
    second = fleet.admit(request("2"), SECOND, 0.0)
    assert isinstance(first, Admit)
    assert isinstance(second, Admit)
    assert first.slots[-1][1] <= second.slots[0][0]
    assert isinstance(fleet.admit(request("3"), SECOND, 0.0), Refuse)
    assert len(fleet.workers["a"].book) == 2, "a refusal books nothing"


def test_load_goes_where_it_finishes_first(fleet):
    for name in "ab":
        fleet.observe(name, report((0.0, 9.0)), 0.0)
    chosen = [fleet.admit(request(str(i)), SECOND, 0.0).worker for i in range(4)]
    assert chosen == ["a", "b", "a", "b"]


def test_a_retry_avoids_the_worker_that_failed(fleet):
    for name in "ab":
        fleet.observe(name, report((0.0, 9.0)), 0.0)
    assert fleet.admit(request("1"), SECOND, 0.0, without={"a"}).worker == "b"


def test_a_released_request_frees_its_time(fleet):
    fleet.observe("a", report((0.0, 9.0)), 0.0)
    fleet.admit(request("1"), SECOND, 0.0)
    fleet.release("a", "1")
    fleet.release("gone", "1")
    assert fleet.admit(request("2"), SECOND, 0.0).slots[0][0] == 0.0


def test_a_report_moves_predictions_to_what_is_left(fleet):
    fleet.observe("a", report((0.0, 9.0)), 0.0)
    fleet.admit(request("1"), SECOND, 0.0)
    fleet.admit(request("2"), SECOND, 0.0)
    fleet.observe("a", report((0.5, 9.0), queue=(("1", 0.2),)), 0.25)
    first, second = fleet.workers["a"].book.bookings
    assert first.finish == pytest.approx(0.7), "two of four layers are left"
    assert second.finish == pytest.approx(1.1), "still on its way to the worker"


def test_the_work_of_other_routers_takes_time_too(fleet):
    fleet.observe("a", report((0.0, 9.0), queue=(("theirs", 0.8), ("done", 0.0))), 0.0)
    assert [b.request for b in fleet.workers["a"].book.bookings] == ["theirs"]
    assert isinstance(fleet.admit(request("1"), SECOND, 0.0), Refuse)


def test_what_others_sent_takes_no_time_once_the_worker_is_done_with_it(fleet):
    fleet.observe("a", report((0.0, 9.0), queue=(("theirs", 0.8),)), 0.0)
    fleet.observe("a", report((0.1, 9.0)), 0.1)
    assert not fleet.workers["a"].book


def test_a_request_that_was_given_up_while_a_report_was_under_way_goes_with_the_next(fleet):
    fleet.observe("a", report((0.0, 9.0)), 0.0)
    fleet.admit(request("1"), SECOND, 0.0)
    fleet.release("a", "1")
    fleet.observe("a", report((0.1, 9.0), queue=(("1", 0.3),)), 0.1)
    assert "1" in fleet.workers["a"].book
    fleet.observe("a", report((0.2, 9.0)), 0.2)
    assert not fleet.workers["a"].book


def test_a_silent_worker_gets_nothing(fleet):
    fleet.observe("a", report((0.0, 99.0)), 0.0)
    assert isinstance(fleet.admit(request("1", arrival=2.0), SECOND, 2.0), Admit)
    assert isinstance(fleet.admit(request("2", arrival=2.1), SECOND, 2.1), Refuse)


def test_a_lost_worker_gets_nothing_until_it_reports(fleet):
    fleet.observe("a", report((0.0, 99.0)), 0.0)
    fleet.lose("a")
    fleet.lose("gone")
    assert isinstance(fleet.admit(request("1"), SECOND, 0.1), Refuse)
    fleet.observe("a", report((0.0, 99.0)), 0.2)
    assert isinstance(fleet.admit(request("1"), SECOND, 0.2), Admit)


def test_a_report_of_a_worker_that_was_removed_is_ignored(fleet):
    fleet.keep(["b"])
    fleet.observe("a", report((0.0, 9.0)), 0.0)
    assert list(fleet.workers) == ["b"]


def test_a_worker_that_leaves_finishes_what_it_has_and_gets_no_more(fleet):
    fleet.observe("a", report((0.0, 9.0)), 0.0)
    fleet.admit(request("1"), SECOND, 0.0)
    fleet.keep(["b"])
    assert isinstance(fleet.admit(request("2"), SECOND, 0.0), Refuse)
    fleet.release("a", "1")
    fleet.keep(["b"])
    assert list(fleet.workers) == ["b"]


def test_a_worker_that_was_to_leave_may_stay(fleet):
    fleet.observe("a", report((0.0, 9.0)), 0.0)
    fleet.admit(request("1"), SECOND, 0.0)
    fleet.keep(["b"])
    fleet.keep(["a", "b"])
    assert isinstance(fleet.admit(request("2"), SECOND, 0.0), Admit)


def test_bubble_time_is_counted_offered_and_used(fleet):
    fleet.observe("a", report((0.0, 0.5), (1.0, 1.5), computed=10.0), 0.0)
    fleet.observe("a", report((1.0, 1.5), computed=10.25), 1.0)
    assert (fleet.offered_seconds, fleet.used_seconds) == (0.5, 0.25)
    fleet.observe("a", report((9.0, 9.5), computed=0.125), 2.0)
    assert (fleet.offered_seconds, fleet.used_seconds) == (1.0, 0.375), "the worker restarted"
    fleet.keep([])
    assert (fleet.offered_seconds, fleet.used_seconds) == (1.0, 0.375), "totals never fall"


events = st.lists(
    st.one_of(
        st.tuples(st.just("admit"), st.floats(0.01, 0.2), st.integers(1, 9)),
        st.tuples(st.just("observe"), st.floats(0, 0.5), st.integers(0, 9)),
        st.tuples(st.just("release"), st.floats(0, 1), st.integers(0, 9)),
    ),
    max_size=25,
)


@given(events)
def test_whatever_happens_no_bubble_time_is_booked_twice(steps):
    fleet = Fleet(Rules(guard=0.001, minimum_bubble=0.05), layers=4)
    fleet.keep(["a"])
    now = 0.0
    fleet.observe("a", report((0.1, 0.4), (0.6, 1.0), period=1.0), now)
    for number, (what, value, count) in enumerate(steps):
        book = fleet.workers["a"].book
        if what == "admit":
            fleet.admit(request(f"r{number}", value, count), Objective(5.0), now)
        elif what == "observe":
            now += value
            queue = tuple((b.request, b.work.seconds / 2) for b in book.bookings[:count])
            fleet.observe(
                "a", report((now, now + 0.3), (now + 0.4, now + 0.9), period=1.0, queue=queue), now
            )
        elif book.bookings:
            fleet.release("a", book.bookings[count % len(book)].request)
        slots = [slot for b in fleet.workers["a"].book.bookings for slot in b.slots]
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(slots))
