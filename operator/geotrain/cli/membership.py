"""What ``geotrain join`` asks for and writes, and whose a cluster is. Pure."""

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from geotrain.api import labels, networks, tokens
from geotrain.api.v1alpha1 import DataCenter
from geotrain.api.v1alpha1.fields import DNS_LABEL_PATTERN
from geotrain.errors import InputError
from geotrain.units import Seconds

KUBECONFIG_KEY: Final = "kubeconfig"
SYSTEM_NAMESPACE: Final = "geotrain-system"
MARK: Final = "geotrain-membership"
"""ConfigMap in a member's geotrain namespace that names its hub."""
HUB_KEY: Final = "hubUID"
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
    pod_cidrs: tuple[str, ...] = ()
    token_lifetime: Seconds = tokens.DEFAULT_LIFETIME

    def __post_init__(self) -> None:
        require_name(self.name)

    @property
    def node_labels(self) -> dict[str, str]:
        """The labels by which the nodes are found."""
        return dict(self.selector) or {labels.DATA_CENTER: self.name}

    @property
    def secret_name(self) -> str:
        """The Secret on the hub."""
        return secret_name(self.name)


def secret_name(data_center: str) -> str:
    """The Secret on the hub that holds a member's kubeconfig."""
    return f"{data_center}-kubeconfig"


def role_name(data_center: str) -> str:
    """Role and binding on the hub that let the controller renew that Secret."""
    return f"geotrain-kubeconfig-{data_center}"


def selector(entries: Sequence[str]) -> dict[str, str]:
    """Read ``key=value`` options. Raises InputError for one that is not."""
    pairs = [entry.partition("=") for entry in entries]
    for (key, equals, value), entry in zip(pairs, entries, strict=True):
        if not (key and equals and value):
            raise InputError(f"--node-selector {entry!r}: write KEY=VALUE")
    return {key: value for key, _, value in pairs}


def pod_networks(entries: Sequence[str]) -> tuple[str, ...]:
    """Read ``--pod-cidr`` options. Raises InputError for one that is no network."""
    try:
        found = tuple(networks.check(entry) for entry in entries)
    except ValueError as error:
        raise InputError(f"--pod-cidr: {error}") from error
    pair = networks.inner_overlap(found)
    if pair is not None:
        raise InputError(f"--pod-cidr: {pair[0]} and {pair[1]} overlap; leave one of them out")
    return found


def require_same_cluster(center: DataCenter | None, uid: str, recorded: str, server: str) -> None:
    """Raises InputError where the name belongs to another cluster than the one with ``uid``."""
    if center is None or not recorded or recorded == uid:
        return
    raise InputError(
        f"{center.name} is another cluster already: its kube-system has the UID {recorded}, the one"
        f" at {server} has {uid}; choose another name, or take the old one away first:"
        f" geotrain leave {center.name}"
    )


def require_no_other_hub(marked: str, hub: str, namespace: str) -> None:
    """Raises InputError where the cluster is a member of another hub; ``marked`` is its hub."""
    if marked and marked != hub:
        raise InputError(
            f"the cluster is a member of another hub, whose kube-system has the UID {marked}; leave"
            " that one first (geotrain leave NAME --hub-context OTHER), or, where that hub is gone:"
            f" kubectl delete configmap {MARK} -n {namespace}"
        )


def mark_manifest(namespace: str, hub: str) -> Manifest:
    """What tells in the member whose it is."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": MARK,
            "namespace": namespace,
            "labels": {labels.MANAGED_BY: labels.MANAGED_BY_VALUE},
        },
        "data": {HUB_KEY: hub},
    }


def kubeconfig(cluster: Mapping[str, Any], authority: str, token: str) -> Manifest:
    """A self-contained kubeconfig: a token, and of a cluster's entry how it is reached.

    ``authority`` is the CA in base64, '' for the system's own.
    """
    kept = ("server", "tls-server-name", "proxy-url", "insecure-skip-tls-verify")
    cluster = {key: cluster[key] for key in kept if cluster.get(key)}
    if authority:
        cluster["certificate-authority-data"] = authority
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "member",
        "clusters": [{"name": "member", "cluster": cluster}],
        "users": [{"name": "geotrain", "user": {"token": token}}],
        "contexts": [{"name": "member", "context": {"cluster": "member", "user": "geotrain"}}],
    }


def secret_manifest(wishes: Wishes, text: str) -> Manifest:
    """The Secret on the hub that holds the member's kubeconfig."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": wishes.secret_name,
            "namespace": wishes.namespace,
            "labels": {labels.MANAGED_BY: labels.MANAGED_BY_VALUE},
            "annotations": {labels.TOKEN_LIFETIME: f"{wishes.token_lifetime:.0f}"},
        },
        "type": "Opaque",
        "data": {KUBECONFIG_KEY: base64.b64encode(text.encode()).decode()},
    }


def renewal_manifests(wishes: Wishes) -> tuple[Manifest, Manifest]:
    """Lets the hub's controller change this one Secret, to renew the token in it."""
    name, group = role_name(wishes.name), "rbac.authorization.k8s.io"
    meta = {
        "name": name,
        "namespace": wishes.namespace,
        "labels": {labels.MANAGED_BY: labels.MANAGED_BY_VALUE},
    }
    role = {
        "apiVersion": f"{group}/v1",
        "kind": "Role",
        "metadata": meta,
        "rules": [
            {
                "apiGroups": [""],
                "resources": ["secrets"],
                "resourceNames": [wishes.secret_name],
                "verbs": ["get", "patch"],
            }
        ],
    }
    controller = {
        "kind": "ServiceAccount",
        "name": labels.CONTROLLER_NAME,
        "namespace": wishes.namespace,
    }
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": meta,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
        "subjects": [controller],
    }
    return role, binding


def data_center_manifest(wishes: Wishes, uid: str = "") -> Manifest:
    """The DataCenter on the hub; ``uid`` is the cluster's identity."""
    reference = {
        "namespace": wishes.namespace,
        "name": wishes.secret_name,
        "key": KUBECONFIG_KEY,
    }
    optional = {
        "accelerator": wishes.accelerator,
        "costPerGpuHour": wishes.cost_per_gpu_hour,
        "nodeSelector": dict(wishes.selector),
        "network": {"podCIDRs": list(wishes.pod_cidrs)} if wishes.pod_cidrs else {},
    }
    identity = {"annotations": {labels.CLUSTER_UID: uid}} if uid else {}
    return {
        "apiVersion": labels.API_VERSION,
        "kind": "DataCenter",
        "metadata": {"name": wishes.name, **identity},
        "spec": {
            "cluster": {"local": True} if wishes.local else {"kubeconfigSecretRef": reference},
            "gpuResource": wishes.gpu_resource,
            **{key: value for key, value in optional.items() if value},
        },
    }
