"""What joint search gains and takes, on the examples and on the network of 405B at three sizes.

Gains are over the given layout and over the best single axis; each explore counts everything that
``geotrain explore`` reports: the optimum, every axis alone and every pair. ``cpu`` is processor
time, which holds on a busy machine too; ``command`` is the whole command in a new process.

Run ``python benchmarks/explore.py``; prints JSON lines. ``axis`` is the best single one.
"""

import json
import subprocess
import sys
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from geotrain.api.exploration import exploration
from geotrain.planning.explore.layouts import Layout
from geotrain.planning.explore.report import explore
from geotrain.planning.explore.steps import Problem

EXAMPLES = Path(__file__).parents[1] / "examples" / "explore"
Exploration = tuple[Problem, Layout]
SIZES = ((2, 1), (2, 2), (4, 2))
"""Buildings, and zones of 2,048 GPUs in each."""


def main() -> None:
    dense, given = _example("dense-405b")
    for (buildings, zones), rings, chunks in product(SIZES, ("oblivious", "aware"), (2, 4, 8)):
        task = _sized(dense, buildings, zones, rings)
        data = task.network.devices // 128
        layout = replace(given, degrees=replace(given.degrees, data=data), chunks=chunks)
        _measure(f"explore_405b_{task.network.devices}_{rings}_{chunks}_chunks", task, layout)
    for latency in (15e-6, 100e-6):
        tiers = (*dense.network.tiers[:-1], replace(dense.network.tiers[-1], latency=latency))
        near = replace(dense, network=replace(dense.network, tiers=tiers))
        _measure(f"explore_405b_16384_oblivious_2_chunks_{latency * 1e6:.0f}us", near, given)
    capped = tuple(replace(tier, port=None) for tier in dense.network.tiers)
    for rings in ("oblivious", "aware"):
        task = replace(dense, network=replace(dense.network, tiers=capped, rings=rings))
        _measure(f"explore_405b_16384_{rings}_2_chunks_no_port", task, given)
    for (units, devices), rings in product(((128, 4096), (512, 16384)), ("oblivious", "aware")):
        task, layout = _example("moe-671b", rings, units)
        _measure(f"explore_moe_{devices}_{rings}", task, layout)
    for rings in ("oblivious", "aware"):
        _command(f"explore_405b_16384_{rings}_2_chunks", _document("dense-405b", rings, 256))
        _command(f"explore_moe_16384_{rings}", _document("moe-671b", rings, 512))


def _example(name: str, rings: str = "oblivious", units: int | None = None) -> Exploration:
    return exploration(_document(name, rings, units))


def _document(name: str, rings: str, units: int | None) -> dict[str, Any]:
    """An example with other rings, and with so many nodes in the innermost unit of them."""
    document = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8"))
    document["network"]["rings"] = rings
    document["network"]["tiers"][1]["units"] = units or document["network"]["tiers"][1]["units"]
    return document


def _command(name: str, document: dict[str, Any]) -> None:
    command = [Path(sys.executable).with_name("geotrain"), "explore", "-f", "-", "-o", "json"]
    begin = time.perf_counter()
    subprocess.run(command, input=json.dumps(document).encode(), check=True, capture_output=True)
    _print(f"{name}_command_seconds", time.perf_counter() - begin, "s")


def _sized(task: Problem, buildings: int, zones: int, rings: str) -> Problem:
    *inner, building, region = task.network.tiers
    tiers = (*inner, replace(building, units=zones), replace(region, units=buildings))
    return replace(task, network=replace(task.network, tiers=tiers, rings=rings))


def _measure(name: str, task: Problem, given: Layout) -> None:
    begin, began = time.perf_counter(), time.process_time()
    report = explore(task, given)
    took, worked = time.perf_counter() - begin, time.process_time() - began
    best, single = report.best[0], report.best_single
    assert single is not None
    assert single.found is not None
    over = single.found.seconds / best.seconds
    _print(f"{name}_gain_over_best_single", over - 1, "share", axis=single.knobs[0])
    for kind, value, unit in (
        ("gain_over_given", report.speedup(best) - 1, "share"),
        ("given_fits", report.given_fits, "boolean"),
        ("steps", report.steps, "steps"),
        ("replays", report.replays, "replays"),
        ("seconds", took, "s"),
        ("cpu", worked, "s"),
    ):
        _print(f"{name}_{kind}", value, unit)


def _print(name: str, value: float, unit: str, **more: str) -> None:
    line = {"name": name, "value": round(value, 4), "unit": unit, **more}
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
