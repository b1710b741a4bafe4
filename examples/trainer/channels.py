"""What is in flight: messages of neighbours, gradients of replicas, sends that are not through.

torch.distributed's waits can be neither polled nor interrupted alike by all backends. So each
lane has a thread that waits for the lane's operations in their order and puts what arrived into
the mailroom, where the engine looks without blocking or waits and can be stopped.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple, Protocol

_LOOK_AGAIN = 0.2  # how soon a wait notices that it should stop, seconds


class Work(Protocol):
    """An operation in flight, such as torch.distributed's."""

    def wait(self) -> object:
        """Block until the operation is through; raises where the peer is gone."""


class Through:
    """An operation that is over as soon as those before it in its lane are."""

    def wait(self) -> None:
        """Return at once."""


class PeerError(Exception):
    """An operation failed, as a rule because the peer has died."""


class Stopped(Exception):
    """The rank was asked to stop."""


class Arrival(NamedTuple):
    """A value, and when it arrived (CLOCK_MONOTONIC, seconds)."""

    value: Any
    time: float


class Mailroom:
    """Arrived values by key; ``is_stopping`` interrupts whoever waits for one."""

    def __init__(self, is_stopping: Callable[[], bool]) -> None:
        self._is_stopping = is_stopping
        self._changed = threading.Condition()
        self._arrived: dict[Hashable, Arrival] = {}
        self._failure: BaseException | None = None

    def has(self, key: Hashable) -> bool:
        """Whether the value has arrived."""
        with self._changed:
            return key in self._arrived

    def take(self, key: Hashable) -> Arrival:
        """Wait for the value and hand it out. Raises PeerError or Stopped."""
        with self._changed:
            while key not in self._arrived:
                self.check()
                self._changed.wait(_LOOK_AGAIN)
            return self._arrived.pop(key)

    def check(self) -> None:
        """Raise Stopped where the rank should stop, PeerError where an operation failed."""
        if self._is_stopping():
            raise Stopped
        if self._failure is not None:
            raise PeerError(str(self._failure)) from self._failure

    def put(self, key: Hashable, value: Any) -> None:
        """Deliver a value."""
        with self._changed:
            self._arrived[key] = Arrival(value, time.monotonic())
            self._changed.notify_all()

    def fail(self, failure: BaseException) -> None:
        """Tell whoever waits, now or later, that an operation failed."""
        with self._changed:
            self._failure = self._failure or failure
            self._changed.notify_all()


class Lane:
    """Operations that end in their order."""

    def __init__(self, mailroom: Mailroom, name: str, wait: Callable[[Work], object]) -> None:
        self._mailroom = mailroom
        self._wait = wait
        self._operations: queue.SimpleQueue[tuple[Hashable | None, Work, Any]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def watch(self, key: Hashable | None, work: Work, value: Any) -> None:
        """Deliver ``value`` under ``key`` when ``work`` is through; until then both are kept.

        Nothing is delivered where ``key`` is None.
        """
        self._operations.put((key, work, value))

    def _run(self) -> None:
        while True:
            key, work, value = self._operations.get()
            try:
                self._wait(work)
            except Exception as failure:  # whatever it is, the engine must hear it
                self._mailroom.fail(failure)
                return
            if key is not None:
                self._mailroom.put(key, value)


class Receiver:
    """Posts the receives of one neighbour ahead of their messages.

    A message can leave the sender's host only when its receive is known there, which costs a
    round trip; with ``ahead`` receives posted that trip is over before the message exists.
    ``keys`` are all messages that will ever come, in the order in which they are sent.
    """

    def __init__(
        self,
        lane: Lane,
        keys: Iterator[Hashable],
        post: Callable[[], tuple[Work, Any]],
        ahead: int,
    ) -> None:
        self._lane = lane
        self._keys = keys
        self._post = post
        for _ in range(ahead):
            self.advance()

    def advance(self) -> None:
        """Post one more receive, if there is one: to be called for each message taken."""
        for key in self._keys:
            self._lane.watch(key, *self._post())
            return
