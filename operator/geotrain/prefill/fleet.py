"""What the router knows of its workers, and the one place where their bubbles are booked.

A small mutable value without a clock: every method takes the time. Its owner calls it from one
thread, so that choosing a worker and booking it is one step.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from geotrain.prefill.admission import Calendar, Piece, Rules, Work, usable_seconds
from geotrain.prefill.booking import Book, Booking, write
from geotrain.prefill.routing import Admit, Candidate, Objective, Refuse, Request, route
from geotrain.units import Seconds


@dataclass(frozen=True, slots=True)
class Observation:
    """A worker's report, with its times mapped to the router's clock.

    ``queue`` is what the worker holds, in order: request and GPU seconds left of it.
    """

    calendar: Calendar
    queue: tuple[tuple[str, Seconds], ...] = ()
    computed: Seconds = 0.0


@dataclass(slots=True)
class Worker:
    """One worker: its calendar and book, and the bubble time offered and used so far.

    ``sent`` are the requests that were booked here and are not done with the worker.
    """

    name: str
    calendar: Calendar = field(default_factory=Calendar)
    book: Book = field(default_factory=Book)
    sent: set[str] = field(default_factory=set)
    observed: Seconds | None = None
    computed: Seconds = 0.0
    offered_seconds: Seconds = 0.0
    used_seconds: Seconds = 0.0
    is_leaving: bool = False


class Fleet:
    """The workers by name. A worker that has not reported for ``stale`` seconds gets no work."""

    def __init__(self, rules: Rules, layers: int, stale: Seconds = 2.0, horizon: Seconds = 60.0):
        self.rules = rules
        self.workers: dict[str, Worker] = {}
        self._layers = layers
        self._stale = stale
        self._horizon = horizon
        self._retired_offered = 0.0
        self._retired_used = 0.0

    def keep(self, names: Collection[str]) -> None:
        """Send work to these workers only; others are forgotten once their books are empty."""
        for name in sorted(names):
            self.workers.setdefault(name, Worker(name)).is_leaving = False
        for worker in [w for w in self.workers.values() if w.name not in names]:
            worker.is_leaving = True
            if not worker.book:
                del self.workers[worker.name]
                self._retired_offered += worker.offered_seconds
                self._retired_used += worker.used_seconds

    def observe(self, name: str, observation: Observation, now: Seconds) -> None:
        """Take a worker's report; its book is written anew from what is left of each request."""
        worker = self.workers.get(name)
        if worker is None:
            return
        self._account(worker, observation, now)
        worker.calendar = observation.calendar
        worker.observed = now
        queue = self._queue(worker, observation.queue)
        worker.book = write(queue, worker.calendar, self.rules, now, now + self._horizon)

    def lose(self, name: str) -> None:
        """Offer a worker that does not answer nothing until it reports again.

        Its book is void: what it still holds then is in its report.
        """
        if worker := self.workers.get(name):
            worker.calendar = Calendar()
            worker.book = Book()
            worker.observed = None

    def admit(
        self,
        request: Request,
        objective: Objective,
        now: Seconds,
        without: Collection[str] = (),
    ) -> Admit | Refuse:
        """Route the request and book its spans, or say why not. Books nothing on refusal."""
        candidates = [self._candidate(w, now) for w in self.fresh(now) if w.name not in without]
        answer = route(request, candidates, objective, self.rules, now)
        if isinstance(answer, Admit):
            worker = self.workers[answer.worker]
            booking = Booking(request.id, request.work, answer.slots)
            worker.book = worker.book.with_booking(booking)
            worker.sent.add(request.id)
        return answer

    def release(self, name: str, request: str) -> None:
        """Drop a request that is done with the worker, whatever came of it."""
        if worker := self.workers.get(name):
            worker.book = worker.book.without(request)
            worker.sent.discard(request)

    def fresh(self, now: Seconds) -> list[Worker]:
        """Workers that have reported lately and are to stay, by name."""
        return [
            worker
            for _, worker in sorted(self.workers.items())
            if worker.observed is not None
            and now - worker.observed <= self._stale
            and not worker.is_leaving
        ]

    @property
    def offered_seconds(self) -> Seconds:
        """Usable bubble time that has passed on all workers, gone ones included."""
        return self._retired_offered + math.fsum(w.offered_seconds for w in self.workers.values())

    @property
    def used_seconds(self) -> Seconds:
        """GPU time that prefills took on all workers, gone ones included."""
        return self._retired_used + math.fsum(w.used_seconds for w in self.workers.values())

    def _account(self, worker: Worker, observation: Observation, now: Seconds) -> None:
        if worker.observed is not None:
            worker.offered_seconds += usable_seconds(
                worker.calendar, self.rules, worker.observed, now
            )
            grown = observation.computed - worker.computed
            # A smaller count is a restarted worker's: all of it is new.
            worker.used_seconds += grown if grown >= 0 else observation.computed
        worker.computed = observation.computed

    def _queue(
        self, worker: Worker, reported: Sequence[tuple[str, Seconds]]
    ) -> list[tuple[str, Work]]:
        """List what the worker will run: its own queue, then what is still on the way to it.

        A request that is in the list and not in the book came from another router, from this one
        before a restart, or was given up after the report was made; it is assumed to have as many
        layers as ours. It leaves the book with the worker's queue: nobody here will release it.
        """
        book = worker.book
        queue: list[tuple[str, Work]] = []
        for request, seconds in reported:
            booking = book.find(request)
            if booking is not None:
                queue.append((request, booking.work.remaining(seconds)))
            elif seconds > 0:
                queue.append((request, Work((Piece(seconds / self._layers, self._layers),))))
        listed = {request for request, _ in reported}
        on_the_way = worker.sent - listed
        queue += [(b.request, b.work) for b in book.bookings if b.request in on_the_way]
        return queue

    @staticmethod
    def _candidate(worker: Worker, now: Seconds) -> Candidate:
        return Candidate(worker.name, worker.calendar, worker.book.free_from(now), len(worker.book))
