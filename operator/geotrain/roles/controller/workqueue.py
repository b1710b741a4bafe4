"""Which objects wait for a reconcile: each once, none twice at a time, the broken ones slower.

A key that is added while it is being worked on is worked on again afterwards, so no change is
missed; many changes in between make one reconcile. A key that fails waits 0.2 s, then twice as
long each time, up to 30 s; that slows one broken object without slowing the others.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

from geotrain.errors import Conflict, GeotrainError, TooManyRequests
from geotrain.units import Seconds

Key = TypeVar("Key", bound=Hashable)

_FIRST_PAUSE: Final[Seconds] = 0.2
_LONGEST_PAUSE: Final[Seconds] = 30.0

_log = logging.getLogger(__name__)


class WorkQueue(Generic[Key]):
    """Keys to work on. ``work`` gets a key and returns after how long to look again, or None."""

    def __init__(self, work: Callable[[Key], Awaitable[Seconds | None]]) -> None:
        self._work = work
        self._ready: asyncio.Queue[Key] = asyncio.Queue()
        self._queued: set[Key] = set()
        self._busy: set[Key] = set()
        self._again: set[Key] = set()
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._failures: Counter[Key] = Counter()

    def add(self, key: Key) -> None:
        """Ask for a reconcile now."""
        self._cancel_timer(key)
        if key in self._busy:
            self._again.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            self._ready.put_nowait(key)

    def add_after(self, key: Key, delay: Seconds) -> None:
        """Ask for a reconcile after ``delay``, unless one comes sooner."""
        if key in self._queued or key in self._again:
            return
        self._cancel_timer(key)
        loop = asyncio.get_running_loop()
        self._timers[key] = loop.call_later(delay, self.add, key)

    async def run(self, workers: int) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(self._serve())
        finally:
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()

    async def _serve(self) -> None:
        while True:
            key = await self._ready.get()
            self._queued.discard(key)
            self._busy.add(key)
            try:
                delay = await self._one(key)
            finally:
                self._busy.discard(key)
            if key in self._again:
                self._again.discard(key)
                self.add(key)
            elif delay is not None:
                self.add_after(key, delay)

    async def _one(self, key: Key) -> Seconds | None:
        """Work on a key; what goes wrong is logged once, in one line, and tried again."""
        try:
            delay = await self._work(key)
        except TooManyRequests as error:
            return self._failed(key, error, at_least=error.retry_after)
        except GeotrainError as error:
            return self._failed(key, error)
        except Exception:  # a bug in one reconcile must not end the others
            _log.exception("reconcile of %s failed", key)
            return self._pause(key)
        self._failures.pop(key, None)
        return delay

    def _failed(self, key: Key, error: GeotrainError, at_least: Seconds = 0.0) -> Seconds:
        pause = max(self._pause(key), at_least)
        # Somebody else's write came first: no trouble, and seen anew at the next look.
        level = logging.INFO if isinstance(error, Conflict) else logging.WARNING
        _log.log(level, "reconcile of %s is tried again in %.1f s: %s", key, pause, error)
        return pause

    def _pause(self, key: Key) -> Seconds:
        self._failures[key] += 1
        doublings = min(self._failures[key] - 1, 10)
        return min(_FIRST_PAUSE * 2.0**doublings, _LONGEST_PAUSE)

    def _cancel_timer(self, key: Key) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
