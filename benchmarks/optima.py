"""How near Greedy comes to the optimum: JSON lines {"name", "value", "unit"}.

On the fifty small cases of tests/data/optima and the 5,000 random ones of tests/support/optima.py,
which take some ten minutes (``--few``: every fiftieth). ``python -m benchmarks.optima --write``
makes their bounds anew, which needs the extra ``optimal`` and some forty minutes.
"""

import json
import random
import sys
from typing import Any

from geotrain.planning.schedule.bubbles import makespan
from geotrain.planning.schedule.optimal import optimal
from geotrain.planning.schedule.timeline import program, replay
from support.optima import BOUNDS, FILE, cases, costs_of, drawn_small, greedys, random_cases

TIGHT = (10, 12, 14, 16)
RANDOM = 46
SMALL = 5_000


def tight(cap: int) -> dict[str, Any]:
    """Eight stages over three data centres, F = I = W = 1, latency 3, a message takes 1."""
    hops = [(1, 3) if boundary in (1, 3) else (0, 0) for boundary in range(7)]
    return {"stages": [(1, 1, 1)] * 8, "hops": hops, "caps": [cap] * 8, "micro_batches": 16}


def drawn(seed: int) -> dict[str, Any]:
    """Equal or unequal stages, some boundaries far, memory from tight to ample."""
    draw = random.Random(seed)
    stages, micro_batches = draw.randint(2, 8), draw.randint(4, 10)
    times = [(draw.randint(1, 5), draw.randint(1, 6), draw.randint(0, 4)) for _ in range(stages)]
    if draw.random() < 0.5:
        times = times[:1] * stages
    far = [(draw.randint(0, 6), draw.randint(0, 12)) for _ in range(stages - 1)]
    hops = [hop if draw.random() < 0.4 else (0, draw.randint(0, 1)) for hop in far]
    ample = draw.randint(stages, 2 * stages + 2)
    caps = draw.choice(
        [
            [draw.randint(1, min(micro_batches, stages + 1))] * stages,
            [draw.randint(1, micro_batches) for _ in range(stages)],
            [min(micro_batches, ample)] * stages,
        ]
    )
    return {"stages": times, "hops": hops, "caps": caps, "micro_batches": micro_batches}


def write() -> None:
    made = [tight(cap) for cap in TIGHT] + [drawn(seed) for seed in range(RANDOM)]
    for case in made:
        found = optimal(costs_of(case), case["micro_batches"], case["caps"])
        case |= {"bound": found.bound, "makespan": found.makespan}
    lines = ",\n ".join(json.dumps(case) for case in made)
    FILE.write_text(f"[{lines}]\n", encoding="utf-8")
    bounds = [round(bound(drawn_small(seed))) for seed in range(SMALL)]
    BOUNDS.write_text(json.dumps(bounds) + "\n", encoding="utf-8")


def bound(case: dict[str, Any]) -> float:
    """What no order of a small case is below; the solver proves nearly all to be met."""
    costs = costs_of(case)
    return optimal(costs, case["micro_batches"], case["caps"], effort=4.0).bound


def gap(case: dict[str, Any]) -> float:
    """How much longer than the bound Greedy's iteration is."""
    return (
        makespan(replay(program(greedys(case)), costs_of(case), 1, iterations=1)) / case["bound"]
        - 1
    )


def figures(name: str, some: list[dict[str, Any]]) -> None:
    gaps = sorted(map(gap, some))
    values = {
        "mean": sum(gaps) / len(gaps),
        "worst": gaps[-1],
        "optimal_share": sum(each < 1e-6 for each in gaps) / len(gaps),
        "above_2_percent": sum(each > 0.02 + 1e-9 for each in gaps),
    }
    for figure, value in values.items():
        told = {"name": f"{name}_{figure}", "value": round(value, 5), "unit": "1"}
        print(json.dumps(told), flush=True)


def main() -> None:
    if sys.argv[1:] == ["--write"]:
        write()
    figures("greedy_gap", cases())
    figures("greedy_random_gap", random_cases()[:: 50 if sys.argv[1:] == ["--few"] else 1])


if __name__ == "__main__":
    main()
