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

from collections import Counter
from collections.abc import Sequence
from typing import Final

from geotrain.fitting.facts import Asked, PodFacts, Resources, Role
from geotrain.fitting.occupancy import Occupancy
from geotrain.fitting.whatif import slots

TOP: Final = 10


def prioritize(pod: PodFacts, names: Sequence[str], occupancy: Occupancy) -> dict[str, int]:
    """A score for each of the nodes, all of which passed the filter."""
    if pod.role is not Role.TRAINING:
        return dict.fromkeys(names, TOP)
    asked = pod.asked
    there, joining = _mates(pod, occupancy), _joining(pod, occupancy)
    free = {name: occupancy.free(name) for name in names}
    company = {
        name: there[name] + min(joining, max(0, slots(left, pod) - 1)) if joining else there[name]
        for name, left in free.items()
    }
    best = max(company.values(), default=0) or 1
    return {
        name: round(
            6 * company[name] / best
            + 2 * (occupancy.shortage(name, asked, sparing=True) is None)
            + 2 * _packed(asked, left, _offers(name, occupancy))
        )
        for name, left in free.items()
    }


def _mates(pod: PodFacts, occupancy: Occupancy) -> Counter[str]:
    """Points by node for the job's pods that are there."""
    points: Counter[str] = Counter()
    for mate in occupancy.ranks(pod.job_key):
        points[mate.node] += 2 if _neighbours(mate, pod) else 1
    return points


def _neighbours(one: PodFacts, other: PodFacts) -> bool:
    """Whether activations flow between two ranks: next stages of the same replica."""
    if one.stage is None or other.stage is None:
        return False
    return one.replica == other.replica and abs(one.stage - other.stage) == 1


def _joining(pod: PodFacts, occupancy: Occupancy) -> int:
    """How many pods of the job that could go to the same nodes are still waiting."""
    mates = [p for p in occupancy.waiting() if p.job_key == pod.job_key and p.key != pod.key]
    return sum(mate.shape == pod.shape for mate in mates)


def _offers(name: str, occupancy: Occupancy) -> Resources:
    node = occupancy.nodes.get(name)
    return node.allocatable if node else {}


def _packed(asked: Asked, left: Resources, offers: Resources) -> float:
    """The highest use of a requested resource with the pod on the node, 0 to 1."""
    used = 0.0
    for resource, amount in asked:
        offer = offers.get(resource, 0)
        if offer:
            used = max(used, (offer - left[resource] + amount) / offer)
    return min(1.0, used)
