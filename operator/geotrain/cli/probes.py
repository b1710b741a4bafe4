"""The pods that connect to each other for ``join`` and ``doctor``, and what their answers mean.

Pure. A probe listens where a training pod's sidecar listens, so whatever stops one stops the other.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from geotrain.api import labels, networks
from geotrain.cli import findings
from geotrain.cli.findings import Finding
from geotrain.units import Seconds

Manifest = dict[str, Any]

NAME: Final = "GEOTRAIN_PROBE_NAME"
KEY: Final = "GEOTRAIN_PROBE_KEY"
PREFIX: Final = "geotrain-probe-"
SELECTOR: Final = f"{labels.MANAGED_BY}={labels.MANAGED_BY_VALUE},{labels.ROLE}={labels.ROLE_PROBE}"
DEADLINE: Final = 180
"""Seconds after which the kubelet ends a probe that nobody removed."""
_UNTOLERATED: Final = ("node.kubernetes.io/",)  # the node's own troubles: better another node


@dataclass(frozen=True, slots=True)
class Image:
    """What the chart installed there: image, how it is pulled, and the secrets for that."""

    name: str
    policy: str = "IfNotPresent"
    secrets: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Placed:
    """A probe that runs: its data centre, pod and address; or ``fault``, why it does not."""

    data_center: str
    pod: str = ""
    address: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a probe said of one connection: ``name`` of who answered, or ``fault`` and ``said``."""

    name: str = ""
    fault: str = ""
    said: str = ""

    def reached(self, target: Placed) -> bool:
        """Whether the right one answered."""
        return not self.fault and self.name == target.pod


def image_of(deployments: Iterable[Mapping[str, Any]]) -> Image | None:
    """Geotrain's own image, from the first Deployment of the chart that runs it."""
    for each in deployments:
        spec = each["spec"]["template"]["spec"]
        for container in spec["containers"]:
            if container["name"] in ("extender", "controller"):
                secrets = tuple(spec.get("imagePullSecrets") or ())
                policy = str(container.get("imagePullPolicy", "IfNotPresent"))
                return Image(str(container["image"]), policy, secrets)
    return None


def pod(
    name: str, namespace: str, key: str, image: Image, place: tuple[Mapping[str, str], list[Any]]
) -> Manifest:
    """A probe, fit for Pod Security "restricted"; ``place``: node selector and tolerations."""
    selector, tolerations = place
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {
                labels.MANAGED_BY: labels.MANAGED_BY_VALUE,
                labels.ROLE: labels.ROLE_PROBE,
            },
        },
        "spec": {
            "nodeSelector": dict(selector),
            "tolerations": tolerations,
            "restartPolicy": "Never",
            "activeDeadlineSeconds": DEADLINE,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "imagePullSecrets": [dict(each) for each in image.secrets],
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "runAsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [_container(name, key, image)],
        },
    }


def _container(name: str, key: str, image: Image) -> Manifest:
    return {
        "name": "probe",
        "image": image.name,
        "imagePullPolicy": image.policy,
        "args": ["probe"],
        "env": [{"name": NAME, "value": name}, {"name": KEY, "value": key}],
        "ports": [{"containerPort": labels.PORT_PEER}, {"containerPort": labels.PORT_STATUS}],
        "readinessProbe": {
            "httpGet": {"path": "/healthz", "port": labels.PORT_STATUS},
            "periodSeconds": 1,
        },
        "resources": {
            "requests": {"cpu": "10m", "memory": "48Mi"},
            "limits": {"memory": "128Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def tolerations(nodes: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What it takes to run on any of the nodes, as far as somebody tainted them on purpose."""
    taints = {
        (taint["key"], taint["effect"])
        for node in nodes
        for taint in (node.get("spec") or {}).get("taints") or ()
        if not taint["key"].startswith(_UNTOLERATED)
    }
    return [{"key": k, "operator": "Exists", "effect": e} for k, e in sorted(taints)]


def question(key: str, target: Placed) -> str:
    """The path and query by which a probe is asked to connect to another."""
    return f"{key}/connect?" + urlencode({"address": target.address, "port": labels.PORT_PEER})


def address_of(manifest: Mapping[str, Any]) -> str:
    """A pod's IP, of several the IPv4 one; '' while it is not ready."""
    status = manifest.get("status") or {}
    ready = {c["type"]: c["status"] for c in status.get("conditions") or ()}
    if status.get("phase") != "Running" or ready.get("Ready", "True") != "True":
        return ""
    first = str(status.get("podIP", ""))
    every = [str(each.get("ip", "")) for each in status.get("podIPs") or ()]
    return next((ip for ip in (first, *every) if "." in ip), first)


def trouble(manifest: Mapping[str, Any]) -> str:
    """Why a probe does not run, in Kubernetes's own words."""
    status = manifest.get("status") or {}
    for each in status.get("containerStatuses") or ():
        state = each.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
        if ended:
            code = ended.get("exitCode")
            return (
                f"it ended with {code}: the image there may be older than this program and know no"
                " probes; upgrade the chart"
            )
        if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            return f"{waiting['reason']}: {waiting.get('message', '')}".rstrip(": ")
    conditions = {c["type"]: c for c in status.get("conditions") or ()}
    scheduled = conditions.get("PodScheduled") or {}
    if scheduled.get("status") == "False":
        return str(scheduled.get("message") or scheduled.get("reason") or "it is not scheduled")
    return f"it is {status.get('phase', 'Pending')}"


def has_ended(manifest: Mapping[str, Any]) -> bool:
    """Whether waiting for it is in vain."""
    return (manifest.get("status") or {}).get("phase") in ("Failed", "Succeeded")


def is_stale(manifest: Mapping[str, Any], now: Seconds) -> bool:
    """Whether whoever started a probe is gone for sure."""
    made = manifest["metadata"].get("creationTimestamp", "")
    return bool(made) and now - datetime.fromisoformat(made).timestamp() > 2 * DEADLINE


def outside(placed: Placed, cidrs: Sequence[str]) -> list[Finding]:
    """Whether a probe's own address shows that the pod networks are not the known ones."""
    if not (placed.address and cidrs and networks.outside({"": placed.address}, cidrs)):
        return []
    known = ", ".join(cidrs)
    return [
        findings.error(
            placed.data_center,
            f"a pod there was given {placed.address}, outside the pod networks {known}: sidecars"
            " would not carry what goes there",
            "give the networks that the CNI takes addresses from: geotrain join --pod-cidr CIDR",
        )
    ]


def judge(one: Placed, other: Placed, there: Answer | None, back: Answer | None) -> list[Finding]:
    """A pair of data centres: ``there`` from ``one`` to ``other``, ``back`` the other way.

    None: nobody could be asked.
    """
    subject = f"{one.data_center} <-> {other.data_center}"
    for each in (one, other):
        if each.fault:
            message = f"not tried: the probe in {each.data_center} does not run: {each.fault}"
            return [findings.warning(subject, message)]
    ways = ((one, other, there, back), (other, one, back, there))
    return [_way(subject, *way) for way in ways]


def _way(
    subject: str, source: Placed, target: Placed, answer: Answer | None, back: Answer | None
) -> Finding:
    way = f"pods of {source.data_center} to pods of {target.data_center}"
    if answer is None:
        return findings.warning(
            subject,
            f"{way}: not tried, because the API server of {source.data_center} does not reach pods",
            f"let it connect to port {labels.PORT_STATUS} of pods: the controller asks sidecars so",
        )
    if answer.reached(target):
        return findings.ok(subject, f"{way}: connected")
    other_works = back is not None and back.reached(source)
    cause = _cause(source.data_center, target.data_center, answer, other_works)
    place = f"{source.address} to {target.address}:{labels.PORT_PEER}"
    if not answer.fault:
        message = f"{way}: {answer.name or 'somebody else'} answered in its place ({place})"
    else:
        message = f"{way}: no connection ({place}: {answer.fault}, {answer.said})"
    return findings.error(subject, message, cause)


def _cause(source: str, target: str, answer: Answer, other_works: bool) -> str:
    """The likely cause. One way that works proves routes for both, since TCP needs answers."""
    if not answer.fault:
        return "the pod networks overlap, or a load balancer stands between them"
    if answer.fault == "unreachable":
        return f"the nodes of {source} have no route to the pod network of {target}"
    if other_works:
        return (
            "routes exist, since the other way works: a NetworkPolicy, security group or firewall"
            f" forbids this way, on leaving {source} or on entering {target}"
        )
    if answer.fault == "refused":
        return (
            f"something rejects it: a firewall or NetworkPolicy of {target}, or another machine"
            " with that address"
        )
    return (
        f"no route from the pod network of {source} to that of {target} or back, or a firewall"
        " drops it in silence"
    )
