"""How well a node suits a training pod, 0 to 10.

    score = round(6 · together + 2 · undisturbed + 2 · packed)

- ``together``: the job's pods on the node (neighbouring stages of the same replica count twice)
  and those that could still join this one there, as a share of the best node's.
- ``undisturbed``: 1 where no prefill has to leave.
- ``packed``: how much of the scarcest requested resource is used once the pod is there, so that
  empty nodes stay whole for larger pods.

A prefill pod has one node to go to: 10. Cell mates (the replicas of a stage) need no score: the
plan puts them into one data centre, and the filter keeps them there.
"""

from collections.abc import Sequence
from typing import Final

from geotrain.fitting.facts import PodFacts, Role
from geotrain.fitting.occupancy import Occupancy
from geotrain.fitting.victims import victims
from geotrain.fitting.whatif import slots

TOP: Final = 10


def prioritize(pod: PodFacts, names: Sequence[str], occupancy: Occupancy) -> dict[str, int]:
    """A score for each of the nodes, all of which passed the filter."""
    if pod.role is not Role.TRAINING:
        return dict.fromkeys(names, TOP)
    joining = sum(p.key != pod.key and p.shape == pod.shape for p in _waiting_mates(pod, occupancy))
    company = {name: _company(pod, name, joining, occupancy) for name in names}
    best = max(company.values(), default=0) or 1
    return {
        name: round(
            6 * company[name] / best
            + 2 * (victims(occupancy, name, pod.requests) == ())
            + 2 * _packed(pod, name, occupancy)
        )
        for name in names
    }


def _waiting_mates(pod: PodFacts, occupancy: Occupancy) -> list[PodFacts]:
    return [mate for mate in occupancy.waiting() if mate.job_key == pod.job_key]


def _company(pod: PodFacts, name: str, joining: int, occupancy: Occupancy) -> int:
    """Points for the job's pods that are there, and for those that still can be."""
    there = sum(
        2 if _neighbours(mate, pod) else 1
        for mate in occupancy.pods_on(name)
        if mate.role is Role.TRAINING and mate.job_key == pod.job_key
    )
    return there + min(joining, max(0, slots(occupancy.free(name), pod) - 1))


def _neighbours(one: PodFacts, other: PodFacts) -> bool:
    """Whether activations flow between two ranks: next stages of the same replica."""
    if one.stage is None or other.stage is None:
        return False
    return one.replica == other.replica and abs(one.stage - other.stage) == 1


def _packed(pod: PodFacts, name: str, occupancy: Occupancy) -> float:
    """The highest use of a requested resource with the pod on the node, 0 to 1."""
    node, free = occupancy.nodes.get(name), occupancy.free(name)
    if node is None:
        return 0.0
    used = (
        (node.allocatable[resource] - free[resource] + amount) / node.allocatable[resource]
        for resource, amount in pod.requests.items()
        if amount > 0 and node.allocatable.get(resource)
    )
    return min(1.0, max(used, default=0.0))
