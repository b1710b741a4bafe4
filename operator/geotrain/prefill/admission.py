"""When a prefill would finish if it may only run in a worker's bubbles.

A prefill is a run of pieces (layers). A piece starts when it ends a guard before its bubble does:

    now + piece + guard ≤ end of the bubble

so of a bubble [b, e] the time [b, e - guard] is usable, ⌊usable / piece⌋ pieces fit, and a prefill
pauses between layers and goes on in the next bubble. Bubbles whose usable time is shorter than
the minimum are left alone. Beyond the last known bubble the training's iterations repeat: the
bubbles of the last known period come again, shifted by whole periods.

Everything is in seconds on one clock, the caller's. Not modelled: the time of reading the gate
(microseconds) and the drift of bubbles within an iteration, which the next signal corrects.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from geotrain.units import Seconds

Span = tuple[Seconds, Seconds]
"""An interval: begin and end."""


@dataclass(frozen=True, slots=True)
class Piece:
    """``count`` kernels in a row, each of which keeps the GPU for ``seconds``."""

    seconds: Seconds
    count: int

    def __post_init__(self) -> None:
        if not 0 < self.seconds < math.inf or self.count < 1:
            raise ValueError(f"{self.count} kernels of {self.seconds} s; give both above 0")


@dataclass(frozen=True, slots=True)
class Work:
    """A prefill: pieces in order, with a possible pause between any two kernels."""

    pieces: tuple[Piece, ...]

    @property
    def seconds(self) -> Seconds:
        """GPU time in all."""
        return math.fsum(piece.seconds * piece.count for piece in self.pieces)

    @property
    def kernel(self) -> Seconds:
        """The longest kernel: a bubble must have at least so much usable time."""
        return max((piece.seconds for piece in self.pieces), default=0.0)

    def remaining(self, seconds: Seconds) -> "Work":
        """Keep what is left when about ``seconds`` of GPU time are to do, in whole kernels."""
        left: list[Piece] = []
        for piece in reversed(self.pieces):
            count = min(piece.count, math.ceil(seconds / piece.seconds - 1e-6))
            if count < 1:
                break
            left.append(Piece(piece.seconds, count))
            seconds -= count * piece.seconds
        return Work(tuple(reversed(left)))


@dataclass(frozen=True, slots=True)
class Rules:
    """What of a bubble may be used: nothing of a short one, and never its last ``guard``."""

    guard: Seconds = 0.002
    minimum_bubble: Seconds = 0.0

    def __post_init__(self) -> None:
        if self.guard < 0 or self.minimum_bubble < 0:
            raise ValueError("guard and minimum bubble must be 0 or more")

    def usable(self, bubble: Span) -> Span | None:
        """Cut a bubble to the part that may be used, if any."""
        begin, end = bubble[0], bubble[1] - self.guard
        return (begin, end) if end > begin and end - begin >= self.minimum_bubble else None


@dataclass(frozen=True, slots=True)
class Calendar:
    """A worker's coming bubbles, ascending and apart; ``period`` 0 says that none repeat.

    A calendar without bubbles is closed. A GPU whose training is over has one bubble that ends
    at infinity.
    """

    bubbles: tuple[Span, ...] = ()
    period: Seconds = 0.0

    def __post_init__(self) -> None:
        previous = -math.inf
        for begin, end in self.bubbles:
            if not previous <= begin < end:
                raise ValueError(f"bubble [{begin}, {end}] is empty or before {previous}")
            previous = end

    @classmethod
    def from_spans(cls, spans: Iterable[Span], period: Seconds) -> "Calendar":
        """Order spans of any origin, join those that overlap and drop the empty ones."""
        joined: list[Span] = []
        for begin, end in sorted(spans):
            if joined and begin <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
            elif begin < end:
                joined.append((begin, end))
        return cls(tuple(joined), max(0.0, period))

    def openings(self, rules: Rules, start: Seconds) -> Iterator[Span]:
        """Usable spans that end after ``start``, in order; endless where bubbles repeat."""
        known = [span for bubble in self.bubbles if (span := rules.usable(bubble))]
        yield from _clipped(known, start)
        cycle = self._cycle(rules)
        if not cycle:
            return
        turn = max(1, math.floor((start - self.bubbles[-1][1]) / self.period))
        while True:
            shift = turn * self.period
            yield from _clipped([(begin + shift, end + shift) for begin, end in cycle], start)
            turn += 1

    def _cycle(self, rules: Rules) -> list[Span]:
        """Find the usable spans of the last known period, which are those that come again."""
        if not self.bubbles or self.period <= 0 or math.isinf(self.bubbles[-1][1]):
            return []
        since = self.bubbles[-1][1] - self.period
        last = [(max(begin, since), end) for begin, end in self.bubbles if end > since]
        return [span for bubble in last if (span := rules.usable(bubble))]


def place(
    work: Work, calendar: Calendar, rules: Rules, start: Seconds, limit: Seconds
) -> tuple[Span, ...] | None:
    """Find the spans in which ``work`` would run if it came next at ``start``.

    The last span's end is the predicted finish. None when it would not finish with bubbles that
    begin by ``limit``, which must be finite.
    """
    if start > limit:
        return None
    left = [(piece.seconds, piece.count) for piece in work.pieces]
    if not left:
        return ((start, start),)
    slots: list[Span] = []
    barren = 0
    for begin, end in calendar.openings(rules, start):
        # So many openings in a row are all known ones and a whole period: none is long enough.
        if begin > limit or barren > 2 * len(calendar.bubbles):
            return None
        at = begin
        while left:
            seconds, count = left[0]
            fitting = int(min(count, max(0.0, (end - at) / seconds)))
            at = min(at + fitting * seconds, end)
            if fitting < count:
                left[0] = (seconds, count - fitting)
                break
            left.pop(0)
        barren += 1
        if at > begin:
            slots.append((begin, at))
            barren = 0
        if not left:
            return tuple(slots)
    return None


def usable_seconds(calendar: Calendar, rules: Rules, begin: Seconds, end: Seconds) -> Seconds:
    """Bubble time that ``calendar`` offers between ``begin`` and a finite ``end``."""
    total = 0.0
    for opening, closing in calendar.openings(rules, begin):
        if opening >= end:
            break
        total += min(closing, end) - opening
    return total


def _clipped(spans: list[Span], start: Seconds) -> Iterator[Span]:
    for begin, end in spans:
        if end > start:
            yield max(begin, start), end
