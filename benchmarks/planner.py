"""How fast the planner is: JSON lines {"name", "value", "unit"}. Run alone on a quiet machine."""

import json
import resource
import time
from collections.abc import Callable
from functools import partial

from geotrain.model.plan import Plan
from geotrain.model.topology import DataCenter, Topology, WanLink
from geotrain.model.workload import LayerCosts, Profile, Workload
from geotrain.planning.placement.choose import choose
from geotrain.planning.placement.what_if import what_if
from geotrain.planning.schedule import compiled, orders
from geotrain.planning.schedule.compiled_programs import Fast
from geotrain.planning.schedule.costs import Costs, Hop, StageCosts
from geotrain.planning.schedule.policies import POLICIES
from geotrain.planning.schedule.timeline import program, replay

LAYER = LayerCosts(2.586e-3, 3.979e-3, 2.302e-3, activation=64 << 20, parameters=3 << 30)
REPEATS = 3


def report(name: str, value: float, unit: str) -> None:
    print(json.dumps({"name": name, "value": value, "unit": unit}), flush=True)


def seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """The best of a few runs: what the machine does besides only ever adds."""
    best = float("inf")
    for _ in range(repeats):
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
    """Ten data centres of 320 to 48 GPUs, every placement and degree, 32 stages of 8 GPUs."""
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


def hundred_thousand() -> None:
    """Ten data centres of 100,000 GPUs, all degrees to 195, 64 stages of 8 GPUs.

    The rule's placements: one replica stands for all; then the exact replay of all replicas in
    turns; then both without machine code. Last the choice among all placements, with its plan and
    what it may lose.
    """
    gpus = [20_000, 16_000, 14_000, 12_000, 10_000, 8_000, 7_000, 6_000, 4_000, 3_000]
    names = [f"dc{i}" for i in range(len(gpus))]
    wan = links(names, capacity=1e15, round_trip=0.04, window=1 << 20, per_pod_capacity=40e9)
    places = Topology(tuple(DataCenter(n, g) for n, g in zip(names, gpus, strict=True)), wan)
    layers = (LayerCosts(0.02, 0.02, 0.02),) * 64
    job = Workload(
        Profile(layers, 67_100_000), 64, None, 8, 4_096, recompute=False, round_batch=True
    )
    fast = compiled.best()
    for name, engine, exact in (
        ("what_if_100k_gpus_seconds", fast, False),
        ("what_if_100k_gpus_temporal_seconds", fast, True),
        ("what_if_100k_gpus_plain_seconds", compiled.PLAIN, False),
    ):
        run = partial(what_if, places, job, exact=exact, engine=engine)
        found = run()  # compiles
        report(name, seconds(run), "s")
    report("what_if_100k_gpus_placements", len(found), "")
    began = time.perf_counter()
    chosen = choose(places, job)
    report("choose_100k_gpus_seconds", time.perf_counter() - began, "s")
    if not isinstance(chosen, Plan) or chosen.proof is None or chosen.proof.loss is None:
        raise SystemExit("no plan of 100,000 GPUs with a bound on what it may lose")
    report("choose_100k_gpus_loss", chosen.proof.loss, "")


def greedy() -> None:
    """32 stages over three data centres, 256 micro-batches, 48 of them in flight."""
    stages, micro_batches = 32, 256
    hops = tuple(
        Hop(0.01, 0.02, 5e9, connections=1) if b in (10, 20) else Hop(1e-4, 2e-5)
        for b in range(stages - 1)
    )
    cost = Costs((StageCosts(1, 0.02, 0.02, 0.02),) * stages, hops, hops)
    find = POLICIES["greedy"].generate
    report("greedy_seconds", seconds(lambda: find(cost, (48,) * stages, micro_batches), 1), "s")


def memory() -> None:
    """The most that this whole process has held at once."""
    report("peak_memory_bytes", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "B")


if __name__ == "__main__":
    hundred_thousand()
    memory()
    replays()
    demo()
    ten()
    if "greedy" in POLICIES:
        greedy()
