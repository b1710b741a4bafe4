"""Looks at clusters for ``join`` and ``doctor``: facts that pure modules judge."""

from collections.abc import Mapping
from typing import Any, Final

from geotrain.adapters.cluster import HttpCluster
from geotrain.adapters.credentials import from_document, parse
from geotrain.api import labels
from geotrain.api.objects import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PODS,
    RULES_REVIEWS,
    SECRETS,
    Object,
)
from geotrain.api.v1alpha1 import DataCenter
from geotrain.api.v1alpha1.data_center import SecretKeyRef
from geotrain.cli import membership, probes, sites
from geotrain.cli.probes import Image
from geotrain.cli.sites import Site
from geotrain.errors import ClusterError, InputError, NotFound
from geotrain.roles.controller import renewal
from geotrain.roles.controller.renewal import Login

_VERSION: Final = "app.kubernetes.io/version"


async def uid(cluster: HttpCluster) -> str:
    """The cluster's identity: the UID of its namespace kube-system."""
    found = await cluster.get(NAMESPACES, "", "kube-system")
    return str(found["metadata"]["uid"])


async def mark(cluster: HttpCluster, namespace: str) -> str:
    """The hub that a member belongs to, '' for none."""
    try:
        found = await cluster.get(CONFIG_MAPS, namespace, membership.MARK)
    except NotFound:
        return ""
    return str((found.get("data") or {}).get(membership.HUB_KEY, ""))


async def deployment(cluster: HttpCluster, namespace: str, name: str) -> Object | None:
    """A Deployment of the chart, None where it is not installed."""
    try:
        return await cluster.get(DEPLOYMENTS, namespace, name)
    except NotFound:
        return None


def version_of(found: Object | None) -> str:
    """The version of geotrain that a Deployment of the chart is of, '' without one."""
    return "" if found is None else str((found["metadata"].get("labels") or {}).get(_VERSION, ""))


async def image(cluster: HttpCluster, namespace: str) -> Image | None:
    """Geotrain's image as the chart installed it in a cluster."""
    names = (labels.SCHEDULER_NAME, labels.CONTROLLER_NAME)
    found = [await deployment(cluster, namespace, name) for name in names]
    return probes.image_of(each for each in found if each is not None)


async def site(cluster: HttpCluster, center: DataCenter, namespace: str, *, account: bool) -> Site:
    """What is to be seen of a data centre; with ``account`` also what our own account may do."""
    selector = node_selector(center)
    nodes = sites.owned(await cluster.list(NODES), selector)
    return Site(
        name=center.name,
        kubernetes=await cluster.version(),
        chart=version_of(await deployment(cluster, namespace, labels.SCHEDULER_NAME)),
        nodes=nodes,
        gpu_resource=center.spec.gpu_resource,
        selector=selector,
        declared=center.spec.network.pod_cidrs,
        rules=await _rules(cluster, namespace) if account else None,
        ahead=cluster.clock_skew,
        addresses=sites.pod_addresses(await cluster.list(PODS), nodes),
        uid=await uid(cluster),
    )


def node_selector(center: DataCenter) -> Mapping[str, str]:
    """The labels of a data centre's nodes."""
    return center.spec.node_selector or {labels.DATA_CENTER: center.name}


async def _rules(cluster: HttpCluster, namespace: str) -> tuple[dict[str, Any], ...]:
    review = {
        "apiVersion": RULES_REVIEWS.api_version,
        "kind": RULES_REVIEWS.kind,
        "spec": {"namespace": namespace},
    }
    answer = await cluster.create(RULES_REVIEWS, review)
    return tuple(answer["status"].get("resourceRules") or ())


async def login(hub: HttpCluster, ref: SecretKeyRef) -> Login:
    """How the controller logs into a member. Raises InputError that says what is missing."""
    place = f"Secret {ref.namespace}/{ref.name} on the hub"
    try:
        return renewal.read(await hub.get(SECRETS, ref.namespace, ref.name), ref.key)
    except ClusterError as error:
        raise InputError(f"{place} cannot be read: {error}") from error
    except (KeyError, ValueError) as error:
        raise InputError(f"{place} holds no kubeconfig under the key {ref.key!r}") from error


async def member(hub: HttpCluster, ref: SecretKeyRef | None) -> HttpCluster:
    """A member's API as the controller uses it; to be closed. Raises InputError as ``login``."""
    assert ref is not None, "the hub itself is open already"
    found = await login(hub, ref)
    return HttpCluster(from_document(parse(found.kubeconfig)))
