"""Topologies and workloads for tests of the planner."""

from typing import Any

from geotrain.model.plan import Placement
from geotrain.model.topology import USUAL_LAN, DataCenter, Lan, Topology, WanLink
from geotrain.model.workload import LayerCosts, Profile, Workload
from geotrain.planning.schedule.costs import Costs, Hop, StageCosts


def links(*ends: tuple[str, str], **values: Any) -> tuple[WanLink, ...]:
    """Both directions of every pair of data centres, all alike."""
    values = {"capacity": 1e9, "round_trip": 0.02, **values}
    return tuple(
        WanLink(source, target, **values) for a, b in ends for source, target in ((a, b), (b, a))
    )


def topology(
    gpus: dict[str, int], wan: tuple[WanLink, ...] | None = None, lan: Lan = USUAL_LAN
) -> Topology:
    """Data centres with their GPUs, each linked with each unless ``wan`` says otherwise."""
    names = sorted(gpus)
    if wan is None:
        wan = links(*((a, b) for i, a in enumerate(names) for b in names[i + 1 :]))
    centers = (DataCenter(name, count, lan=lan) for name, count in gpus.items())
    return Topology(tuple(centers), wan)


def profile(layers: int = 8, boundary: int = 1_000_000, **values: Any) -> Profile:
    """Equal layers: forward 10 ms, input and weight gradient 10 ms each."""
    layer = {"forward": 0.01, "input_gradient": 0.01, "weight_gradient": 0.01, **values}
    return Profile((LayerCosts(**layer),) * layers, boundary)


def workload(**values: Any) -> Workload:
    """Eight layers on four stages, two replicas of eight micro-batches, no recompute."""
    defaults = {
        "profile": profile(),
        "pipeline": 4,
        "data": 2,
        "tensor": 1,
        "global_batch": 16,
        "recompute": False,
        "schedule": "Atlas",  # the quickest with several warm-ups
    }
    return Workload(**{**defaults, **values})


def pipeline(
    stages: int,
    crossing: dict[int, Hop] | None = None,
    forward: float = 1.0,
    backward: float = 2.0,
    **values: Any,
) -> Costs:
    """Equal stages; ``crossing[b]`` is the hop behind stage b, the others take no time."""
    stage = StageCosts(1, forward, backward / 2, backward / 2, **values)
    hops = tuple((crossing or {}).get(b, Hop(0.0, 0.0)) for b in range(stages - 1))
    return Costs((stage,) * stages, hops, hops)


def wan(transfer: float, delay: float, *, replicas: int = 1) -> Hop:
    """A hop over the wide area, shared in turns where there are several replicas."""
    return Hop(transfer, delay, 1e9, paths=replicas, connections=1, shared=replicas > 1)


def placement(*segments: tuple[str, int], data: int = 1) -> Placement:
    """Stages by data centre."""
    return Placement(segments, data)
