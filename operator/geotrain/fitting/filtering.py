"""Which nodes may take a pod of ours, and why the others may not.

Training goes to its own data centre, wherever it fits once prefill has left. Prefill goes only to
the node of the rank whose GPUs it shares, never beyond the pool's limit, and never into room that a
waiting training gang could use.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from geotrain.fitting.facts import Asked, PodFacts, Role
from geotrain.fitting.gang import with_promised
from geotrain.fitting.occupancy import Occupancy
from geotrain.fitting.quantities import show_amount
from geotrain.fitting.selection import refusal


@dataclass(frozen=True, slots=True)
class Filtered:
    """``passed`` keeps the order of the question; ``failed`` says why, by node.

    ``retry`` is set where no node passed and a cause may pass away: it rests on pods, or on what
    has not been seen yet. The scheduler has no event for that (nothing tells it that a gated pod
    was deleted, and its events can outrun our watch), so it must be made to ask again.
    """

    passed: tuple[str, ...]
    failed: dict[str, str] = field(default_factory=dict)
    retry: str = ""


class _No(NamedTuple):
    """A refusal of one node; ``lasting`` until somebody changes node or pod."""

    why: str
    lasting: bool


def filter_nodes(pod: PodFacts, names: Sequence[str], occupancy: Occupancy) -> Filtered:
    """Sort the named nodes into those that may take the pod and those that may not."""
    if pod.role is Role.TRAINING:
        return _filter_training(pod, names, occupancy)
    if pod.role is Role.PREFILL:
        return _filter_prefill(pod, names, occupancy)
    return _nowhere(names, "the pod is neither training nor prefill")


def _filter_training(pod: PodFacts, names: Sequence[str], occupancy: Occupancy) -> Filtered:
    if not pod.data_center:
        return _nowhere(names, "the training pod names no data centre")
    passed: list[str] = []
    failed: dict[str, str] = {}
    retry = ""
    asked = pod.asked
    for name in names:
        no = _refusal(pod, name, occupancy, asked)
        if no is None:
            passed.append(name)
        else:
            failed[name] = no.why
            retry = retry or ("" if no.lasting else f"{name}: {no.why}")
    return Filtered(tuple(passed), failed, "" if passed else retry)


def _filter_prefill(pod: PodFacts, names: Sequence[str], occupancy: Occupancy) -> Filtered:
    if not pod.job or pod.beside_rank is None:
        return _nowhere(names, "the prefill pod names no training rank")
    who = f"rank {pod.beside_rank} of {pod.job}"
    rank_of = (pod.job_key, pod.beside_rank)
    rank = occupancy.rank(*rank_of)
    if rank is None:
        return _nowhere(names, why := f"{who} runs on no node", why)
    there = sum(_precedes(other, pod) for other in occupancy.beside(*rank_of))
    if there >= pod.max_beside:
        why = f"{who} has {there} of at most {pod.max_beside} prefill workers"
        return _nowhere(names, why, why)
    failed = {name: f"{who} runs on {rank.node}" for name in names if name != rank.node}
    if rank.node not in names:
        return Filtered((), failed)
    no = _prefill_refusal(pod, rank.node, occupancy)
    if no is None:
        return Filtered((rank.node,), failed)
    return Filtered((), {**failed, rank.node: no.why}, "" if no.lasting else no.why)


def _nowhere(names: Sequence[str], why: str, retry: str = "") -> Filtered:
    return Filtered((), dict.fromkeys(names, why), retry)


def _precedes(other: PodFacts, pod: PodFacts) -> bool:
    """Whether another prefill pod's claim on the GPU goes first.

    Of unbound pods the first by name does: the watch may lag behind what was just bound, and
    so two pods asked for in a row cannot both pass for the last place.
    """
    return other.key != pod.key and (bool(other.node) or other.key < pod.key)


def _prefill_refusal(pod: PodFacts, name: str, occupancy: Occupancy) -> _No | None:
    no = _refusal(pod, name, occupancy, pod.asked, sparing=True)
    if no is not None:
        return no
    promised = reserved(occupancy).get(name, {})
    beyond = tuple((resource, amount + promised.get(resource, 0)) for resource, amount in pod.asked)
    if promised and occupancy.shortage(name, beyond, sparing=True):
        return _No("node has no room but what waiting training needs", lasting=False)
    return None


def reserved(occupancy: Occupancy) -> dict[str, dict[str, int]]:
    """The room, by node, that waiting training would take.

    That is the admitted pods', and that of gated gangs which fit whole, in order of priority. A
    gang that does not fit reserves nothing, or prefill would starve and the gang not be served.
    """
    whatif = with_promised(occupancy, set())
    gangs: dict[tuple[int, str, str], list[PodFacts]] = {}
    for pod in occupancy.waiting():
        if pod.gated:
            gangs.setdefault((-pod.priority, *pod.job_key), []).append(pod)
    for _, gang in sorted(gangs.items()):
        before = whatif.copy()
        if whatif.put(gang):
            whatif = before
    return whatif.taken


def _refusal(
    pod: PodFacts, name: str, occupancy: Occupancy, asked: Asked, *, sparing: bool = False
) -> _No | None:
    """Why a node takes the pod neither now nor after prefill left, or None."""
    node = occupancy.nodes.get(name)
    if node is None:
        return _No("node is not in the extender's cache yet", lasting=False)
    why = refusal(pod, node)
    if why is not None:
        return _No(f"node {why}", lasting=True)
    short = occupancy.shortage(name, asked, sparing=sparing)
    return None if short is None else _No(f"node lacks {show_amount(*short)}", lasting=False)
