"""Percentiles of recent samples, and what predictions have to be corrected by.

The nearest-rank definition: the p-th percentile of n samples is the ⌈p/100 · n⌉-th smallest.
Time is an argument; nothing here reads a clock.
"""

import math
from collections import deque
from collections.abc import Iterable, Sequence

from geotrain.units import Seconds


def percentile(values: Iterable[float], share: float) -> float | None:
    """Return the percentile (0 < share ≤ 100) by nearest rank; None without values."""
    if not 0 < share <= 100:
        raise ValueError(f"a percentile of {share} is asked for; give one in (0, 100]")
    ordered: Sequence[float] = sorted(values)
    if not ordered:
        return None
    return ordered[math.ceil(share / 100 * len(ordered)) - 1]


class Recent:
    """The last ``count`` samples, none older than ``span`` seconds."""

    def __init__(self, count: int, span: Seconds) -> None:
        self._samples: deque[tuple[Seconds, float]] = deque(maxlen=count)
        self._span = span

    def add(self, now: Seconds, value: float) -> None:
        """Take a sample; times must not fall."""
        self._samples.append((now, value))

    def values(self, now: Seconds) -> list[float]:
        """Return the samples that count at ``now``, oldest first."""
        while self._samples and self._samples[0][0] < now - self._span:
            self._samples.popleft()
        return [value for _, value in self._samples]


class Correction:
    """How much later than predicted the first token comes, at the objective's percentile.

    An objective such as "1 s at the 90th percentile" is met by admitting what is predicted to
    need no more than 1 s less this margin. Fewer than ``least`` samples say nothing: the margin is
    0. Samples age, so a bad minute cannot close the router for good.
    """

    def __init__(self, share: float, count: int = 200, span: Seconds = 60.0) -> None:
        self._share = share
        self._recent = Recent(count, span)
        self.least = 20

    def add(self, now: Seconds, predicted: Seconds, actual: Seconds) -> None:
        """Compare a request's times to first token."""
        self._recent.add(now, actual - predicted)

    def margin(self, now: Seconds) -> Seconds:
        """Return what to add to a prediction; never negative."""
        errors = self._recent.values(now)
        if len(errors) < self.least:
            return 0.0
        return max(0.0, percentile(errors, self._share) or 0.0)
