"""DataCenter: a Kubernetes cluster, or the labelled part of one, that offers GPUs."""

from datetime import datetime
from typing import Annotated, ClassVar, Final, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from geotrain.api import networks
from geotrain.api.v1alpha1.fields import (
    Count,
    DataCenterName,
    Duration,
    Flag,
    ObjectName,
    Price,
    Rate,
    ResourceName,
    SpecModel,
    StatusModel,
    Whole,
    rule,
    rules,
)
from geotrain.api.v1alpha1.resource import (
    AGE,
    Column,
    Resource,
    Status,
    message_column,
    ready_columns,
)
from geotrain.model.topology import USUAL_LAN
from geotrain.units import format_duration

_ONE_WAY: Final = "give exactly one of kubeconfigSecretRef (a member) or local: true (the hub)"


_NO_NETWORK: Final = "write a network like 10.1.0.0/16 or fd00:1::/48, its host bits 0"
_INNER_OVERLAP: Final = "the networks overlap: one of them holds the other"


def _network(text: str) -> str:
    return networks.check(text)


def _apart(cidrs: tuple[str, ...]) -> tuple[str, ...]:
    pair = networks.inner_overlap(cidrs)
    if pair is not None:
        raise ValueError(f"{pair[0]} and {pair[1]} overlap: leave one of them out")
    return cidrs


PodNetwork = Annotated[
    str,
    Field(
        max_length=43,
        json_schema_extra=rules(
            rule("isCIDR(self) && cidr(self) == cidr(self).masked()", _NO_NETWORK)
        ),
    ),
    AfterValidator(_network),
]
PodNetworks = Annotated[
    tuple[PodNetwork, ...],
    Field(
        max_length=16,
        json_schema_extra=rules(
            rule(
                "self.filter(a, isCIDR(a)).all(a,"
                " self.filter(b, isCIDR(b)).exists_one(b, cidr(a).containsCIDR(cidr(b))))",
                _INNER_OVERLAP,
            )
        ),
    ),
    AfterValidator(_apart),
]


class SecretKeyRef(SpecModel):
    """A key of a Secret on the hub."""

    namespace: DataCenterName
    """Namespace of the Secret on the hub; geotrain join uses geotrain-system."""
    name: ObjectName
    """Name of the Secret."""
    key: str = Field(default="kubeconfig", min_length=1, max_length=253)
    """Key whose value is a kubeconfig (default kubeconfig). Its current context is used."""


class ClusterAccess(SpecModel):
    """How the controller reaches the cluster."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.kubeconfigSecretRef) != (has(self.local) && self.local)",
                _ONE_WAY,
            )
        )
    )

    kubeconfig_secret_ref: SecretKeyRef | None = None
    """A Secret on the hub that holds a kubeconfig of the member; geotrain join makes it."""
    local: Flag = False
    """True where the data centre is the hub itself; its own service account is used."""

    @model_validator(mode="after")
    def _is_one_way(self) -> Self:
        if (self.kubeconfig_secret_ref is None) != self.local:
            raise ValueError(_ONE_WAY)
        return self


class DataCenterNetwork(SpecModel):
    """The pods' networks, and what holds between two pods, on one node or on two.

    Replicas all-reduce gradients over them, and neighbouring stages exchange activations. A pod is
    a rank with its tensor-parallel group, whose own exchanges stay inside the pod, and its GPUs
    share what the pod reaches.
    """

    pod_rate: Rate | None = None
    """What one pod reaches of another in one direction, in bit/s (default: gpuRate times the pod's
    GPUs, or 100G where neither is given)."""
    gpu_rate: Rate | None = None
    """Rate of the adapter that each GPU has for itself, for example 400G. A pod then reaches
    podRate, but no more than its GPUs' adapters together. Absent: one adapter serves the pod."""
    node_rate: Rate | None = None
    """What one GPU reaches of another of its pod (default: by the accelerator, its NVLink or
    PCIe as measured or scaled from what was)."""
    node_gpus: Annotated[Whole, Field(ge=1, le=1024)] | None = None
    """GPUs of a node that reach each other so (default 8). Tensor groups that are wider exchange
    over podRate too."""
    latency: Duration = format_duration(USUAL_LAN.latency)
    """One way from pod to pod, for example 20us (the default)."""
    pod_cidrs: PodNetworks = Field(default=(), alias="podCIDRs")
    """Networks of the pods, IPv4 or IPv6, for clusters whose nodes do not tell theirs in
    spec.podCIDRs, as on many managed clouds. Empty (the default): those that the nodes tell.
    Sidecars know by them which traffic crosses the wide area."""


class DataCenterSpec(SpecModel):
    """Where the data centre is and what it offers."""

    cluster: ClusterAccess
    """How to reach the cluster: exactly one of kubeconfigSecretRef or local."""
    node_selector: dict[str, str] = Field(default_factory=dict, max_length=32)
    """Labels of the nodes that belong to this data centre, so that one cluster can hold several.
    Empty (the default): nodes labelled topology.geotrain.io/datacenter with this name."""
    gpu_resource: ResourceName = "nvidia.com/gpu"
    """Extended resource that counts GPUs on the nodes (default nvidia.com/gpu)."""
    accelerator: str | None = Field(default=None, min_length=1, max_length=63)
    """GPU model, for example H200, in any usual spelling, or a node's label nvidia.com/gpu.product.
    Used to estimate layer times of jobs without a profile, and refused then where it is not known
    (docs/costs.md)."""
    network: DataCenterNetwork = DataCenterNetwork()
    """The pods' networks, and what they reach; plans count with it."""
    cost_per_gpu_hour: Price = 0.0
    """Price of one GPU for one hour, in any currency that you use throughout (default 0)."""


class GpuCount(StatusModel):
    """GPUs of the data centre."""

    capacity: Count = 0
    """GPUs on all nodes."""
    allocatable: Count = 0
    """GPUs on nodes that are ready and schedulable."""
    free: Count = 0
    """Allocatable GPUs that no pod has requested."""


class DataCenterStatus(Status):
    """What the controller saw in the member."""

    gpus: GpuCount | None = None
    """GPUs, counted from nodes and pods."""
    nodes: Count | None = None
    """Nodes that belong to the data centre."""
    pod_cidrs: tuple[str, ...] = Field(default=(), alias="podCIDRs")
    """Pod networks; they must be routable from the other data centres."""
    pod_cidrs_from: str | None = Field(default=None, alias="podCIDRsFrom")
    """Where podCIDRs are known from: Spec (spec.network.podCIDRs) or Nodes (their spec.podCIDRs).
    Missing where none is known."""
    cluster_uid: str | None = Field(default=None, alias="clusterUID")
    """Which cluster it is: the UID of its namespace kube-system. A kubeconfig that leads to
    another cluster is not followed."""
    token_expiry: datetime | None = None
    """When the member's token ends that the controller logs in with; it is renewed before.
    Missing where the kubeconfig holds no token that ends."""
    kubernetes_version: str | None = None
    """Version of the member's API server."""
    last_contact: datetime | None = None
    """When the member last answered."""


class DataCenter(Resource):
    """A Kubernetes cluster, or a labelled part of one, whose GPUs jobs may use."""

    PLURAL: ClassVar = "datacenters"
    SHORT: ClassVar = "dc"
    NAMESPACED: ClassVar = False
    COLUMNS: ClassVar = (
        *ready_columns("Reachable"),
        Column(name="Agents", path='.status.conditions[?(@.type=="AgentsReady")].status',
               description="Whether scheduler and priorities are installed in the member"),
        Column(name="GPUs", path=".status.gpus.allocatable", type="integer",
               description="GPUs on ready nodes"),
        Column(name="Free", path=".status.gpus.free", type="integer",
               description="GPUs that no pod has requested"),
        Column(name="Accelerator", path=".spec.accelerator", description="GPU model"),
        Column(name="Contact", path=".status.lastContact", type="date",
               description="Time since the member last answered"),
        message_column(),
        AGE,
    )  # fmt: skip
    RULES: ClassVar = (
        rule(
            "self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')"
            " && self.metadata.name.size() <= 63",
            "the name becomes a label: at most 63 lower-case letters, digits and '-'",
        ),
    )

    spec: DataCenterSpec
    """Where the data centre is and what it offers."""
    status: DataCenterStatus = DataCenterStatus()
    """What the controller saw in the member."""
