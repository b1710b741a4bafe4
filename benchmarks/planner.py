"""How fast the planner is: JSON lines {"name", "value", "unit"}. Run alone on a quiet machine."""

import json
import time
from collections.abc import Callable

from geotrain.model.plan import Plan
from geotrain.model.topology import DataCenter, Topology, WanLink
from geotrain.model.workload import LayerCosts, Profile, Workload
from geotrain.planning.placement.choose import choose
from geotrain.planning.schedule import compiled, orders
from geotrain.planning.schedule.compiled_programs import Fast
from geotrain.planning.schedule.costs import Costs, Hop, StageCosts
from geotrain.planning.schedule.timeline import program, replay

LAYER = LayerCosts(2.586e-3, 3.979e-3, 2.302e-3, activation=64 << 20, parameters=3 << 30)
REPEATS = 3


def report(name: str, value: float, unit: str) -> None:
    print(json.dumps({"name": name, "value": value, "unit": unit}), flush=True)


def seconds(work: Callable[[], object]) -> float:
    """The best of a few runs: what the machine does besides only ever adds."""
    best = float("inf")
    for _ in range(REPEATS):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best


def links(names: list[str], **values: float) -> tuple[WanLink, ...]:
    return tuple(
        WanLink(s, t, **values) for a in names for b in names if a < b for s, t in ((a, b), (b, a))
    )


def replays() -> None:
    """1F1B on 64 stages with 512 micro-batches: one replica, then 32 that take turns."""
    stages, micro_batches = 64, 512
    order = orders.one_f_one_b(stages, micro_batches)
    actions = 2 * stages * micro_batches
    report("make_ready_actions_per_second", actions / seconds(lambda: program(order)), "1/s")
    ready = program(order)
    fast = Fast(compiled.best(), ready)
    for name, replicas in (("replay", 1), ("replay_turns", 32)):
        wide = Hop(0.02, 0.02, 5e9, paths=replicas, connections=1, shared=replicas > 1)
        local = Hop(1e-4, 2e-5)
        hops = tuple(wide if b in (19, 39) else local for b in range(stages - 1))
        cost = Costs((StageCosts(1, 0.02, 0.02, 0.02),) * stages, hops, hops)
        fast.replay(cost, replicas)  # compiles
        took = seconds(lambda cost=cost, replicas=replicas: fast.replay(cost, replicas))
        report(f"{name}_actions_per_second", replicas * actions / took, "1/s")
        took = seconds(lambda cost=cost, replicas=replicas: replay(ready, cost, replicas))
        report(f"{name}_plain_actions_per_second", replicas * actions / took, "1/s")


def demo() -> None:
    """Six stages over three data centres, two replicas, 16 micro-batches."""
    names = ["dc-central", "dc-east", "dc-west"]
    wan = links(names, capacity=100e6, round_trip=0.045, window=16_300, per_pod_capacity=50e6)
    places = Topology(tuple(DataCenter(name, 4) for name in names), wan)
    job = Workload(Profile((LAYER,) * 24, 500_000), 6, 2, 1, 32)
    report("what_if_demo_seconds", seconds(lambda: choose(places, job)), "s")


def ten() -> None:
    """Ten data centres of 320 to 48 GPUs, every prefix and every degree, 32 stages of 8 GPUs."""
    gpus = [320, 256, 224, 192, 160, 128, 112, 96, 64, 48]
    names = [f"dc{i}" for i in range(len(gpus))]
    wan = links(names, capacity=100e9, round_trip=0.04, window=1 << 20, per_pod_capacity=40e9)
    places = Topology(tuple(DataCenter(n, g) for n, g in zip(names, gpus, strict=True)), wan)
    job = Workload(Profile((LAYER,) * 64, 67_100_000), 32, None, 8, 512)

    def run() -> None:
        found = choose(places, job)
        if not isinstance(found, Plan):
            raise SystemExit(f"no plan: {found.reasons[0].sentence}")

    report("what_if_10_data_centers_seconds", seconds(run), "s")


if __name__ == "__main__":
    replays()
    demo()
    ten()
