"""Watches the machine's CPUs, so that figures taken without headroom can be called void.

On a bed whose processors are full, a rate or a time says something about the machine and nothing
about geotrain. A background process samples ``/proc/stat`` into a file; ``headroom`` says how idle
the machine was between two moments.
"""

import bisect
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from e2e.testbed import places

SAMPLES = places.RUN / "cpu.jsonl"
PID = places.RUN / "cpu.pid"
PATIENCE = 5.0  # seconds for the next sample: ten of them, where the machine is not full
LARGEST_FILE = 16 << 20  # bytes: two days; then the older half goes


@dataclass(frozen=True)
class Sample:
    """The processors' time since boot, in ticks, at a moment."""

    time: float  # unix seconds
    idle: int
    total: int


def parse_stat(text: str) -> tuple[int, int]:
    """Idle (with waiting for disks) and total ticks of all CPUs, from /proc/stat (man 5 proc)."""
    fields = [int(word) for word in text.split("\n", 1)[0].split()[1:9]]
    return fields[3] + fields[4], sum(fields)


def idle_share(samples: Iterable[Sample], begin: float, end: float) -> float | None:
    """The share of CPU time that was idle between two moments; None where they were not watched.

    The samples next outside the interval bound it, so that it is covered whole.
    """
    ordered = sorted(samples, key=lambda sample: sample.time)
    times = [sample.time for sample in ordered]
    first = bisect.bisect_right(times, begin) - 1
    last = bisect.bisect_left(times, end)
    if first < 0 or last >= len(ordered):
        return None
    ticks = ordered[last].total - ordered[first].total
    return (ordered[last].idle - ordered[first].idle) / ticks if ticks > 0 else None


def headroom(begin: float, end: float, path: Path = SAMPLES) -> float | None:
    """The idle share of all CPUs between two moments (unix seconds), None if nobody watched."""
    if not path.exists():
        return None
    return idle_share((Sample(**json.loads(line)) for line in _whole_lines(path)), begin, end)


def headroom_soon(
    begin: float, end: float, patience: float = PATIENCE, path: Path = SAMPLES
) -> float | None:
    """The same of an interval that ends now: waits for the sample after it, for a while."""
    deadline = time.monotonic() + patience
    while (share := headroom(begin, end, path)) is None and time.monotonic() < deadline:
        time.sleep(0.1)
    return share


def ensure_running(every: float) -> None:
    """Starts the watch in the background unless it runs."""
    if is_running():
        return
    places.RUN.mkdir(parents=True, exist_ok=True)
    watch = subprocess.Popen(
        [sys.executable, "-m", "e2e.testbed", "watch-cpu", str(every)],
        cwd=places.ROOT,
        env={**os.environ, "PYTHONPATH": f"{places.ROOT}:{places.ROOT / 'operator'}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    PID.write_text(str(watch.pid))


def is_running() -> bool:
    """Whether the process that we started still watches."""
    try:
        command = Path(f"/proc/{int(PID.read_text())}/cmdline").read_bytes()
    except (OSError, ValueError):
        return False
    return b"watch-cpu" in command


def stop() -> None:
    """Ends the watch if it runs."""
    if is_running():
        os.kill(int(PID.read_text()), signal.SIGTERM)
    PID.unlink(missing_ok=True)


def watch(every: float, path: Path = SAMPLES) -> None:
    """Samples for ever."""
    while True:
        _trim(path)
        idle, total = parse_stat(Path("/proc/stat").read_text())
        with path.open("a") as file:
            file.write(json.dumps({"time": time.time(), "idle": idle, "total": total}) + "\n")
        time.sleep(every)


def _whole_lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def _trim(path: Path) -> None:
    if path.exists() and path.stat().st_size > LARGEST_FILE:
        lines = _whole_lines(path)
        new = path.with_suffix(".new")
        new.write_text("".join(lines[len(lines) // 2 :]))
        new.replace(path)
