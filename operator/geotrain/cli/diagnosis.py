"""What is wrong with a whole installation, and what to do about it. Pure: facts to findings."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

from geotrain.api import crd, labels
from geotrain.api.reasons import ConditionType, Reason
from geotrain.api.v1alpha1 import KINDS, DataCenter, GeoTrainingJob, WanLink
from geotrain.api.v1alpha1.resource import StatusCondition
from geotrain.cli import findings, sites
from geotrain.cli.findings import Finding
from geotrain.errors import InputError
from geotrain.settings import Settings
from geotrain.units import Seconds

Manifest = Mapping[str, Any]

HUB: Final = "hub"
_SILENT: Final[Seconds] = 120.0  # lastContact is written every half minute
_STUCK: Final[Seconds] = 60.0
_MOST_FIELDS: Final = 3

_JOIN: Final = "geotrain join {name} --context MEMBER makes a new way there"
_ACTIONS: Final[Mapping[str, str]] = {
    Reason.UNREACHABLE: "is its API server up, and does the hub reach the address in its Secret?"
    " geotrain join {name} --server URL gives another",
    Reason.CREDENTIALS_MISSING: _JOIN,
    Reason.CREDENTIALS_INVALID: _JOIN,
    Reason.TOKEN_EXPIRED: _JOIN,
    Reason.TOKEN_REFUSED: _JOIN,
    Reason.TOKEN_NOT_OURS: _JOIN,
    Reason.TOKEN_NOT_RENEWED: "upgrade the chart in {name}, then " + _JOIN,
    Reason.ANOTHER_CLUSTER: "geotrain leave {name}, then geotrain join {name}",
    Reason.FORBIDDEN: "upgrade the chart in {name}, which grants what is needed",
    Reason.SCHEDULER_MISSING: "helm install geotrain in {name} with member.enabled=true",
    Reason.PRIORITY_CLASSES_MISSING: "helm upgrade geotrain in {name} with member.enabled=true",
    Reason.SCHEDULER_NOT_READY: "kubectl describe deployment geotrain-scheduler in {name}",
    Reason.POD_NETWORK_UNKNOWN: "geotrain join {name} --pod-cidr CIDR",
}
_CENTER_TYPES: Final = (
    ConditionType.REACHABLE,
    ConditionType.AGENTS_READY,
    ConditionType.NETWORK_READY,
    ConditionType.TOKEN_FRESH,
)
_HELD: Final = (
    ConditionType.PLANNED,
    ConditionType.RESERVED,
    ConditionType.PODS_READY,
)
_NO_WINDOWS: Final = (Reason.DISABLED, Reason.NO_WINDOWS, Reason.NOT_RUNNING, Reason.TRAINING_DONE)


@dataclass(frozen=True, slots=True)
class Hub:
    """What was seen of the hub itself.

    ``controller`` is its Deployment and ``settings`` the text of its settings, None where missing;
    ``definitions`` are all CRDs.
    """

    kubernetes: str
    version: str
    definitions: tuple[Manifest, ...] = ()
    controller: Manifest | None = None
    settings: str | None = None
    ahead: Seconds | None = None


def hub(seen: Hub, program: str) -> list[Finding]:
    """The hub: its version, CRDs, controller and settings; ``program`` is our own version."""
    return [
        sites.kubernetes(HUB, seen.kubernetes),
        *_definitions(seen.definitions),
        *_controller(seen, program),
        *_settings(seen.settings),
        *_clock(seen.ahead),
    ]


def center(found: DataCenter, now: Seconds) -> list[Finding]:
    """A data centre as the controller sees it."""
    conditions = {each.type: each for each in found.status.conditions}
    contact = found.status.last_contact
    if not conditions:
        action = "is the controller running? kubectl get pods in its namespace"
        return [findings.error(found.name, "the controller has not looked at it yet", action)]
    result = [_condition(found.name, conditions[t]) for t in _CENTER_TYPES if t in conditions]
    reachable = conditions.get(ConditionType.REACHABLE)
    late = contact is not None and now - contact.timestamp() > _SILENT
    if late and contact is not None and reachable is not None and reachable.status == "True":
        told = f"the controller last looked {now - contact.timestamp():.0f} s ago"
        result.append(findings.error(found.name, told, "does it run, and what does it log?"))
    return result


def links(found: Sequence[WanLink], centers: Iterable[str]) -> list[Finding]:
    """Links to nowhere, pairs without one, and what nobody has measured."""
    known = sorted(centers)
    result: list[Finding] = []
    for link in found:
        subject = f"link {link.name}"
        gone = sorted({link.spec.source, link.spec.target} - set(known))
        if gone:
            message = f"it names {' and '.join(gone)}, which has not joined"
            action = f"geotrain join {gone[0]}, or kubectl delete wan {link.name}"
            result.append(findings.error(subject, message, action))
            continue
        for each in link.status.conditions:
            if each.type == ConditionType.VALID and each.status == "False":
                result.append(findings.error(subject, each.message))
            if each.type == ConditionType.MEASURED and each.status != "True":
                result.append(findings.note(subject, each.message))
    return result + _missing_links(found, known)


def jobs(found: Iterable[GeoTrainingJob], now: Seconds) -> list[Finding]:
    """Jobs that do not run, and why."""
    result: list[Finding] = []
    for job in found:
        subject = f"job {job.namespace}/{job.name}"
        conditions = {each.type: each for each in job.status.conditions}
        if job.status.completion_time is not None or job.spec.suspend:
            continue
        held = next((c for t in _HELD if (c := conditions.get(t)) and c.status != "True"), None)
        if held is not None:
            if now - held.last_transition_time.timestamp() >= _STUCK:
                result.append(findings.warning(subject, _said(held), _EXPLAIN.format(job=job.name)))
            continue
        windows = conditions.get(ConditionType.WINDOWS_ENFORCED)
        if windows and windows.status == "False" and windows.reason not in _NO_WINDOWS:
            result.append(findings.warning(subject, _said(windows)))
    return result


_EXPLAIN: Final = "geotrain explain {job} says more"


def namespaces(found: Mapping[str, Mapping[str, str] | None], data_center: str) -> list[Finding]:
    """Namespaces of jobs in a member, by name with their labels; None: it does not exist."""
    result: list[Finding] = []
    for name, tags in sorted(found.items()):
        enable = f"kubectl label namespace {name} {labels.ENABLED}=true"
        if tags is None:
            message = f"the namespace {name} of a job does not exist there"
            action = f"kubectl create namespace {name} && {enable}"
            result.append(findings.warning(data_center, message, action))
        elif tags.get(labels.ENABLED) != "true":
            message = f"the namespace {name} of a job is not opted in there"
            result.append(findings.warning(data_center, message, enable))
    return result


def _definitions(found: Iterable[Manifest]) -> list[Finding]:
    """CRDs that are missing, or that lack fields which this program knows."""
    by_name = {each["metadata"]["name"]: each for each in found}
    remedy = "kubectl apply --server-side -f crds/, or helm upgrade geotrain"
    result: list[Finding] = []
    for kind in KINDS:
        wanted = crd.definition(kind)
        there = by_name.get(wanted["metadata"]["name"])
        if there is None:
            message = f"the CRD {wanted['metadata']['name']} is missing"
            result.append(findings.error(HUB, message, remedy))
            continue
        lacking = sorted(_paths(_schema(wanted)) - _paths(_schema(there)))
        if lacking:
            more = f" and {len(lacking) - _MOST_FIELDS} more" if len(lacking) > _MOST_FIELDS else ""
            told = f"{', '.join(lacking[:_MOST_FIELDS])}{more}"
            message = f"the CRD {wanted['metadata']['name']} is older: it lacks {told}"
            result.append(findings.error(HUB, message, remedy))
    return result or [findings.ok(HUB, f"{len(KINDS)} CRDs, as this program knows them")]


def _schema(definition: Manifest) -> Manifest:
    versions = definition["spec"]["versions"]
    schema: Manifest = versions[0].get("schema", {}).get("openAPIV3Schema") or {}
    return schema


def _paths(schema: Manifest, place: str = "") -> set[str]:
    """The fields of a schema, written as paths; of lists and maps those of their entries."""
    found: set[str] = set()
    for name, inner in (schema.get("properties") or {}).items():
        path = f"{place}.{name}" if place else name
        found |= {path} | _paths(inner, path)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), Mapping):
            found |= _paths(schema[key], f"{place}[]")
    return found


def _controller(seen: Hub, program: str) -> list[Finding]:
    if seen.controller is None:
        action = "helm install geotrain with hub.enabled=true, or give --namespace"
        return [findings.error(HUB, "there is no controller", action)]
    ready = (seen.controller.get("status") or {}).get("availableReplicas", 0)
    version = sites.installed(HUB, "controller", seen.version, program)
    if not ready:
        action = "kubectl describe deployment geotrain-controller, and its pod's log"
        return [version, findings.error(HUB, "the controller has no ready pod", action)]
    return [version, findings.ok(HUB, "the controller is up")]


def _settings(text: str | None) -> list[Finding]:
    if text is None:
        return []
    try:
        Settings.from_text(text)
    except InputError as error:
        return [findings.error(HUB, str(error), "mend the chart's value hub.settings")]
    return [findings.ok(HUB, "the controller's settings are valid")]


def _clock(ahead: Seconds | None) -> list[Finding]:
    if ahead is None or abs(ahead) <= sites.SKEW:
        return []
    side = "ahead of" if ahead > 0 else "behind"
    message = f"its clock is {abs(ahead):.0f} s {side} this machine's (allowed: {sites.SKEW:g} s)"
    return [findings.warning(HUB, message, "let both keep time by NTP")]


def _condition(name: str, seen: StatusCondition) -> Finding:
    if seen.status == "True":
        return findings.ok(name, f"{seen.type}: {seen.message}" if seen.message else seen.type)
    action = _ACTIONS.get(seen.reason, "").format(name=name)
    if seen.status == "Unknown":
        return findings.note(name, _said(seen), action)
    serious = seen.type != ConditionType.TOKEN_FRESH or seen.reason == Reason.TOKEN_EXPIRED
    make = findings.error if serious else findings.warning
    return make(name, _said(seen), action)


def _said(seen: StatusCondition) -> str:
    return f"{seen.type}: {seen.reason}: {seen.message}" if seen.message else f"{seen.reason}"


def _missing_links(found: Iterable[WanLink], known: Sequence[str]) -> list[Finding]:
    there = set()
    for link in found:
        there.add((link.spec.source, link.spec.target))
        if link.spec.symmetric:
            there.add((link.spec.target, link.spec.source))
    return [
        findings.warning(
            "links",
            f"there is no WanLink {' or '.join(f'from {a} to {b}' for a, b in lacking)}, so no plan"
            " sends anything that way",
            "describe it: kubectl apply a WanLink with from, to, capacity and roundTripTime",
        )
        for pair in combinations(known, 2)
        if (lacking := [way for way in (pair, pair[::-1]) if way not in there])
    ]
