import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.prefill.admission import Calendar, Piece, Rules, Work
from geotrain.prefill.booking import Book, Booking, write

FREE = Rules(guard=0.0)
LAYER = Work((Piece(0.25, 2),))


def test_a_queue_is_booked_in_order():
    book = write([("a", LAYER), ("b", LAYER)], Calendar(((0.0, 0.75), (1, 2))), FREE, 0.0, 9.0)
    assert [b.slots for b in book.bookings] == [((0.0, 0.5),), ((0.5, 0.75), (1, 1.25))]
    assert book.free_from(0.0) == 1.25
    assert len(book) == 2


def test_an_empty_book_is_free_now():
    assert Book().free_from(3.0) == 3.0


def test_behind_what_cannot_finish_nothing_is_booked():
    book = write(
        [("long", Work((Piece(5.0, 1),))), ("short", LAYER)], Calendar(((0, 1),)), FREE, 0, 9
    )
    assert [b.finish for b in book.bookings] == [math.inf, math.inf]
    assert book.free_from(0.0) == math.inf


def test_a_booking_may_not_overlap():
    book = Book().with_booking(Booking("a", LAYER, ((0.0, 1.0),)))
    with pytest.raises(ValueError, match="booked already"):
        book.with_booking(Booking("b", LAYER, ((0.5, 1.5),)))


def test_a_request_is_found_and_dropped():
    book = Book().with_booking(Booking("a", LAYER, ((0.0, 1.0),)))
    assert "a" in book
    assert book.find("a") is book.bookings[0]
    assert book.find("b") is None
    assert "a" not in book.without("a")


lengths = st.lists(st.tuples(st.floats(0.001, 0.1), st.integers(1, 20)), max_size=8)
gaps = st.lists(st.tuples(st.floats(0.001, 0.2), st.floats(0.001, 0.3)), min_size=1, max_size=6)


@given(lengths, gaps, st.floats(0, 3))
def test_no_two_requests_book_the_same_time(queue, spans, now):
    edges = list(itertools.accumulate(itertools.chain.from_iterable(spans)))
    calendar = Calendar(tuple(zip(edges[0::2], edges[1::2], strict=True)), period=edges[-1])
    works = [(str(i), Work((Piece(s, n),))) for i, (s, n) in enumerate(queue)]
    book = write(works, calendar, Rules(guard=0.0005), now, now + 20)
    slots = [slot for booking in book.bookings for slot in booking.slots]
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(slots))
    assert all(now <= begin < end for begin, end in slots)
