"""A trial placement on top of an occupancy, which it leaves as it is.

First fit decreasing over shapes: the largest shape first, each on the nodes in name order, first
where nothing has to leave, then where prefill has to. Pods of one shape take whole slots, so the
order of nodes changes nothing and the answer is exact while pods that compete for the same nodes
have one shape. That holds for a gang, whose ranks come from one template. With several shapes it
can be pessimistic by first fit decreasing's usual share (at most 2/9 more bins in one dimension),
never optimistic.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence

from geotrain.fitting.facts import NodeFacts, PodFacts, PodKey, Resources
from geotrain.fitting.occupancy import Occupancy
from geotrain.fitting.quantities import add
from geotrain.fitting.selection import refusal


class WhatIf:
    """Pods are put in; ``assignment`` and ``taken`` (by node) say where they went."""

    def __init__(self, occupancy: Occupancy) -> None:
        self._occupancy = occupancy
        self._names = sorted(occupancy.nodes)
        self.assignment: dict[PodKey, str] = {}
        self.taken: dict[str, dict[str, int]] = {}

    def copy(self) -> "WhatIf":
        """The trial as it stands, to come back to."""
        other = WhatIf(self._occupancy)
        other.assignment = dict(self.assignment)
        other.taken = {name: dict(taken) for name, taken in self.taken.items()}
        return other

    def put(self, pods: Iterable[PodFacts]) -> list[PodFacts]:
        """Place what fits; the pods that do not are returned, in order of size."""
        shapes: dict[object, list[PodFacts]] = defaultdict(list)
        for pod in sorted(pods, key=lambda pod: pod.key):
            shapes[pod.shape].append(pod)
        left: list[PodFacts] = []
        for alike in sorted(shapes.values(), key=self._order):
            left += self._put_alike(alike)
        return left

    def put_on(self, pod: PodFacts, node: str) -> None:
        """Place a pod where somebody else decided that it goes."""
        self.assignment[pod.key] = node
        self.taken[node] = add(self.taken.get(node, {}), pod.requests)

    def usable(self, pod: PodFacts) -> list[NodeFacts]:
        """The nodes that take pods of this shape at all, in name order."""
        nodes = (self._occupancy.nodes[name] for name in self._names)
        return [node for node in nodes if refusal(pod, node) is None]

    def free(self, node: NodeFacts, *, sparing: bool = False) -> dict[str, int]:
        """What is left of a node, never below 0; ``sparing`` counts prefill as staying."""
        taken: Resources = self.taken.get(node.name, {})
        free = self._occupancy.free(node.name, sparing=sparing)
        return {name: max(0, amount - taken.get(name, 0)) for name, amount in free.items()}

    def _put_alike(self, pods: Sequence[PodFacts]) -> list[PodFacts]:
        waiting = list(reversed(pods))
        nodes = self.usable(pods[0])
        for sparing in (True, False):
            for node in nodes:
                if not waiting:
                    return []
                for _ in range(min(slots(self.free(node, sparing=sparing), pods[0]), len(waiting))):
                    self.put_on(waiting.pop(), node.name)
        return waiting[::-1]

    def _order(self, alike: Sequence[PodFacts]) -> tuple[float, int, PodKey]:
        """Largest share of a node first; of equals, those with fewer nodes to go to."""
        pod = alike[0]
        nodes = self.usable(pod)
        share = max((_share(pod, node) for node in nodes), default=0.0)
        return (-share, len(nodes), pod.key)


def slots(free: Resources, pod: PodFacts) -> int:
    """How many pods of this shape go into what is free."""
    return min((free.get(name, 0) // amount for name, amount in pod.asked), default=sys.maxsize)


def _share(pod: PodFacts, node: NodeFacts) -> float:
    """The largest part of a node's offer that the pod asks for."""
    offers = node.allocatable
    return max(
        (n / offers[name] for name, n in pod.requests.items() if offers.get(name)), default=0
    )
