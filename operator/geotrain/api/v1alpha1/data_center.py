"""DataCenter: a Kubernetes cluster, or the labelled part of one, that offers GPUs."""

from datetime import datetime
from typing import ClassVar, Final, Self

from pydantic import ConfigDict, Field, model_validator

from geotrain.api.v1alpha1.fields import (
    Count,
    DataCenterName,
    Duration,
    Flag,
    Price,
    Rate,
    ResourceName,
    SpecModel,
    StatusModel,
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
from geotrain.units import format_duration, format_rate

_ONE_WAY: Final = "give exactly one of kubeconfigSecretRef (a member) or local: true (the hub)"


class SecretKeyRef(SpecModel):
    """A key of a Secret on the hub."""

    namespace: DataCenterName
    """Namespace of the Secret on the hub; geotrain join uses geotrain-system."""
    name: str = Field(min_length=1, max_length=253)
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
    """What holds between pods of the data centre, on one node or on two.

    Replicas all-reduce gradients over it, and neighbouring stages exchange activations. A pod is a
    rank with its tensor-parallel group, whose own exchanges stay inside the pod.
    """

    pod_rate: Rate = format_rate(USUAL_LAN.rate)
    """What one pod reaches of another in one direction, in bit/s (default 100G)."""
    latency: Duration = format_duration(USUAL_LAN.latency)
    """One way from pod to pod, for example 20us (the default)."""


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
    """GPU model, for example H200. Used to estimate layer times of jobs without a profile."""
    network: DataCenterNetwork = DataCenterNetwork()
    """The network between pods of this data centre; plans count with it."""
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
    """Pod networks of the nodes; they must be routable from the other data centres."""
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
