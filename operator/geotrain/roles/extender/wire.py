"""The scheduler's extender protocol, v1 (k8s.io/kube-scheduler/extender/v1), as JSON.

The Go structs have no JSON tags, so the keys are their field names; inside a Pod or Node the usual
ones. With ``nodeCacheCapable`` the scheduler sends names and victims' uids, without it whole
objects; both are understood, and answered alike.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from geotrain.api.facts import pod_from_manifest
from geotrain.errors import InputError
from geotrain.fitting import Filtered, PodFacts

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """ExtenderArgs: which of the nodes ``names`` for ``pod``? ``nodes`` are whole, if they came."""

    pod: PodFacts
    names: Sequence[str]
    nodes: Sequence[Document] | None = None


@dataclass(frozen=True, slots=True)
class Preemption:
    """ExtenderPreemptionArgs: for ``pod`` these uids would leave these nodes."""

    pod: PodFacts
    victims: Mapping[str, Sequence[str]]
    violations: Mapping[str, int]


def parse_question(document: object) -> Question:
    """Read ExtenderArgs. Raises InputError where they are none."""
    arguments = _mapping(document, "ExtenderArgs")
    pod = _pod(arguments)
    names = arguments.get("NodeNames")
    if names is not None:
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise InputError("NodeNames is no list of names")
        return Question(pod, names)
    listed = _mapping(arguments.get("Nodes"), "Nodes, when NodeNames is missing,")
    nodes = [_mapping(node, "a node") for node in listed.get("items") or ()]
    return Question(pod, [_name(node) for node in nodes], nodes)


def parse_preemption(document: object) -> Preemption:
    """Read ExtenderPreemptionArgs. Raises InputError where they are none."""
    arguments = _mapping(document, "ExtenderPreemptionArgs")
    pod = _pod(arguments)
    by_node = arguments.get("NodeNameToMetaVictims") or arguments.get("NodeNameToVictims") or {}
    victims: dict[str, list[str]] = {}
    violations: dict[str, int] = {}
    for node, chosen in _mapping(by_node, "the map of victims").items():
        found = _mapping(chosen, f"the victims on {node}")
        victims[node] = [_uid(_mapping(each, "a victim")) for each in found.get("Pods") or ()]
        violations[node] = int(found.get("NumPDBViolations") or 0)
    return Preemption(pod, victims, violations)


def filter_result(question: Question, filtered: Filtered) -> dict[str, Any]:
    """ExtenderFilterResult. No eviction helps a node that failed, so it is unresolvable.

    Where asking again may help, the answer is an error, after which the scheduler backs off and
    does so; after a plain refusal it would wait for an event, or five minutes.
    """
    if filtered.retry:
        return filter_error(filtered.retry)
    result: dict[str, Any] = {
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": filtered.failed,
        "Error": "",
    }
    if question.nodes is None:
        return {**result, "NodeNames": filtered.passed}
    passed = set(filtered.passed)
    return {**result, "Nodes": {"items": [n for n in question.nodes if _name(n) in passed]}}


def filter_error(sentence: str) -> dict[str, Any]:
    """ExtenderFilterResult of a question that cannot be answered now."""
    return {"Error": f"geotrain extender: {sentence}"}


def priorities(scores: Mapping[str, int]) -> list[dict[str, Any]]:
    """HostPriorityList."""
    return [{"Host": name, "Score": score} for name, score in scores.items()]


def preemption_result(preemption: Preemption, nodes: Iterable[str]) -> dict[str, Any]:
    """ExtenderPreemptionResult that keeps the given nodes, their victims as they came."""
    kept = {
        node: {
            "Pods": [{"UID": uid} for uid in preemption.victims[node]],
            "NumPDBViolations": preemption.violations[node],
        }
        for node in nodes
    }
    return {"NodeNameToMetaVictims": kept}


def _pod(arguments: Document) -> PodFacts:
    manifest = _mapping(arguments.get("Pod"), "Pod")
    try:
        return pod_from_manifest(manifest)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise InputError(f"Pod cannot be read: {error}") from error


def _uid(victim: Document) -> str:
    """The uid of a MetaPod, or of a whole pod."""
    metadata = victim.get("metadata") or {}
    return str(victim.get("UID") or metadata.get("uid") or "")


def _name(node: Document) -> str:
    return str(_mapping(node.get("metadata"), "a node's metadata").get("name", ""))


def _mapping(value: object, what: str) -> Document:
    if not isinstance(value, dict):
        raise InputError(f"{what} is no JSON object")
    return value
