"""Whose turn it is at a moment of the iteration.

Windows repeat every ``period``. A gap between windows belongs to whoever was in turn before it:
taking the turn away early would gain nobody anything and cost two changes of the kernel's
classes for each window.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from geotrain.units import BitsPerSecond, Seconds


@dataclass(frozen=True, slots=True)
class Turn:
    """A flow owns its paths at ``rate`` each, for ``length`` from ``offset`` of an iteration."""

    flow: int
    offset: Seconds
    length: Seconds
    rate: BitsPerSecond


@dataclass(frozen=True, slots=True)
class Step:
    """From ``offset`` on the flows ``open`` are in their windows, and ``owners`` have the turn."""

    offset: Seconds
    open: frozenset[int]
    owners: tuple[tuple[int, BitsPerSecond], ...]


class Windows:
    """The turns of one pod's flows over an iteration of ``period`` seconds."""

    def __init__(self, turns: Iterable[Turn], period: Seconds) -> None:
        self.period = period
        self.steps = _steps(list(turns), period) if period > 0 else ()
        self._offsets = [s.offset for s in self.steps]

    def __bool__(self) -> bool:
        return bool(self.steps)

    def at(self, base: Seconds, now: Seconds, stretch: float = 1.0) -> tuple[Step, Seconds]:
        """The step that holds at ``now`` and when it ends.

        ``base`` is when an iteration began or will begin; ``stretch`` is how much longer than
        planned an iteration takes. Ask only when there are windows.
        """
        period = self.period * stretch
        count, phase = divmod(now - base, period)
        index = bisect_right(self._offsets, phase / stretch + 1e-9) - 1
        following = self._offsets[index + 1] if index + 1 < len(self.steps) else self.period
        return self.steps[index], base + count * period + following * stretch


def _steps(turns: list[Turn], period: Seconds) -> tuple[Step, ...]:
    if not turns:
        return ()
    pieces = [p for t in turns for p in _within(t, period)]
    edges = sorted({0.0, *(p.offset for p in pieces), *(_end(p) for p in pieces)})
    edges = [e for e in edges if e < period]
    owners = max((p for p in pieces), key=_end)
    held: dict[int, BitsPerSecond] = {owners.flow: owners.rate}  # of the iteration before
    steps = []
    for edge in edges:
        now = {p.flow: p.rate for p in pieces if p.offset <= edge < _end(p)}
        held = now or held
        steps.append(Step(edge, frozenset(now), tuple(sorted(held.items()))))
    return tuple(steps)


def _within(turn: Turn, period: Seconds) -> list[Turn]:
    """The turn cut at the iteration's end; what is beyond lies in the next one's beginning."""
    start = turn.offset % period
    length = min(turn.length, period)
    first = Turn(turn.flow, start, min(length, period - start), turn.rate)
    rest = length - first.length
    return [first] if rest <= 0 else [first, Turn(turn.flow, 0.0, rest, turn.rate)]


def _end(turn: Turn) -> Seconds:
    return turn.offset + turn.length
