"""How far the planner's choice is from the best of placement x degree x policy, by brute force.

Random topologies of two to four data centres and pipelines of two to four stages (see
``tests/support/brute_force.py``), by seed: JSON lines, then the worst ratio and the slowest choice.

    PYTHONPATH=operator:tests python benchmarks/placements.py [FIRST [COUNT]]
"""

import json
import sys
import time
from typing import Any

from geotrain.model.plan import Plan
from geotrain.planning.placement.choose import choose
from support import brute_force

COUNT = 300
WITHIN = 1.005
SECONDS = 10.0


def compared(seed: int) -> dict[str, Any] | None:
    """The choice beside the best; None where nothing fits."""
    topology, workload = brute_force.problem(seed)
    began = time.process_time()
    chosen = choose(topology, workload)
    took = time.process_time() - began
    best = brute_force.best(topology, workload)
    if best is None:
        if isinstance(chosen, Plan):
            raise SystemExit(f"seed {seed}: a plan where brute force finds none")
        return None
    if not isinstance(chosen, Plan) or chosen.proof is None:
        raise SystemExit(f"seed {seed}: no plan where brute force finds one")
    return {
        "seed": seed,
        "ratio": brute_force.rank(workload, chosen) / best.rank,
        "seconds": took,
        "plans": best.plans,
        "replayed": chosen.proof.replayed,
        "loss": chosen.proof.loss,
        "policy": best.policy,
    }


def main(first: int = 0, count: int = COUNT) -> int:
    """Prints a line for each seed; 1 where a ratio or a time is beyond what is promised."""
    rows = []
    for seed in range(first, first + count):
        row = compared(seed)
        if row is not None:
            rows.append(row)
            print(json.dumps(row), flush=True)
    worst = max(row["ratio"] for row in rows)
    slowest = max(row["seconds"] for row in rows)
    plans = sum(row["plans"] for row in rows)
    print(json.dumps({"problems": len(rows), "plans": plans, "worst": worst, "slowest": slowest}))
    return int(worst > WITHIN or slowest > SECONDS)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])))
