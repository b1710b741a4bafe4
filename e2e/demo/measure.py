"""From what the trainers, the accelerators and the load generator reported to the demo's figures.

Pure: everything measured comes in as data, nothing is taken from the plan but the planned time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

LEAST_IDLE_CPU = 0.15
"""Below this share of idle CPU the test bed itself, not the WAN, sets the pace."""

_OWNERS = ("training", "prefill")

Busy = Mapping[str, Any]
"""What one accelerator says: ``now`` and, by device, cumulative busy seconds by owner."""


@dataclass(frozen=True)
class Run:
    """One measured stretch of training: iteration times, GPU use and the bed's idle CPU."""

    iterations: tuple[float, ...]
    gpu_busy: float
    idle_cpu: float | None

    @property
    def iteration_seconds(self) -> float:
        """The median over the stretch's iterations."""
        return median(self.iterations)


def gpu_busy(begin: Sequence[Busy], end: Sequence[Busy]) -> float:
    """The share of device time in which a kernel ran, over all devices that training used.

    ``begin`` and ``end`` hold one reading a node, in the same order. A device on which training
    ran nothing in between is what is left of an earlier placement of the job.
    """
    busy = total = 0.0
    for first, last in zip(begin, end, strict=True):
        for name, device in last["devices"].items():
            before = first["devices"].get(name, {})
            grown = {owner: device[owner] - before.get(owner, 0.0) for owner in _OWNERS}
            if not grown["training"]:
                continue
            busy += sum(grown.values())
            total += last["now"] - first["now"]
    if total <= 0:
        raise ValueError("the accelerators report no device: no training pod has run a kernel yet")
    return busy / total


def summary(
    single: Run, geotrain: Run, with_prefill: Run, planned: float, prefill: Mapping[str, Any]
) -> dict[str, Any]:
    """The demo's figures under their published keys."""
    measured = geotrain.iteration_seconds
    return {
        "iteration_seconds": {
            "single_connection": single.iteration_seconds,
            "geotrain": measured,
            "planned": planned,
        },
        "speedup": single.iteration_seconds / measured,
        "plan_error": abs(measured - planned) / planned,
        "gpu_busy": {"training": geotrain.gpu_busy, "with_prefill": with_prefill.gpu_busy},
        "training_stretch": with_prefill.iteration_seconds / measured - 1,
        "prefill": {k: prefill[k] for k in ("served", "refused", "ttft_p50", "ttft_p99")},
        "void": void(single=single, geotrain=geotrain, with_prefill=with_prefill),
    }


def void(**runs: Run) -> list[str]:
    """The runs whose figures mean nothing because the bed had no CPU to spare."""
    return [n for n, r in runs.items() if r.idle_cpu is not None and r.idle_cpu < LEAST_IDLE_CPU]
