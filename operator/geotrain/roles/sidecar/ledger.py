"""Which bytes ran in their flow's turn, and whether the turns were kept. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from geotrain.shaping.windows import Owner
from geotrain.units import Bytes, Seconds

_TOLERATED = 0.1
"""Of an iteration's bytes, what may run at the expense of the flow that has the turn. A late
transfer is slowed there and not stopped, so a little always does."""


@dataclass(slots=True)
class Account:
    """Bytes of one flow through this pod.

    ``against`` is the part of ``outside`` that the turn's owner could have sent instead.
    """

    in_window: Bytes = 0
    outside: Bytes = 0
    against: Bytes = 0

    @property
    def total(self) -> Bytes:
        """All of them."""
        return self.in_window + self.outside


@dataclass(slots=True)
class Ledger:
    """Accounts since the start, and those of the last whole iteration."""

    accounts: dict[int, Account] = field(default_factory=dict)
    _seen: dict[int, Bytes] = field(default_factory=dict)
    _mark: dict[int, tuple[Bytes, Bytes]] = field(default_factory=dict)
    _last: tuple[Bytes, Bytes] = (0, 0)

    def book(
        self, counts: Mapping[int, Bytes], owners: Mapping[int, Owner], elapsed: Seconds
    ) -> None:
        """``counts`` are the flows' counters now; ``owners`` had the turn for ``elapsed``.

        What an owner could have sent and did not is idle, and anybody's. What others sent beyond
        that, they sent against the turn.
        """
        grown = {flow: self._grown(flow, count) for flow, count in counts.items()}
        idle = {
            owner.flow: max(0, round(owner.rate * elapsed / 8) - grown.get(owner.flow, 0))
            for owner in owners.values()
        }
        for flow, count in grown.items():
            account = self.accounts.setdefault(flow, Account())
            owner = owners.get(flow)
            if owner is not None and owner.flow == flow:
                account.in_window += count
                continue
            account.outside += count
            if owner is not None:
                borrowed = min(count, idle[owner.flow])
                idle[owner.flow] -= borrowed
                account.against += count - borrowed

    def close_iteration(self) -> None:
        """An iteration has ended: judge by its bytes until the next one ends."""
        total = against = 0
        for flow, account in self.accounts.items():
            before = self._mark.get(flow, (0, 0))
            total += account.total - before[0]
            against += account.against - before[1]
            self._mark[flow] = account.total, account.against
        self._last = total, against

    @property
    def share_against(self) -> float | None:
        """Of the last iteration's bytes, those that ran against the turn; None: no bytes."""
        total, against = self._last
        return against / total if total else None

    @property
    def keeps_turns(self) -> bool | None:
        """Whether the turns held in the last iteration; None while nothing was measured."""
        share = self.share_against
        return None if share is None else share <= _TOLERATED

    def _grown(self, flow: int, count: Bytes) -> Bytes:
        """Since the last look; 0 where the counter began again with its class."""
        grown = count - self._seen.get(flow, 0)
        self._seen[flow] = count
        return max(0, grown)
