"""network.json: what the sidecars of one data centre need to know of the plan.

Times are seconds and rates bit/s, both from the start of the iteration, as in ``model.plan``.
"""

from typing import Any

from geotrain.model.plan import Flow
from geotrain.roles.controller.children.gang import Gang
from geotrain.units import BitsPerSecond, Bytes


def network_document(gang: Gang, data_center: str) -> dict[str, Any]:
    """The document for the ranks in ``data_center``."""
    plan = gang.plan
    remote = (name for name in gang.data_centers if name != data_center)
    return {
        "job": gang.full_name,
        "dataCenter": data_center,
        "revision": gang.planned.revision,
        "period": plan.iteration,
        "perPodRate": pod_rate(gang, data_center),
        "connectionWindow": connection_window(gang, data_center),
        "localCidrs": list(gang.cidrs.get(data_center, ())),
        "remoteCidrs": {name: list(gang.cidrs.get(name, ())) for name in remote},
        "ranks": {str(rank): _rank(gang, rank) for rank in range(plan.ranks)},
        "firstAction": {str(rank): begin for rank, begin in enumerate(plan.first_action)},
        "flows": [_flow(flow) for flow in plan.flows],
        "windows": [
            {"flow": w.flow, "offset": w.offset, "length": w.length, "rate": w.rate}
            for w in plan.windows
        ],
        "bubbles": _bubbles(gang, data_center),
    }


def pod_rate(gang: Gang, data_center: str) -> BitsPerSecond | None:
    """What one pod may send in all: the fastest of its links, None where none is bounded."""
    links = gang.planned.inputs.topology.links
    return max(
        (
            link.per_pod_capacity
            for link in links
            if link.source == data_center and link.per_pod_capacity is not None
        ),
        default=None,
    )


def connection_window(gang: Gang, data_center: str) -> Bytes | None:
    """What one TCP connection has in flight at most: over all its links, None where none says."""
    links = gang.planned.inputs.topology.links
    return max(
        (link.window for link in links if link.source == data_center and link.window is not None),
        default=None,
    )


def _rank(gang: Gang, rank: int) -> dict[str, Any]:
    plan = gang.plan
    return {
        "address": gang.address(rank),
        "dataCenter": plan.data_center_of(rank),
        "stage": plan.stage_of(rank),
        "replica": plan.replica_of(rank),
    }


def _flow(flow: Flow) -> dict[str, Any]:
    return {
        "id": flow.id,
        "source": flow.source,
        "target": flow.target,
        "mates": list(flow.mates),
        "connections": flow.connections,
        "rate": flow.rate,
        "idleRate": flow.idle_rate,
    }


def _bubbles(gang: Gang, data_center: str) -> dict[str, list[list[float]]]:
    found: dict[str, list[list[float]]] = {str(rank): [] for rank in gang.ranks_in(data_center)}
    for bubble in gang.plan.bubbles:
        if str(bubble.rank) in found:
            found[str(bubble.rank)].append([bubble.begin, bubble.end])
    return found
