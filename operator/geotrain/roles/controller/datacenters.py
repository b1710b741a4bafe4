"""DataCenter: does its cluster answer, are our agents there, how many GPUs has it? Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from geotrain.api import labels
from geotrain.api.conditions import FALSE, TRUE, UNKNOWN, format_time
from geotrain.api.facts import node_from_manifest
from geotrain.api.reasons import ConditionType, Reason
from geotrain.api.v1alpha1 import DataCenter
from geotrain.fitting import Occupancy
from geotrain.fitting.quantities import parse_amount
from geotrain.roles.controller.decision import Decision, Manifest, Reference
from geotrain.roles.controller.draft import Draft
from geotrain.units import Seconds

_CONTACT: Seconds = 30.0  # lastContact is not written more often: every write wakes all watchers


@dataclass(frozen=True)
class Contact:
    """What was seen of a data centre's cluster.

    ``fault`` is why it cannot be asked, with its ``reason``; then the rest means nothing.
    ``scheduler`` is the Deployment of geotrain-scheduler, None where there is none; ``priorities``
    are the names of the priority classes. ``orphans`` belong to jobs and pools that are gone.
    """

    reason: Reason = Reason.CONTACTED
    fault: str = ""
    scheduler: Manifest | None = None
    priorities: frozenset[str] = frozenset()
    orphans: tuple[Manifest, ...] = ()
    nodes: tuple[Manifest, ...] = ()
    occupancy: Occupancy = field(default_factory=Occupancy)


def decide(data_center: DataCenter, contact: Contact, now: Seconds) -> Decision:
    """The data centre's status."""
    draft = Draft(data_center.metadata, data_center.status, now)
    if contact.fault:
        draft.set(ConditionType.REACHABLE, FALSE, contact.reason, contact.fault)
        message = "the member cannot be asked"
        draft.set(ConditionType.AGENTS_READY, UNKNOWN, Reason.UNKNOWN, message)
        return draft.decision()
    draft.set(ConditionType.REACHABLE, TRUE, Reason.CONTACTED, "the API server answers")
    _judge_agents(contact, draft)
    _sweep(data_center, contact, draft)
    before = data_center.status.last_contact
    if before is None or now - before.timestamp() >= _CONTACT:
        draft.fields["lastContact"] = format_time(draft.time)
    own = own_nodes(data_center, contact.nodes)
    draft.fields |= {
        "gpus": gpu_count(data_center, own, contact.occupancy),
        "nodes": len(own),
        "podCIDRs": list(pod_cidrs(own)),
    }
    return draft.decision()


def own_nodes(data_center: DataCenter, nodes: Iterable[Manifest]) -> tuple[Manifest, ...]:
    """The nodes that belong to a data centre, by name."""
    wanted = node_selector(data_center)
    found = [
        node for node in nodes if wanted.items() <= (node["metadata"].get("labels") or {}).items()
    ]
    return tuple(sorted(found, key=lambda node: str(node["metadata"]["name"])))


def node_selector(data_center: DataCenter) -> dict[str, str]:
    """The labels of its nodes: those of the spec, or the data centre's own label."""
    return data_center.spec.node_selector or {labels.DATA_CENTER: data_center.name}


def pod_cidrs(nodes: Iterable[Manifest]) -> tuple[str, ...]:
    """The pod networks of nodes, sorted, each once."""
    found: set[str] = set()
    for node in nodes:
        spec = node.get("spec") or {}
        found.update(spec.get("podCIDRs") or ([spec["podCIDR"]] if "podCIDR" in spec else []))
    return tuple(sorted(found))


def gpu_count(
    data_center: DataCenter, nodes: Iterable[Manifest], occupancy: Occupancy
) -> dict[str, int]:
    """GPUs on all nodes, on those that take pods, and those of them that nobody requested."""
    resource = data_center.spec.gpu_resource
    capacity = allocatable = free = 0
    for node in nodes:
        name = node["metadata"]["name"]
        held = (node.get("status") or {}).get("capacity") or {}
        capacity += parse_amount(resource, held.get(resource, 0))
        if takes_pods(node):
            allocatable += node_from_manifest(node).allocatable.get(resource, 0)
            free += max(0, occupancy.free(name, sparing=True).get(resource, 0))
    return {"capacity": capacity, "allocatable": allocatable, "free": free}


def takes_pods(node: Manifest) -> bool:
    """Whether a node is ready and not cordoned; one that says nothing about it is ready."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = next((c["status"] for c in conditions if c["type"] == "Ready"), "True")
    return ready == "True" and not (node.get("spec") or {}).get("unschedulable")


def _judge_agents(contact: Contact, draft: Draft) -> None:
    scheduler = contact.scheduler
    ready = ((scheduler or {}).get("status") or {}).get("availableReplicas", 0)
    missing = sorted({labels.PRIORITY_TRAINING, labels.PRIORITY_PREFILL} - contact.priorities)
    if scheduler is None:
        verdict = FALSE, Reason.SCHEDULER_MISSING, f"there is no Deployment {labels.SCHEDULER_NAME}"
    elif missing:
        verdict = FALSE, Reason.PRIORITY_CLASSES_MISSING, f"there is no {' and no '.join(missing)}"
    elif not ready:
        verdict = FALSE, Reason.SCHEDULER_NOT_READY, f"{labels.SCHEDULER_NAME} has no ready pod"
    else:
        verdict = TRUE, Reason.AGENTS_READY, f"{labels.SCHEDULER_NAME} has {ready} ready pods"
    draft.set(ConditionType.AGENTS_READY, *verdict)


def _sweep(data_center: DataCenter, contact: Contact, draft: Draft) -> None:
    """A member that was away when a job was deleted still has its objects."""
    draft.deletions += [
        Reference.of(data_center.name, each)
        for each in contact.orphans
        if "deletionTimestamp" not in each["metadata"]
    ]
    if draft.deletions:
        message = f"{len(draft.deletions)} objects of jobs and pools that are gone"
        draft.tell(Reason.LEFTOVERS_REMOVED, message)
