"""What ``geotrain join`` writes and judges. Pure: facts in, manifests and sentences out."""

import base64
import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from geotrain.api import labels
from geotrain.api.v1alpha1.fields import DNS_LABEL_PATTERN
from geotrain.errors import InputError

TOKEN_SECRET: Final = "geotrain-member-token"  # noqa: S105 (a name; the chart makes the Secret)
KUBECONFIG_KEY: Final = "kubeconfig"
SYSTEM_NAMESPACE: Final = "geotrain-system"
INSTALL_MEMBER: Final = (
    "helm install geotrain charts/geotrain --namespace {namespace} --create-namespace"
    " --set member.enabled=true"
)
INSTALL_HUB: Final = (
    "helm install geotrain charts/geotrain --namespace {namespace} --create-namespace"
    " --set hub.enabled=true"
)

Manifest = dict[str, Any]


def require_name(name: str) -> None:
    """Raises InputError where a data centre cannot have the name."""
    if not re.fullmatch(DNS_LABEL_PATTERN, name) or len(name) > 63:
        raise InputError(
            f"{name!r} cannot be the name of a data centre, because it becomes a label:"
            " at most 63 lower-case letters, digits and '-'"
        )


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user asked for. ``selector`` of nothing: nodes labelled with the name."""

    name: str
    namespace: str = SYSTEM_NAMESPACE
    local: bool = False
    gpu_resource: str = "nvidia.com/gpu"
    accelerator: str = ""
    cost_per_gpu_hour: float = 0.0
    selector: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_name(self.name)

    @property
    def node_labels(self) -> dict[str, str]:
        """The labels by which the nodes are found."""
        return dict(self.selector) or {labels.DATA_CENTER: self.name}

    @property
    def secret_name(self) -> str:
        """The Secret on the hub."""
        return f"{self.name}-kubeconfig"


@dataclass(frozen=True, slots=True)
class Found:
    """What the member has."""

    nodes: int
    gpus: int
    pod_cidrs: tuple[str, ...]


def selector(entries: Sequence[str]) -> dict[str, str]:
    """Read ``key=value`` options. Raises InputError for one that is not."""
    pairs = [entry.partition("=") for entry in entries]
    for (key, equals, value), entry in zip(pairs, entries, strict=True):
        if not (key and equals and value):
            raise InputError(f"--node-selector {entry!r}: write KEY=VALUE")
    return {key: value for key, _, value in pairs}


def found(nodes: Sequence[Mapping[str, Any]], gpu_resource: str) -> Found:
    """Count a data centre's nodes."""
    allocatable = (n.get("status", {}).get("allocatable", {}) for n in nodes)
    cidrs = {c for n in nodes for c in n.get("spec", {}).get("podCIDRs") or ()}
    return Found(len(nodes), sum(int(a.get(gpu_resource, 0)) for a in allocatable), _sorted(cidrs))


def advice(wishes: Wishes, member: Found, others: Mapping[str, Sequence[str]]) -> list[str]:
    """What stands in the way of a job, a sentence each. ``others``: pod networks by name."""
    wanted = ",".join(f"{k}={v}" for k, v in sorted(wishes.node_labels.items()))
    sentences = []
    if not member.nodes:
        sentences.append(
            f"no node has {wanted}; label those of this data centre:"
            f" kubectl label nodes NODE {labels.DATA_CENTER}={wishes.name}"
        )
    elif not member.gpus:
        sentences.append(f"no node with {wanted} offers {wishes.gpu_resource}")
    for other, cidrs in sorted(others.items()):
        for mine, theirs in overlaps(member.pod_cidrs, cidrs):
            sentences.append(
                f"pod network {mine} overlaps {theirs} of {other}: pods could not reach each"
                " other; one of the clusters needs another pod network"
            )
    return sentences


def overlaps(ours: Sequence[str], theirs: Sequence[str]) -> list[tuple[str, str]]:
    """The pairs of networks that share addresses."""
    return [(a, b) for a in ours for b in theirs if _overlap(a, b)]


def kubeconfig(server: str, authority: str, token: str, tls_server_name: str = "") -> Manifest:
    """A self-contained kubeconfig: an address, a CA (base64, '' for the system's) and a token."""
    cluster = {"server": server}
    if authority:
        cluster["certificate-authority-data"] = authority
    if tls_server_name:
        cluster["tls-server-name"] = tls_server_name
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "member",
        "clusters": [{"name": "member", "cluster": cluster}],
        "users": [{"name": "geotrain", "user": {"token": token}}],
        "contexts": [{"name": "member", "context": {"cluster": "member", "user": "geotrain"}}],
    }


def token_of(secret: Mapping[str, Any]) -> str:
    """The token in a service account's Secret, '' while the cluster has not written it."""
    data = secret.get("data") or {}
    return base64.b64decode(data.get("token", "")).decode()


def authority_of(secret: Mapping[str, Any]) -> str:
    """The cluster's CA in base64, '' where the Secret holds none."""
    return str((secret.get("data") or {}).get("ca.crt", ""))


def secret_manifest(wishes: Wishes, text: str) -> Manifest:
    """The Secret on the hub that holds the member's kubeconfig."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": wishes.secret_name,
            "namespace": wishes.namespace,
            "labels": {labels.MANAGED_BY: labels.MANAGED_BY_VALUE},
        },
        "type": "Opaque",
        "data": {KUBECONFIG_KEY: base64.b64encode(text.encode()).decode()},
    }


def data_center_manifest(wishes: Wishes) -> Manifest:
    """The DataCenter on the hub."""
    reference = {
        "namespace": wishes.namespace,
        "name": wishes.secret_name,
        "key": KUBECONFIG_KEY,
    }
    optional = {
        "accelerator": wishes.accelerator,
        "costPerGpuHour": wishes.cost_per_gpu_hour,
        "nodeSelector": dict(wishes.selector),
    }
    return {
        "apiVersion": labels.API_VERSION,
        "kind": "DataCenter",
        "metadata": {"name": wishes.name},
        "spec": {
            "cluster": {"local": True} if wishes.local else {"kubeconfigSecretRef": reference},
            "gpuResource": wishes.gpu_resource,
            **{key: value for key, value in optional.items() if value},
        },
    }


def _sorted(cidrs: set[str]) -> tuple[str, ...]:
    return tuple(sorted(cidrs, key=lambda c: (":" in c, ipaddress.ip_network(c))))


def _overlap(one: str, other: str) -> bool:
    first, second = ipaddress.ip_network(one), ipaddress.ip_network(other)
    if first.version != second.version:
        return False
    return first.network_address in second or second.network_address in first
