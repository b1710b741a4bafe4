"""From the trainer's signals to the moment of the iteration. Pure.

    base = (time at which this rank's first compute action of the iteration began) - planned start

Between two signals the next iterations are extrapolated: by the planned period, stretched by how
much longer iterations really take. All times are CLOCK_MONOTONIC of this machine, so ranks on
different machines agree without agreeing on a clock.
"""

from dataclasses import dataclass, replace

from geotrain.units import Seconds

_SILENT_PERIODS = 5.0
_SILENT_SECONDS: Seconds = 10.0
_WEIGHT = 0.3
"""Of the newest iteration in the running average of the stretch."""
_LEAST, _MOST = 0.8, 1.5
"""A stretch beyond these is a pause (a checkpoint, a slow first iteration), not the plan's pace."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """Where iterations lie in time, as far as the signals tell.

    ``first_action`` is the planned start of this rank's first compute action, ``awaits_first``
    whether the iteration has begun but none of its actions has.
    """

    period: Seconds
    first_action: Seconds
    base: Seconds | None = None
    stretch: float = 1.0
    iteration: int = 0
    seconds: Seconds | None = None
    last_signal: Seconds | None = None
    awaits_first: bool = True

    def with_plan(self, period: Seconds, first_action: Seconds) -> "Alignment":
        """A new plan; the iterations so far say nothing about its pace."""
        if (period, first_action) == (self.period, self.first_action):
            return self
        return replace(self, period=period, first_action=first_action, stretch=1.0)

    def begun(self, iteration: int, now: Seconds) -> "Alignment":
        """The trainer says that an iteration begins."""
        return replace(self, iteration=iteration, awaits_first=True, last_signal=now)

    def computing(self, now: Seconds) -> "Alignment":
        """An action begins on the GPU; the first of an iteration aligns it."""
        if not self.awaits_first:
            return replace(self, last_signal=now)
        base = now - self.first_action * self.stretch
        return replace(self, base=base, awaits_first=False, last_signal=now)

    def waiting(self, now: Seconds) -> "Alignment":
        """The GPU waits."""
        return replace(self, last_signal=now)

    def finished(self, iteration: int, seconds: Seconds, now: Seconds) -> "Alignment":
        """An iteration took ``seconds``; the next begins."""
        stretch = self.stretch
        if self.period > 0 and _LEAST <= seconds / self.period <= _MOST:
            stretch += _WEIGHT * (seconds / self.period - stretch)
        return replace(
            self,
            iteration=iteration,
            seconds=seconds,
            stretch=stretch,
            last_signal=now,
            awaits_first=True,
        )

    def is_aligned(self, now: Seconds) -> bool:
        """Whether signals have come, and not too long ago to be believed."""
        if self.base is None or self.last_signal is None:
            return False
        pace = (self.seconds or self.period) * _SILENT_PERIODS
        return now - self.last_signal <= max(pace, _SILENT_SECONDS)
