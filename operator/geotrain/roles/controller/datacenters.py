"""DataCenter: does its cluster answer, are our agents there, how many GPUs has it? Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from geotrain.api import labels, networks
from geotrain.api.conditions import FALSE, TRUE, UNKNOWN, format_time
from geotrain.api.facts import node_from_manifest
from geotrain.api.reasons import ConditionType, Reason
from geotrain.api.v1alpha1 import DataCenter
from geotrain.fitting import Occupancy
from geotrain.fitting.quantities import parse_amount
from geotrain.roles.controller import renewal
from geotrain.roles.controller.decision import Decision, Manifest, Reference
from geotrain.roles.controller.draft import Draft
from geotrain.roles.controller.renewal import Login
from geotrain.units import Seconds

_CONTACT: Seconds = 30.0  # lastContact is not written more often: every write wakes all watchers


@dataclass(frozen=True)
class Contact:
    """What was seen of a data centre's cluster.

    ``fault`` is why it cannot be asked, with its ``reason``; then the rest means nothing.
    ``scheduler`` is the Deployment of geotrain-scheduler, None where there is none; ``priorities``
    are the names of the priority classes. ``orphans`` belong to jobs and pools that are gone.
    ``kubernetes`` is the API server's version, ``cluster_uid`` tells which cluster it is. ``login``
    is how the controller logs in, None on the hub. ``other_networks`` are the pod networks of the
    other data centres, by name.
    """

    reason: Reason = Reason.CONTACTED
    fault: str = ""
    scheduler: Manifest | None = None
    priorities: frozenset[str] = frozenset()
    orphans: tuple[Manifest, ...] = ()
    nodes: tuple[Manifest, ...] = ()
    occupancy: Occupancy = field(default_factory=Occupancy)
    kubernetes: str = ""
    login: Login | None = None
    renewal_fault: str = ""
    cluster_uid: str = ""
    other_networks: Mapping[str, Sequence[str]] = field(default_factory=dict)


def decide(data_center: DataCenter, contact: Contact, now: Seconds) -> Decision:
    """The data centre's status."""
    draft = Draft(data_center.metadata, data_center.status, now)
    _judge_token(data_center, contact, draft)
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
        "kubernetesVersion": contact.kubernetes or data_center.status.kubernetes_version,
        "clusterUID": contact.cluster_uid or data_center.status.cluster_uid,
    }
    _judge_networks(data_center, own, contact, draft)
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


def pod_networks(data_center: DataCenter, nodes: Iterable[Manifest]) -> networks.PodNetworks:
    """The pod networks of a data centre; ``nodes`` are all of its cluster."""
    return networks.known(data_center.spec.network.pod_cidrs, own_nodes(data_center, nodes))


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


def _judge_token(data_center: DataCenter, contact: Contact, draft: Draft) -> None:
    if contact.login is None and contact.fault:
        return  # nobody could look: what was said before stays
    token = contact.login.token if contact.login is not None else None
    ends = None
    if token is not None and token.ends is not None:
        ends = format_time(datetime.fromtimestamp(token.ends, UTC))
    draft.fields["tokenExpiry"] = ends
    name = data_center.name
    verdict = renewal.verdict(contact.login, contact.renewal_fault, name, draft.now)
    if verdict is not None:
        draft.set(ConditionType.TOKEN_FRESH, *verdict)


def _judge_networks(
    data_center: DataCenter, own: Sequence[Manifest], contact: Contact, draft: Draft
) -> None:
    found = pod_networks(data_center, own)
    draft.fields |= {"podCIDRs": list(found.cidrs), "podCIDRsFrom": found.source or None}
    fault = networks.fault(found, contact.other_networks)
    if fault is not None:
        draft.set(ConditionType.NETWORK_READY, FALSE, fault.reason, fault.message)
        return
    places = {"Spec": "spec.network.podCIDRs", "Nodes": "its nodes"}
    told = f"{', '.join(found.cidrs)}, from {places[found.source]}"
    draft.set(ConditionType.NETWORK_READY, TRUE, Reason.NETWORK_KNOWN, told)


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
