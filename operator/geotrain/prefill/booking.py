"""A worker's book: which request runs in which part of which bubble. No part is booked twice.

A worker runs its prefills one after another in the order they came, so a book is a queue: each
booking starts where the one before it ends. When the worker reports, the book is written anew
from what is left of each request, and predictions follow the training's real pace.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from geotrain.prefill.admission import Calendar, Rules, Span, Work, place
from geotrain.units import Seconds


@dataclass(frozen=True, slots=True)
class Booking:
    """A request's spans; none when the worker's bubbles do not suffice for it any more."""

    request: str
    work: Work
    slots: tuple[Span, ...] = ()

    @property
    def finish(self) -> Seconds:
        """When the prefill is predicted to be done; infinity without slots."""
        return self.slots[-1][1] if self.slots else math.inf


@dataclass(frozen=True, slots=True)
class Book:
    """The bookings of one worker, in the order it runs them."""

    bookings: tuple[Booking, ...] = ()

    def __len__(self) -> int:
        return len(self.bookings)

    def __contains__(self, request: object) -> bool:
        return any(booking.request == request for booking in self.bookings)

    def find(self, request: str) -> Booking | None:
        """Return the request's booking, if any."""
        return next((b for b in self.bookings if b.request == request), None)

    def free_from(self, now: Seconds) -> Seconds:
        """Return the first time that nobody has booked."""
        return max((booking.finish for booking in self.bookings), default=now)

    def with_booking(self, booking: Booking) -> "Book":
        """Add a booking at the end. Raises ValueError where it would overlap."""
        if booking.slots and self.bookings and booking.slots[0][0] < self.free_from(-math.inf):
            raise ValueError(f"{booking.request} would run in time that is booked already")
        return Book((*self.bookings, booking))

    def without(self, request: str) -> "Book":
        """Drop a request; what the others booked stays as it is."""
        return Book(tuple(b for b in self.bookings if b.request != request))


def write(
    queue: Sequence[tuple[str, Work]],
    calendar: Calendar,
    rules: Rules,
    now: Seconds,
    limit: Seconds,
) -> Book:
    """Book a worker's queue, in order, into its bubbles from ``now`` on.

    What does not finish by ``limit`` is booked without slots, and so is everything behind it:
    the worker would not get to it.
    """
    book = Book()
    for request, work in queue:
        start = max(now, book.free_from(now))
        slots = place(work, calendar, rules, start, limit)
        book = book.with_booking(Booking(request, work, slots or ()))
    return book
