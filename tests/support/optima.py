"""Small cases and their least makespans (tests/data/optima; benchmarks/optima.py makes them)."""

import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

from geotrain.model.plan import Order
from geotrain.planning.schedule.costs import Costs, Hop, StageCosts
from geotrain.planning.schedule.policies import policy

FILE = Path(__file__).parents[1] / "data" / "optima" / "cases.json"
BOUNDS = FILE.with_name("bounds.json")


def cases() -> list[dict[str, Any]]:
    """Each with its costs, caps and micro-batches, and the bound and makespan that were found."""
    found: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def random_cases() -> list[dict[str, Any]]:
    """5,000 small ones, each with the least makespan that CP-SAT found or the bound it proved."""
    bounds = json.loads(BOUNDS.read_text(encoding="utf-8"))
    return [drawn_small(seed) | {"bound": bound} for seed, bound in enumerate(bounds)]


def drawn_small(seed: int) -> dict[str, Any]:
    """Two to four ranks, some of them a V of two or three, with memory from tight to ample."""
    draw = random.Random(f"small {seed}")
    is_folded = draw.random() < 0.15
    devices = draw.randint(2, 3) if is_folded else draw.randint(2, 4)
    micro_batches = draw.randint(2, 5 if is_folded else 8)
    layout = [*range(devices), *(reversed(range(devices)) if is_folded else ())]
    stages = len(layout)
    times = [_times(draw) for _ in range(stages)]
    if draw.random() < 0.7:
        times = times[:1] * stages
    transfer = draw.choice([0, draw.randint(1, 10)])
    latency = draw.choice([0, 0, draw.randint(1, 40)])
    far = min(draw.randrange(stages - 1), devices - 2)
    hops = [
        (0, 0) if a == b else (transfer, latency if min(a, b) == far else 0)
        for a, b in pairwise(layout)
    ]
    least = stages // devices
    most = least * devices + 2
    if draw.random() < 0.75:
        caps = [draw.randint(least, most)] * devices
    else:
        caps = [draw.randint(least, most) for _ in range(devices)]
    return {
        "stages": times, "hops": hops, "layout": layout, "caps": caps,
        "micro_batches": micro_batches,
    }  # fmt: skip


def _times(draw: random.Random) -> tuple[int, int, int]:
    forward, input_gradient = draw.randint(1, 20), draw.randint(1, 20)
    return forward, input_gradient, draw.randint(0 if draw.random() < 0.1 else 1, 20)


def costs_of(case: dict[str, Any]) -> Costs:
    """F, I and W of each stage; occupancy and delay of each boundary, alike in both directions."""
    hops = tuple(Hop(float(occupancy), float(delay)) for occupancy, delay in case["hops"])
    stages = tuple(StageCosts(1, *map(float, times)) for times in case["stages"])
    return Costs(stages, hops, hops, tuple(case.get("layout", ())))


def greedys(case: dict[str, Any]) -> Order:
    """Greedy's order as users get it: set beside the other policies, whose span it looks at too."""
    name = "greedy-v" if case.get("layout") not in (None, [*range(len(case["caps"]))]) else "greedy"
    return policy(name).order(costs_of(case), tuple(case["caps"]), case["micro_batches"])
