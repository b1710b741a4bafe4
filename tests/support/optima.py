"""Small cases and their least makespans (tests/data/optima; benchmarks/optima.py makes them)."""

import json
from pathlib import Path
from typing import Any

from geotrain.planning.schedule.costs import Costs, Hop, StageCosts

FILE = Path(__file__).parents[1] / "data" / "optima" / "cases.json"


def cases() -> list[dict[str, Any]]:
    """Each with its costs, caps and micro-batches, and the bound and makespan that were found."""
    found: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def costs_of(case: dict[str, Any]) -> Costs:
    """F, I and W of each stage; occupancy and delay of each boundary, alike in both directions."""
    hops = tuple(Hop(float(occupancy), float(delay)) for occupancy, delay in case["hops"])
    return Costs(tuple(StageCosts(1, *map(float, times)) for times in case["stages"]), hops, hops)
