"""Foretells when a wait will end, from when the same wait ended in the last iterations.

A schedule repeats, so the message that ended a wait 83 ms into the last iterations will end it
about 83 ms into this one. Times count from an iteration's first computation; the earliest of the
last four is taken, because a GPU that is given back too late delays training, and one that is
given back too early only idles.
"""

from __future__ import annotations

_MEMORY = 4


class Forecast:
    """The ends of the waits of one rank, by position in its row."""

    def __init__(self) -> None:
        self._ends: dict[int, list[float]] = {}
        self._begin: float | None = None
        self._period: float | None = None

    def begin(self, now: float) -> None:
        """An iteration's first computation begins at ``now``."""
        if self._begin is not None:
            self._period = now - self._begin
        self._begin = now

    def until(self, position: int, is_first: bool = False) -> float | None:
        """Return when the wait at ``position`` should end; None while nothing is known.

        The wait before the first computation (``is_first``) belongs to the iteration before.
        """
        if self._begin is None:
            return None
        if is_first:
            return None if self._period is None else self._begin + self._period
        ends = self._ends.get(position)
        return self._begin + min(ends) if ends else None

    def ended(self, position: int, now: float) -> None:
        """Remember when the wait at ``position`` ended."""
        if self._begin is not None:
            ends = self._ends.setdefault(position, [])
            ends.append(now - self._begin)
            del ends[:-_MEMORY]
