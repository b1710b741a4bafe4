"""Whether a node takes a pod at all, whatever is free on it: selectors, affinity and taints.

The rules are those of kube-scheduler's NodeUnschedulable, NodeAffinity and TaintToleration
plugins. Not modelled: volumes, pod affinity, topology spread and host ports, which only the real
scheduler decides.
"""

from collections.abc import Callable, Mapping
from typing import Final

from geotrain.fitting.facts import NodeFacts, PodFacts, Requirement, Taint

_UNSCHEDULABLE: Final = Taint("node.kubernetes.io/unschedulable")
_REPELLING: Final = ("NoSchedule", "NoExecute")


def refusal(pod: PodFacts, node: NodeFacts) -> str | None:
    """Why the node never takes the pod, or None. The sentence's subject is the node."""
    if pod.data_center and node.data_center != pod.data_center:
        return f"is in {node.data_center or 'no data centre'}, not in {pod.data_center}"
    for key, value in pod.node_selector.items():
        if node.labels.get(key) != value:
            return f"lacks the label {key}={value}"
    if pod.affinity and not any(_all_match(term, node) for term in pod.affinity):
        return "does not match the pod's node affinity"
    if node.unschedulable and not _borne(_UNSCHEDULABLE, pod):
        return "is cordoned"
    for taint in node.taints:
        if taint.effect in _REPELLING and not _borne(taint, pod):
            return f"has the taint {taint}"
    return None


def _borne(taint: Taint, pod: PodFacts) -> bool:
    return any(toleration.tolerates(taint) for toleration in pod.tolerations)


def _all_match(term: tuple[Requirement, ...], node: NodeFacts) -> bool:
    """An empty term matches nothing, as in Kubernetes."""
    return bool(term) and all(_matches(requirement, node) for requirement in term)


def _matches(requirement: Requirement, node: NodeFacts) -> bool:
    labels: Mapping[str, str] = {requirement.key: node.name} if requirement.on_name else node.labels
    test = _OPERATORS.get(requirement.operator)
    return test is not None and test(labels.get(requirement.key), requirement.values)


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _compares(
    label: str | None, values: tuple[str, ...], holds: Callable[[int, int], bool]
) -> bool:
    have, bound = _number(label), _number(values[0] if len(values) == 1 else None)
    return have is not None and bound is not None and holds(have, bound)


_OPERATORS: Final[dict[str, Callable[[str | None, tuple[str, ...]], bool]]] = {
    "In": lambda label, values: label in values,
    "NotIn": lambda label, values: label not in values,
    "Exists": lambda label, values: label is not None,
    "DoesNotExist": lambda label, values: label is None,
    "Gt": lambda label, values: _compares(label, values, lambda have, bound: have > bound),
    "Lt": lambda label, values: _compares(label, values, lambda have, bound: have < bound),
}
