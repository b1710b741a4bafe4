"""Whose turn it is: the flow that, by what it has sent, is furthest behind in the plan.

The plan's windows say in which order the flows of a cell send, and how much in each window. A
window is left when its bytes have been sent, not when its time is over: ranks are never as
punctual as a plan, and a turn that begins by the clock takes the path from a transfer that is a
little late, or gives it to one that has nothing yet. So no clocks need to agree, and the pods of
a cell, each counting for itself, come to the same order.

Whoever has the turn and nothing to send loses nothing to others but what it leaves idle.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from math import ceil

from geotrain.units import BitsPerSecond, Bytes, Seconds, transfer_time

_SLACK = 0.1
"""Of a flow's shortest window, how far a flow must be beyond a window's end to have left it: the
last packets of a message should not wait for another's, and shares of a path are never exact."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A flow owns its paths at ``rate`` each, for ``length`` from ``offset`` of an iteration."""

    flow: int
    offset: Seconds
    length: Seconds
    rate: BitsPerSecond

    @property
    def size(self) -> float:
        """Bytes that the window holds."""
        return self.length * self.rate / 8


@dataclass(frozen=True, slots=True)
class Owner:
    """A flow that has its cell's turn, at ``rate``, until it has sent ``left`` bytes more."""

    flow: int
    rate: BitsPerSecond
    left: Bytes

    @property
    def soonest(self) -> Seconds:
        """In how long the turn can pass on at the earliest."""
        return transfer_time(self.left, self.rate)


@dataclass(frozen=True, slots=True)
class _Window:
    offset: Seconds
    end: Bytes
    rate: BitsPerSecond


class Turns:
    """The turns of one pod's flows in an iteration; ``cells`` says which exclude each other.

    Flows without a cell, or alone in theirs, never wait for anybody.
    """

    def __init__(self, turns: Iterable[Turn], cells: Mapping[int, Hashable]) -> None:
        by_flow: dict[int, list[Turn]] = {}
        for turn in sorted(turns, key=lambda t: (t.offset, t.flow)):
            by_flow.setdefault(turn.flow, []).append(turn)
        self._rows = {flow: _row(row) for flow, row in by_flow.items()}
        self._slack = {flow: _SLACK * min(t.size for t in row) for flow, row in by_flow.items()}
        self._cells: dict[Hashable, list[int]] = {}
        for flow in self._rows:
            self._cells.setdefault(cells.get(flow, (flow,)), []).append(flow)

    def __bool__(self) -> bool:
        return bool(self._rows)

    def planned(self, flow: int) -> Bytes:
        """What a flow sends over this pod's path in an iteration; 0 where it has no window."""
        row = self._rows.get(flow)
        return row[-1].end if row else 0

    def owners(self, sent: Mapping[int, Bytes]) -> dict[int, Owner]:
        """For each flow the owner of its cell's turn, after so many bytes of the iteration.

        Flows of a cell whose windows are all over are not in it: they share.
        """
        owners = {}
        for flows in self._cells.values():
            standing = [s for flow in flows if (s := self._standing(flow, sent.get(flow, 0)))]
            if standing:
                owner = min(standing, key=lambda s: (s[0], s[1].flow))[1]
                owners.update(dict.fromkeys(flows, owner))
        return owners

    def _standing(self, flow: int, sent: Bytes) -> tuple[Seconds, Owner] | None:
        """The flow's present window; None after the last."""
        for window in self._rows[flow]:
            left = window.end + self._slack[flow] - sent
            if left > 0:
                return window.offset, Owner(flow, window.rate, ceil(left))
        return None


def _row(turns: list[Turn]) -> tuple[_Window, ...]:
    ends = accumulate(turn.size for turn in turns)
    return tuple(
        _Window(turn.offset, round(end), turn.rate) for turn, end in zip(turns, ends, strict=True)
    )
