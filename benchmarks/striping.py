"""Striping between two sidecars over an emulated WAN: ``python benchmarks/striping.py``.

Prints JSON lines {"name", "value", "unit"}. Needs root (network namespaces). Every figure is taken
beside its yardstick in the same run: one plain connection, and n parallel plain connections
between the same pods. CPU is user and system time of each end's sidecar; ``lent`` adds the two
that pass bytes on, and their sum per byte of the stream.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "operator"), str(ROOT / "tests")]

from support.sidecars import ECHO, SINK, Bed, flow  # noqa: E402
from support.wan import Lab, why_not  # noqa: E402

LENT_WINDOW = 2_896  # two segments, as on the test bed
LENT_RATE = 9e6
SMALL_WINDOW = 16_384


def tell(name: str, value: float, unit: str) -> None:
    print(json.dumps({"name": f"striping.{name}", "value": round(value, 4), "unit": unit}))


def cpu_seconds(bed: Bed, rank: int) -> float:
    """Of a sidecar so far, from the scheduler's exact account of all its threads."""
    tasks = Path(f"/proc/{bed.processes[rank].pid}/task").iterdir()
    return sum(int((t / "schedstat").read_text().split()[0]) for t in tasks) / 1e9


def rate(outcome: dict[str, Any], size: int) -> float:
    return size * 8 / outcome["seconds"]


def measure(label: str, n: int, size: int, window: int | None, **options: Any) -> None:
    """One setting: the plain yardsticks before the sidecars start, then the striped stream."""
    with Lab(options.pop("one_way_ms"), window) as lab, tempfile.TemporaryDirectory() as folder:
        flows = [flow(1, 0, 2, connections=n, rate=options.get("perPodRate", 1e9))]
        bed = Bed(lab, Path(folder), flows, **options)
        bed.serve(2, "sink", SINK)
        bed.serve(2, "echo", ECHO)
        one = rate(bed.traffic(0, "send", bed.addresses[2], SINK, size // n), size // n)
        many = rate(bed.traffic(0, "send", bed.addresses[2], SINK, size, n), size)
        ping = bed.traffic(0, "ping", bed.addresses[2], ECHO, 100)["p50"]
        bed.start(0, 2)
        bed.traffic(0, "send", bed.addresses[2], SINK, size // 10)  # warm
        before = cpu_seconds(bed, 0), cpu_seconds(bed, 2)
        striped = rate(bed.traffic(0, "send", bed.addresses[2], SINK, size), size)
        used = cpu_seconds(bed, 0) - before[0], cpu_seconds(bed, 2) - before[1]
        carried = bed.traffic(0, "ping", bed.addresses[2], ECHO, 100)["p50"]
        tell(f"{label}.rate", striped, "bit/s")
        tell(f"{label}.over_one_connection", striped / one, "ratio")
        tell(f"{label}.over_n_connections", striped / many, "ratio")
        tell(f"{label}.cpu.sender", used[0] * 1e9 / size, "s/GB")
        tell(f"{label}.cpu.receiver", used[1] * 1e9 / size, "s/GB")
        tell(f"{label}.added_latency", (carried - ping) * 1e6, "us")


def measure_lent(n: int, size: int) -> None:
    """A turn of the test bed: n lanes straight, n through a mate, windows of two segments."""
    with Lab(20.5, LENT_WINDOW) as lab, tempfile.TemporaryDirectory() as folder:
        flows = [
            flow(1, 0, 2, connections=n, rate=LENT_RATE, mates=[1]),
            flow(2, 2, 0, connections=n, rate=LENT_RATE, mates=[3]),
        ]
        bed = Bed(lab, Path(folder), flows, perPodRate=LENT_RATE)
        bed.serve(2, "sink", SINK)
        bed.start()
        bed.traffic(0, "send", bed.addresses[2], SINK, size // 10)  # warm
        before = [cpu_seconds(bed, r) for r in range(4)]
        tell(
            "lent_34.rate",
            rate(bed.traffic(0, "send", bed.addresses[2], SINK, size), size),
            "bit/s",
        )
        used = [(cpu_seconds(bed, r) - before[r]) * 1e9 / size for r in range(4)]
        for name, seconds in zip(("sender", "mate", "receiver", "counterpart"), used, strict=True):
            tell(f"lent_34.cpu.{name}", seconds, "s/GB")
        tell("lent_34.cpu.all", sum(used), "s/GB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a tenth of the bytes")
    scale = 10 if parser.parse_args().small else 1
    reason = why_not()
    if reason is not None:
        raise SystemExit(reason)
    measure("small_windows_16", 16, 40_000_000 // scale, SMALL_WINDOW, one_way_ms=20)
    measure("large_windows_16", 16, 400_000_000 // scale, 65_535, one_way_ms=20)
    measure("shaped_34", 34, 40_000_000 // scale, SMALL_WINDOW, one_way_ms=20, perPodRate=50e6)
    measure_lent(34, 120_000_000 // scale)
    measure("unshaped_16", 16, 800_000_000 // scale, None, one_way_ms=0.05)


if __name__ == "__main__":
    main()
