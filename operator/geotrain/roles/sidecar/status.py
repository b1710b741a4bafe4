"""What the sidecar says about itself: /status for the controller, /metrics, /healthz. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from geotrain.roles.sidecar.alignment import Alignment
from geotrain.roles.sidecar.ledger import Ledger
from geotrain.units import Bytes, Seconds


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that the answers are made of, at the moment ``now``."""

    now: Seconds
    rank: int
    revision: str
    alignment: Alignment
    ledger: Ledger
    has_windows: bool
    shaping_problem: str
    intercept_problem: str
    link_bytes: Mapping[str, Bytes]
    carried: Mapping[str, int]
    known_ranks: int
    loss: float | None = None
    is_done: bool = False


def verdict(facts: Facts) -> tuple[bool, str]:
    """Whether the plan's windows hold, and why (not). True only where bytes were measured."""
    checks = (
        (facts.intercept_problem, f"NotIntercepted: {facts.intercept_problem}"),
        (not facts.has_windows, "NoWindows: the plan has no turns for this rank"),
        (facts.shaping_problem, f"NotShaped: {facts.shaping_problem}"),
        (facts.is_done, "TrainingDone: the trainer has ended"),
        (
            not facts.alignment.is_aligned(facts.now),
            "NoSignal: the trainer does not say where its iteration is, so every flow gets a "
            "fixed share of the pod's rate",
        ),
        (
            facts.ledger.keeps_turns is None,
            "NotMeasured: no bytes of a whole iteration were seen yet",
        ),
        (
            facts.ledger.keeps_turns is False,
            f"WindowsMissed: {100 * (facts.ledger.share_against or 0):.0f} % of the last "
            "iteration's bytes ran in another flow's turn",
        ),
    )
    failed = next((reason for condition, reason in checks if condition), None)
    return (True, "Enforced") if failed is None else (False, failed)


def document(facts: Facts) -> dict[str, Any]:
    """The answer to /status."""
    enforced, reason = verdict(facts)
    alignment = facts.alignment
    return {
        "rank": facts.rank,
        "revision": facts.revision,
        "iteration": alignment.iteration,
        "iterationSeconds": alignment.seconds,
        "lastSignal": alignment.last_signal,
        "secondsSinceSignal": (
            None if alignment.last_signal is None else facts.now - alignment.last_signal
        ),
        "done": facts.is_done,
        "windowsEnforced": enforced,
        "reason": reason,
        "flows": {
            str(flow): {
                "bytes": account.total,
                "bytesInWindow": account.in_window,
                "bytesOutside": account.outside,
                "bytesAgainst": account.against,
            }
            for flow, account in sorted(facts.ledger.accounts.items())
        },
        "linkBytes": dict(sorted(facts.link_bytes.items())),
        "connections": dict(facts.carried),
        "knownRanks": facts.known_ranks,
        "loss": facts.loss,
    }


def numbers(facts: Facts) -> dict[str, tuple[str, str, str, dict[str, float]]]:
    """The metrics: name → kind, help, label, samples. Labels are few: data centres and places."""
    accounts = facts.ledger.accounts.values()
    places = {
        "window": float(sum(a.in_window for a in accounts)),
        "outside": float(sum(a.outside for a in accounts)),
        "against": float(sum(a.against for a in accounts)),
    }
    return {
        "geotrain_sidecar_wan_bytes": (
            "counter",
            "Payload bytes sent to another data centre",
            "data_center",
            {name: float(count) for name, count in facts.link_bytes.items()},
        ),
        "geotrain_sidecar_flow_bytes": (
            "counter",
            "Bytes of flows through this pod, by whether they ran in their window",
            "place",
            places,
        ),
        "geotrain_sidecar_connections": (
            "gauge",
            "Open streams, lanes and plain connections",
            "kind",
            {name: float(count) for name, count in facts.carried.items()},
        ),
        "geotrain_sidecar_windows_enforced": (
            "gauge",
            "1 while the plan's windows hold",
            "",
            {"": float(verdict(facts)[0])},
        ),
        "geotrain_sidecar_iteration": (
            "gauge",
            "The trainer's iteration",
            "",
            {"": float(facts.alignment.iteration)},
        ),
    }
