"""Which prefill pods leave a node so that training fits: as few as the order of mercy allows.

As in kube-scheduler's preemption, all prefill pods of the node are taken away and given back one
by one while there is room: those already leaving last, higher priority first, then by name.
Training pods and pods that are not ours are never victims.
"""

from collections.abc import Iterable

from geotrain.fitting.facts import PodFacts, Resources, Role
from geotrain.fitting.occupancy import Occupancy


def victims(occupancy: Occupancy, node: str, wanted: Resources) -> tuple[PodFacts, ...] | None:
    """The prefill pods that leave ``node`` for ``wanted``; None where even that is too little."""
    free = occupancy.free(node)
    room = {name: free.get(name, 0) - amount for name, amount in wanted.items() if amount > 0}
    if any(amount < 0 for amount in room.values()):
        return None
    leaving = []
    for pod in sorted(_prefill_on(occupancy, node), key=_mercy):
        if all(pod.requests.get(name, 0) <= amount for name, amount in room.items()):
            room = {name: amount - pod.requests.get(name, 0) for name, amount in room.items()}
        else:
            leaving.append(pod)
    return tuple(leaving)


def objection(pod: PodFacts, uids: Iterable[str], occupancy: Occupancy) -> str | None:
    """Why these pods may not leave for ``pod``, or None. One that is not known may not either."""
    if pod.role is not Role.TRAINING:
        return "only training may evict"
    for uid in uids:
        victim = occupancy.pod_of_uid(uid)
        if victim is None:
            return f"no pod of uid {uid} is known"
        if victim.role is not Role.PREFILL:
            return f"{victim.namespace}/{victim.name} is not prefill"
    return None


def _prefill_on(occupancy: Occupancy, node: str) -> list[PodFacts]:
    return [pod for pod in occupancy.pods_on(node) if pod.role is Role.PREFILL]


def _mercy(pod: PodFacts) -> tuple[bool, int, str, str]:
    return (pod.terminating, -pod.priority, *pod.key)
