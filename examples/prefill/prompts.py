"""The prompts of one worker: first come, first served, and each of them answered exactly once."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any


class Refused(Exception):
    """The worker does not take the prompt; another one should."""


class Full(Refused):
    """The worker has as many prompts as it takes."""


class Prompt:
    """One prompt from its arrival to its answer. ``remaining`` is GPU time still to do, seconds."""

    def __init__(self, identity: str, tokens: list[int] | None, count: int, remaining: float):
        self.id = identity
        self.tokens = tokens
        self.count = count
        self.remaining = remaining
        self.arrived = time.monotonic()
        self.is_cancelled = False
        self._answer: dict[str, Any] | None = None
        self._over = threading.Event()

    def succeed(self, answer: dict[str, Any]) -> None:
        """Give the answer to whoever waits."""
        self._answer = answer
        self._over.set()

    def cancel(self) -> None:
        """Stop before the next kernel; whoever waits is told that the prompt was refused."""
        self.is_cancelled = True
        self._over.set()

    def wait(self, is_wanted: Callable[[], bool], look_again: float = 1.0) -> dict[str, Any]:
        """Wait for the answer as long as it ``is_wanted``. Raises Refused where there is none."""
        while not self._over.wait(look_again):
            if not is_wanted():
                self.cancel()
        if self._answer is None:
            raise Refused(f"prompt {self.id} was not finished here")
        return self._answer


class Prompts:
    """The queue. Its head is the prompt that is being computed."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._changed = threading.Condition()
        self._queue: deque[Prompt] = deque()
        self._is_leaving = False
        self.served = 0
        self.computed = 0.0

    def put(self, prompt: Prompt) -> None:
        """Queue a prompt. Raises Refused where the queue is full or the worker leaves."""
        with self._changed:
            if self._is_leaving:
                raise Refused("this worker is leaving")
            if len(self._queue) >= self._most:
                raise Full(f"this worker has {self._most} prompts already")
            self._queue.append(prompt)
            self._changed.notify_all()

    def head(self, timeout: float) -> Prompt | None:
        """Wait for the prompt to be computed; those that nobody wants any more are dropped."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue, timeout)
            while self._queue and self._queue[0].is_cancelled:
                self._queue.popleft()
            return self._queue[0] if self._queue else None

    def finish(self, prompt: Prompt, answer: dict[str, Any] | None) -> None:
        """Take the head away, with its answer, or refused where there is none."""
        with self._changed:
            self._queue.remove(prompt)
            if answer is not None:
                self.served += 1
            self._changed.notify_all()
        if answer is None:
            prompt.cancel()
        else:
            prompt.succeed(answer)

    def worked(self, prompt: Prompt, seconds: float, planned: float) -> None:
        """Count a kernel that took ``seconds`` of the GPU where ``planned`` were expected."""
        with self._changed:
            self.computed += seconds
            prompt.remaining = max(0.0, prompt.remaining - planned)

    def state(self) -> dict[str, Any]:
        """Return the queue in order, and what was done so far."""
        with self._changed:
            waiting = [p for p in self._queue if not p.is_cancelled]
            return {
                "queue": [{"id": p.id, "remaining": p.remaining} for p in waiting],
                "computedSeconds": self.computed,
                "served": self.served,
            }

    def leave(self, grace: float) -> None:
        """Refuse what waits, give the head ``grace`` seconds to end, then refuse it as well."""
        with self._changed:
            self._is_leaving = True
            for prompt in list(self._queue)[1:]:
                prompt.cancel()
            self._changed.wait_for(lambda: not self._waiting(), grace)
            for prompt in self._queue:
                prompt.cancel()

    def _waiting(self) -> list[Prompt]:
        return [prompt for prompt in self._queue if not prompt.is_cancelled]
