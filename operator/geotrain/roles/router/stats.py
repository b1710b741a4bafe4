"""Counts since the router started, as ``/stats`` tells them."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from geotrain.prefill.fleet import Fleet
from geotrain.prefill.percentiles import Recent, percentile
from geotrain.units import Seconds

_SHARES: Final = (50, 90, 99)
Outcome: TypeAlias = Literal["served", "failed", "cancelled"]
"""How an admitted request ended; cancelled: its client went away."""


@dataclass(slots=True)
class Stats:
    """What became of the requests; one prompt counts as one request.

    admitted = served + failed + cancelled + those in flight.
    """

    admitted: int = 0
    served: int = 0
    failed: int = 0
    cancelled: int = 0
    retried: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    first_tokens: Recent = field(default_factory=lambda: Recent(count=10_000, span=3600.0))

    @property
    def refused(self) -> int:
        """Requests answered 429."""
        return self.refusals.total()

    @property
    def in_flight(self) -> int:
        """Requests that were admitted and have no answer yet."""
        return self.admitted - self.served - self.failed - self.cancelled

    def count(self, outcome: Outcome) -> None:
        """Count the end of an admitted request."""
        if outcome == "served":
            self.served += 1
        elif outcome == "failed":
            self.failed += 1
        else:
            self.cancelled += 1

    def document(self, fleet: Fleet, now: Seconds) -> dict[str, Any]:
        """Write ``/stats``; times in seconds, percentiles null until something was served."""
        times = self.first_tokens.values(now)
        return {
            "admitted": self.admitted,
            "refused": self.refused,
            "served": self.served,
            "failed": self.failed,
            "cancelled": self.cancelled,
            "retried": self.retried,
            "inFlight": self.in_flight,
            "refusals": dict(sorted(self.refusals.items())),
            "ttft": {f"p{share}": percentile(times, share) for share in _SHARES},
            "bubbleSeconds": {"offered": fleet.offered_seconds, "used": fleet.used_seconds},
            "workers": [
                {
                    "url": worker.name,
                    "answers": worker.observed is not None,
                    "open": bool(worker.calendar.bubbles),
                    "queue": len(worker.book),
                }
                for _, worker in sorted(fleet.workers.items())
            ],
        }
