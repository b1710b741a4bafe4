"""Why a gang does not fit, one sentence for each data centre and shortage.

    dc-east: 4 example.com/gpu wanted, 2 free on 1 node; lacking 2

"Free" is what training may take: prefill is not counted, room promised to others is. "On n nodes"
are those that take the gang's pods at all.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from geotrain.fitting.facts import NodeFacts, PodFacts
from geotrain.fitting.occupancy import Occupancy
from geotrain.fitting.quantities import add, show_amount
from geotrain.fitting.selection import refusal
from geotrain.fitting.whatif import WhatIf
from geotrain.model.decision import Reason


class Misfit(StrEnum):
    """What a data centre lacks for the pods of a gang, gravest first."""

    NO_NODE = "NoUsableNode"
    LACKS = "InsufficientResources"
    FRAGMENTED = "ResourcesFragmented"


_GRAVITY: Final[list[StrEnum]] = [*Misfit]


def reasons(occupancy: Occupancy, before: WhatIf, wanted: Sequence[PodFacts]) -> tuple[Reason, ...]:
    """What each data centre lacks for the pods of a gang that need a node, gravest first.

    ``before`` is the trial in which only what is promised to others has been placed.
    """
    by_center: dict[str, list[PodFacts]] = defaultdict(list)
    for pod in wanted:
        by_center[pod.data_center].append(pod)
    found: list[Reason] = []
    for center, pods in sorted(by_center.items()):
        if left := before.copy().put(pods):
            code, sentences = _of_center(occupancy, before, pods, left)
            found += [Reason(code, f"{center or 'any data centre'}: {text}") for text in sentences]
    return tuple(sorted(found, key=lambda reason: _GRAVITY.index(reason.code)))


def _of_center(
    occupancy: Occupancy, before: WhatIf, pods: Sequence[PodFacts], left: Sequence[PodFacts]
) -> tuple[Misfit, list[str]]:
    homeless = [pod for pod in left if not before.usable(pod)]
    if homeless:
        return Misfit.NO_NODE, [_refusals(homeless[0], occupancy)]
    nodes = {node.name: node for pod in _distinct(pods) for node in before.usable(pod)}
    lacking = _shortages(pods, list(nodes.values()), before)
    if lacking:
        return Misfit.LACKS, lacking
    return Misfit.FRAGMENTED, [_fragments(pods, left, len(nodes))]


def _shortages(pods: Sequence[PodFacts], nodes: Sequence[NodeFacts], before: WhatIf) -> list[str]:
    """A sentence for each resource of which all usable nodes together have too little."""
    total: dict[str, int] = {}
    for pod in pods:
        total = add(total, pod.requests)
    free: dict[str, int] = {}
    for node in nodes:
        free = add(free, before.free(node))
    return [
        f"{show_amount(resource, amount)} wanted, {_bare(resource, free.get(resource, 0))} free on "
        f"{_count(len(nodes), 'node')}; lacking {_bare(resource, amount - free.get(resource, 0))}"
        for resource, amount in sorted(total.items())
        if amount > free.get(resource, 0)
    ]


def _fragments(pods: Sequence[PodFacts], left: Sequence[PodFacts], nodes: int) -> str:
    """There is enough in all, but not on single nodes."""
    asked = ", ".join(show_amount(r, n) for r, n in sorted(left[0].requests.items()) if n)
    return (
        f"{_count(len(pods), 'pod')} wanted, {len(pods) - len(left)} fit on "
        f"{_count(nodes, 'node')}; in all enough is free, but nowhere else {asked} at once"
    )


def _refusals(pod: PodFacts, occupancy: Occupancy) -> str:
    """Why no node takes the pod."""
    nodes = [n for n in occupancy.nodes.values() if pod.data_center in ("", n.data_center)]
    if not nodes:
        return "no node of the cluster carries this data centre's label"
    causes = Counter(refusal(pod, node) for node in nodes)
    told = ", ".join(f"{cause} ({count})" for cause, count in sorted(causes.items(), key=str))
    return f"none of {_count(len(nodes), 'node')} takes the pods: {told}"


def _distinct(pods: Sequence[PodFacts]) -> list[PodFacts]:
    return list({pod.shape: pod for pod in pods}.values())


def _bare(resource: str, amount: int) -> str:
    """The amount without the resource's name."""
    return show_amount(resource, amount).removesuffix(f" {resource}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
