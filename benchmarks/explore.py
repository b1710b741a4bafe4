"""What joint search gains and takes, on the examples and on the network of 405B at three sizes.

Gains are over the given layout and over the best single axis; each explore counts everything that
``geotrain explore`` reports: the optimum, every axis alone and every pair. ``cpu`` is processor
time, which holds on a busy machine too.

Run ``python benchmarks/explore.py``; prints JSON lines.
"""

import json
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

import yaml

from geotrain.api.exploration import exploration
from geotrain.planning.explore.layouts import Layout
from geotrain.planning.explore.report import explore
from geotrain.planning.explore.steps import Problem

EXAMPLES = Path(__file__).parents[1] / "examples" / "explore"
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
    for rings in ("oblivious", "aware"):
        task, layout = _example("moe-671b")
        task = replace(task, network=replace(task.network, rings=rings))
        _measure(f"explore_moe_4096_{rings}", task, layout)


def _example(name: str) -> tuple[Problem, Layout]:
    return exploration(yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8")))


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
    for kind, value, unit in (
        ("gain_over_given", report.speedup(best) - 1, "share"),
        ("gain_over_best_single", over - 1, single.knobs[0]),
        ("given_fits", report.given_fits, "boolean"),
        ("steps", report.steps, "steps"),
        ("replays", report.replays, "replays"),
        ("seconds", took, "s"),
        ("cpu", worked, "s"),
    ):
        line = {"name": f"{name}_{kind}", "value": round(value, 4), "unit": unit}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
