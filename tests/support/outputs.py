"""What the commands print for fixed inputs, as digests that every Python must meet.

``make digests`` writes them to ``tests/unit/planning/data/digests.json``; renew it when plans
change on purpose. Numbers come from ``+ - * /``, ``sqrt`` and ``fsum``, which IEEE 754 rounds alike
everywhere, and ``log2`` (the fits of measured networks), which the C library may round otherwise,
is in none of them.

``sum`` of floats gives other last bits from Python 3.12 on, where it compensates for rounding. So
geotrain adds floats with ``fsum``, and here ``sum`` refuses them.
"""

import builtins
import contextlib
import hashlib
import json
import sys
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from geotrain.cli.main import app
from geotrain.planning.schedule.policies import POLICIES

ROOT = Path(__file__).parents[2]
DIGESTS = ROOT / "tests" / "unit" / "planning" / "data" / "digests.json"

_SUM = builtins.sum
_DATA = "tests/unit/cli/data"
_JOB = ("-f", f"{_DATA}/job.yaml", "--topology", f"{_DATA}/topology.yaml")
_MIXED = ("-f", f"{_DATA}/mixed.yaml")
_THREE = ("-f", "examples/three-dc", "--topology", "examples/three-dc/topology.yaml")
_UNEVEN = (
    *("--forward", "18522us", "--input-gradient", "18086us", "--weight-gradient", "9337us"),
    *("--transfer", "601us", "--latency", "7ms", "--wan-boundary", "1"),
    *("--stages", "4", "--microbatches", "12"),
)
_OPTIMAL = "optimal"
"""Needs an extra, and its order is the solver's own."""


def commands() -> dict[str, tuple[str, ...]]:
    """Arguments by name; all paths are below the repository's root."""
    plans = {
        "plan example": ("plan", *_THREE),
        "plan by cost": ("plan", *_JOB, "--objective", "cost"),
        "plan pareto": ("plan", *_JOB, "--objective", "pareto"),
        "plan under jitter": ("plan", *_JOB, "--jitter", "20%"),
        "plan of mixed accelerators": ("plan", *_MIXED),
        "timeline example": ("timeline", *_THREE),
    }
    explorations = {
        f"explore {kind}": ("explore", "-f", f"{_DATA}/explore-{kind}.yaml", "--budget", "1h")
        for kind in ("dense", "moe")
    }
    schedules = {
        f"schedule {name} {form}": ("schedule", "--policy", name, *_UNEVEN, "-o", form)
        for name, form in product(POLICIES, ("json", "csv"))
        if name != _OPTIMAL
    }
    documents = {
        name: (*arguments, "-o", "json") for name, arguments in (plans | explorations).items()
    }
    return documents | schedules


def output(arguments: tuple[str, ...]) -> bytes:
    """What a command prints in the repository's root: some of it names the files as given."""
    with contextlib.chdir(ROOT):
        result = CliRunner().invoke(app, arguments)
    if result.exit_code:
        raise RuntimeError(f"{arguments}: {result.output or result.exception}")
    return result.stdout_bytes


def digests() -> dict[str, str]:
    """SHA-256 of every output."""
    return {
        name: hashlib.sha256(output(arguments)).hexdigest()
        for name, arguments in commands().items()
    }


def _exact_sum(values: Iterable[Any], /, start: Any = 0) -> Any:
    """``sum``, of anything but floats where geotrain calls it."""
    added = list(values)
    caller = sys._getframe(1).f_globals["__name__"]
    if caller.startswith("geotrain.") and any(isinstance(each, float) for each in added):
        raise TypeError(f"{caller} adds floats with sum; use math.fsum")
    return _SUM(added, start)


if __name__ == "__main__":
    builtins.sum = _exact_sum
    json.dump(digests(), sys.stdout, indent=2)
    sys.stdout.write("\n")
