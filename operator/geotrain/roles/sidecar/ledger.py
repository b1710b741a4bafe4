"""Which bytes ran in their flow's window, and whether the turns were kept. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from geotrain.shaping.windows import Step
from geotrain.units import Bytes

_TOLERATED = 0.25
"""Of an iteration's bytes, what may run in another flow's window. A late transfer is slowed there
and not stopped, so some always does."""


@dataclass(slots=True)
class Account:
    """Bytes of one flow through this pod.

    ``against`` is the part of ``outside`` that ran while another flow owned the path.
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

    def book(self, counts: Mapping[int, Bytes], step: Step | None) -> None:
        """``counts`` are the flows' counters now; what came since the last look ran in ``step``."""
        for flow, count in counts.items():
            grown = count - self._seen.get(flow, 0)
            self._seen[flow] = count
            account = self.accounts.setdefault(flow, Account())
            if grown <= 0:  # nothing, or a counter that began again with its class
                continue
            if step is not None and flow in step.open:
                account.in_window += grown
                continue
            account.outside += grown
            if step is not None and step.open:
                account.against += grown

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
        """Of the last iteration's bytes, those that ran in another's window; None: no bytes."""
        total, against = self._last
        return against / total if total else None

    @property
    def keeps_turns(self) -> bool | None:
        """Whether the windows held in the last iteration; None while nothing was measured."""
        share = self.share_against
        return None if share is None else share <= _TOLERATED
