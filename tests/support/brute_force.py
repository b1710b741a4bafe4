"""Every placement, degree and policy of a small problem, each planned for itself.

Independent of the planner's search: placements are all sequences of data centres with all splits,
and each is planned with its placement, degree and policy fixed, so that there is nothing to search.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, pairwise, permutations
from random import Random
from typing import get_args

from geotrain.model.plan import Placement, Plan
from geotrain.model.topology import DataCenter, Lan, Topology, WanLink
from geotrain.model.workload import LayerCosts, Profile, SchedulePolicy, Workload
from geotrain.planning.placement.choose import at, choose

MIB = 1 << 20
POLICIES: tuple[SchedulePolicy, ...] = tuple(
    name for name in get_args(SchedulePolicy) if name != "Auto"
)


@dataclass(frozen=True)
class Best:
    """The best plan of all; ``rank`` is seconds, or with objective Cost price, a sample."""

    rank: float
    plan: Plan
    policy: SchedulePolicy
    plans: int


def problem(seed: int) -> tuple[Topology, Workload]:
    """Two to four data centres of their own accelerators, networks and prices, and a job."""
    random = Random(seed)
    names = "abcd"[: random.choice((2, 2, 3, 3, 4))]
    kinds = random.choice((("",), ("",), ("fast", "slow")))
    centers = tuple(_data_center(name, random.choice(kinds), random) for name in names)
    wide = [
        link
        for ends in combinations(names, 2)
        if random.random() < 0.9
        for link in _links(*ends, random)
    ]
    return Topology(centers, tuple(wide)), _workload(kinds, random)


def _data_center(name: str, kind: str, random: Random) -> DataCenter:
    lan = Lan(random.choice((1e10, 1e11, 4e11)), random.choice((1e-5, 2e-5, 1e-4)))
    price = random.choice((1.0, 2.0, 4.0))
    return DataCenter(name, random.choice((2, 3, 4, 5, 6, 8)), price, accelerator=kind, lan=lan)


def _links(one: str, other: str, random: Random) -> Iterator[WanLink]:
    rate = random.choice((2e8, 1e9, 5e9, 2e10))
    for source, target in ((one, other), (other, one)):
        yield WanLink(
            source,
            target,
            capacity=rate * random.choice((1, 2, 4)),
            round_trip=random.choice((0.002, 0.01, 0.04, 0.12)),
            window=random.choice((None, 840_000, 3_000_000)),
            per_pod_capacity=random.choice((None, rate)),
            cost_per_gigabyte=random.choice((0.0, 0.02)),
            efficiency=0.95,
        )


def _workload(kinds: tuple[str, ...], random: Random) -> Workload:
    pipeline = random.choice((2, 3, 4))
    count = pipeline * random.choice((1, 2)) + random.choice((0, 0, 1))
    activation = 8 * MIB
    layers = _layers(count, 10 ** random.uniform(-3.3, -0.7), activation, random)
    boundary = random.choice((1, 4, 16)) * MIB
    profile = Profile(layers, boundary, 0.0, random.choice((0, MIB)))
    recompute = random.random() < 0.5
    held = activation * count // pipeline
    parameters = sum(layer.parameters for layer in layers)
    return Workload(
        profile=profile,
        pipeline=pipeline,
        data=None,
        tensor=1,
        global_batch=random.choice((6, 8, 8, 12, 16, 24)),
        recompute=recompute,
        early_recompute=recompute and random.random() < 0.5,
        memory_per_gpu=random.choice(
            (None, None, parameters + held * random.choice((3, 4, 6)) + activation)
        ),
        connections=random.choice((None, None, 1, 4)),
        sharing=random.choice(("Spatial", "Temporal")),
        borrowed_paths=random.random() < 0.3,
        round_batch=random.random() < 0.3,
        objective=random.choice(("Throughput", "Throughput", "Throughput", "Cost")),
        profiles=(("slow", _slower(profile, random.uniform(1.3, 3.0))),) if len(kinds) > 1 else (),
    )


def _layers(count: int, forward: float, activation: int, random: Random) -> tuple[LayerCosts, ...]:
    gradient, weight = forward * random.uniform(0.8, 1.8), forward * random.uniform(0.5, 1.2)
    return tuple(
        LayerCosts(forward, gradient, weight, activation, random.choice((0, 0, 100 * MIB)))
        for _ in range(count)
    )


def _slower(profile: Profile, factor: float) -> Profile:
    layers = tuple(
        replace(
            layer,
            forward=layer.forward * factor,
            input_gradient=layer.input_gradient * factor,
            weight_gradient=layer.weight_gradient * factor,
        )
        for layer in profile.layers
    )
    return replace(profile, layers=layers)


def placements(topology: Topology, workload: Workload) -> Iterator[Placement]:
    """Every placement at every degree that fits the GPUs and has links in both directions."""
    gpus = {center.name: center.gpus for center in topology.data_centers}
    linked = {(link.source, link.target) for link in topology.links}
    most = sum(gpus.values()) // (workload.tensor * workload.pipeline)
    for data in range(1, most + 1):
        if not workload.micro_batches(data):
            continue
        size = workload.tensor * data
        for count in range(1, min(len(gpus), workload.pipeline) + 1):
            for names in permutations(sorted(gpus), count):
                ways = list(pairwise(names))
                if not all(way in linked and way[::-1] in linked for way in ways):
                    continue
                for parts in _compositions(workload.pipeline, count):
                    if all(n * size <= gpus[name] for name, n in zip(names, parts, strict=True)):
                        yield Placement(tuple(zip(names, parts, strict=True)), data)


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (total,)
        return
    for first in range(1, total - parts + 2):
        for rest in _compositions(total - first, parts - 1):
            yield (first, *rest)


def rank(workload: Workload, plan: Plan) -> float:
    """What the objective compares, a sample."""
    wanted = plan.iteration if workload.objective == "Throughput" else plan.price_per_iteration
    return wanted / workload.samples(plan.placement.data)


def best(topology: Topology, workload: Workload) -> Best | None:
    """The best of all, by the first that objective and samples rank; None: nothing fits."""
    found: Best | None = None
    plans = 0
    for placement in placements(topology, workload):
        for policy in POLICIES:
            fixed = replace(at(workload, placement), schedule=policy)
            plan = choose(topology, fixed)
            if not isinstance(plan, Plan):
                continue
            plans += 1
            if found is None or rank(workload, plan) < found.rank:
                found = Best(rank(workload, plan), plan, policy, 0)
    return found and replace(found, plans=plans)
