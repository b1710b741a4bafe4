"""From what the trainers, the accelerators and the load generator reported to the demo's figures.

Pure: everything measured comes in as data, nothing is taken from the plan but the planned time.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, TypeVar

from e2e.testbed.config import Bed
from geotrain.units import window_rate

T = TypeVar("T")

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

    def void(self, least: float) -> str:
        """Why these figures mean nothing, or an empty text: ``least`` of the CPU must be idle.

        Below it the machine, not the WAN, sets the pace; and nobody knows where nobody looked.
        """
        if self.idle_cpu is None:
            return "nobody watched the CPU while it was measured"
        if self.idle_cpu < least:
            return (
                f"{self.idle_cpu:.0%} of the CPU was idle, and less than {least:.0%} is too little"
            )
        return ""


@dataclass(frozen=True)
class Runs:
    """The three stretches that are compared."""

    single: Run
    geotrain: Run
    with_prefill: Run


def valid(measure: Callable[[], T], void: Callable[[T], str], tell: Callable[[str], None]) -> T:
    """What ``measure`` gives; where that is void, what it gives a second time, whatever that is."""
    first = measure()
    if not (why := void(first)):
        return first
    tell(f"void: {why}. Measuring once more")
    return measure()


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


def summary(runs: Runs, planned: float, prefill: Mapping[str, Any], bed: Bed) -> dict[str, Any]:
    """The demo's figures under their published keys.

    ``void`` names the runs whose figures mean nothing, ``void_reasons`` says why of each.
    """
    single, geotrain, with_prefill = runs.single, runs.geotrain, runs.with_prefill
    measured = geotrain.iteration_seconds
    reasons = {name: why for name, run in vars(runs).items() if (why := run.void(bed.minimum_idle))}
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
        "gpus": "emulated",
        "baseline": baseline(bed),
        "idle_cpu": {name: run.idle_cpu for name, run in vars(runs).items()},
        "void": list(reasons),
        "void_reasons": reasons,
    }


def baseline(bed: Bed) -> dict[str, Any]:
    """What the job is compared with: how many connections, and what one of them carries."""
    times = bed.wan.round_trips.values()
    return {
        "connections_per_pair": 1,
        "window_bytes": bed.wan.window,
        "window_set_by": "e2e/testbed/bed.yaml",
        "slowest_bits_per_second": window_rate(bed.wan.window, max(times)),
        "fastest_bits_per_second": window_rate(bed.wan.window, min(times)),
        "pod_bits_per_second": bed.wan.pod_rate,
    }


def caveats(bed: Bed) -> list[str]:
    """What a reader of the figures must know, as sentences."""
    told = baseline(bed)
    slow, fast = told["slowest_bits_per_second"] / 1e6, told["fastest_bits_per_second"] / 1e6
    return [
        "The GPUs are emulated: a kernel keeps its device busy for the time that the profile says."
        " The WAN is emulated, with measured round-trip times; clusters, pods and TCP are real.",
        f"The baseline is one TCP connection a pair of pods with {bed.wan.window:,} B in flight,"
        f" as bed.yaml sets it: {slow:.1f} to {fast:.1f} Mbit/s of the {bed.wan.pod_rate / 1e6:.0f}"
        " Mbit/s that a pod may send. The speed-up is over that: hosts with larger windows need"
        " fewer connections, and gain less.",
    ]
