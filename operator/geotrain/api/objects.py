"""Kubernetes objects as they travel: where each kind lives in the API, and changes of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from geotrain.api.labels import API_VERSION

Object: TypeAlias = dict[str, Any]
"""A Kubernetes object as in JSON."""

Patch: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A JSON merge patch (RFC 7386) or, as a sequence, a JSON patch (RFC 6902)."""

ChangeType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED", "SYNCED"]


@dataclass(frozen=True, slots=True)
class ApiResource:
    """A kind and the plural by which the API's paths name it."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def root(self) -> str:
        """The path of the API group: ``/api/v1`` or ``/apis/GROUP/VERSION``."""
        return f"/{'apis' if '/' in self.api_version else 'api'}/{self.api_version}"

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of the collection, of one object or of its subresource."""
        scope = ["namespaces", namespace] if self.namespaced and namespace else []
        parts = [self.root, *scope, self.plural, name, subresource]
        return "/".join(part for part in parts if part)

    def __str__(self) -> str:
        return self.plural


@dataclass(frozen=True, slots=True)
class Change:
    """A change seen by a watch.

    ``SYNCED`` follows a list: every object that exists has been given as ``ADDED`` and is named in
    ``places`` (namespace and name), so whatever else was known is gone. ``object`` is then empty.
    """

    type: ChangeType
    object: Object
    places: frozenset[tuple[str, str]] = frozenset()


NAMESPACES: Final = ApiResource("v1", "Namespace", "namespaces", namespaced=False)
SERVICE_ACCOUNTS: Final = ApiResource("v1", "ServiceAccount", "serviceaccounts")
ROLES: Final = ApiResource("rbac.authorization.k8s.io/v1", "Role", "roles")
ROLE_BINDINGS: Final = ApiResource("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
CRDS: Final = ApiResource(
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    namespaced=False,
)
RULES_REVIEWS: Final = ApiResource(
    "authorization.k8s.io/v1",
    "SelfSubjectRulesReview",
    "selfsubjectrulesreviews",
    namespaced=False,
)
NODES: Final = ApiResource("v1", "Node", "nodes", namespaced=False)
PODS: Final = ApiResource("v1", "Pod", "pods")
SERVICES: Final = ApiResource("v1", "Service", "services")
SECRETS: Final = ApiResource("v1", "Secret", "secrets")
CONFIG_MAPS: Final = ApiResource("v1", "ConfigMap", "configmaps")
EVENTS: Final = ApiResource("v1", "Event", "events")
DEPLOYMENTS: Final = ApiResource("apps/v1", "Deployment", "deployments")
ENDPOINT_SLICES: Final = ApiResource("discovery.k8s.io/v1", "EndpointSlice", "endpointslices")
NETWORK_POLICIES: Final = ApiResource("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
PRIORITY_CLASSES: Final = ApiResource(
    "scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", namespaced=False
)
CLUSTER_ROLE_BINDINGS: Final = ApiResource(
    "rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False
)
DEFINITIONS: Final = ApiResource(
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    namespaced=False,
)

DATA_CENTERS: Final = ApiResource(API_VERSION, "DataCenter", "datacenters", namespaced=False)
WAN_LINKS: Final = ApiResource(API_VERSION, "WanLink", "wanlinks", namespaced=False)
TRAINING_JOBS: Final = ApiResource(API_VERSION, "GeoTrainingJob", "geotrainingjobs")
PREFILL_POOLS: Final = ApiResource(API_VERSION, "PrefillPool", "prefillpools")
BANDWIDTH_SCHEDULES: Final = ApiResource(API_VERSION, "BandwidthSchedule", "bandwidthschedules")

_KNOWN: Final = {
    (each.api_version, each.kind): each
    for each in (
        *(NAMESPACES, NODES, PODS, SERVICES, SECRETS, CONFIG_MAPS, EVENTS, DEPLOYMENTS),
        *(ENDPOINT_SLICES, NETWORK_POLICIES, PRIORITY_CLASSES),
        *(SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS),
        *(DATA_CENTERS, WAN_LINKS, TRAINING_JOBS, PREFILL_POOLS, BANDWIDTH_SCHEDULES),
    )
}


def resource_of(api_version: str, kind: str) -> ApiResource:
    """Where objects of a kind live. Raises KeyError for a kind that geotrain never handles."""
    return _KNOWN[(api_version, kind)]
