"""What differs in the pods of one data centre: spec.overrides of jobs and pools."""

from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field

from geotrain.api.v1alpha1.fields import DataCenterName, ObjectName, OpenModel, SpecModel, rule
from geotrain.api.v1alpha1.resource import ContainerResources

_KEYED: Final = {"x-kubernetes-list-type": "map"}


class _Entry(OpenModel):
    """An entry of a list that Kubernetes merges by name; every field of Kubernetes is allowed."""

    name: str = Field(min_length=1, max_length=253)
    """Name of the entry: one of the template's is replaced, a new one is added."""


class EnvironmentEntry(_Entry):
    """A variable (core/v1 EnvVar): every field of Kubernetes is allowed."""


class VolumeEntry(_Entry):
    """A volume (core/v1 Volume): every field of Kubernetes is allowed."""


class SecretEntry(SpecModel):
    """A Secret in the pod's namespace with credentials of a registry."""

    name: ObjectName
    """Name of the Secret."""


class MountEntry(OpenModel):
    """Where a volume is mounted (core/v1 VolumeMount): every field of Kubernetes is allowed."""

    name: str = Field(min_length=1, max_length=253)
    """Name of the volume."""
    mount_path: str = Field(min_length=1, max_length=4096)
    """Where it is mounted: one of the template's at the same place is replaced."""


class TolerationEntry(OpenModel):
    """A taint that is tolerated (core/v1 Toleration)."""


class _InContainer(SpecModel):
    """What can differ in a container."""

    image: str | None = Field(default=None, min_length=1, max_length=1024)
    """Image; absent: the template's."""
    resources: ContainerResources | None = None
    """Resources, in place of all of the template's for this container: a merged one would still
    ask for the other kind of GPU."""
    env: tuple[EnvironmentEntry, ...] = Field(
        default=(),
        max_length=256,
        json_schema_extra={**_KEYED, "x-kubernetes-list-map-keys": ["name"]},
    )
    """Variables, merged with the template's by name."""
    volume_mounts: tuple[MountEntry, ...] = Field(
        default=(),
        max_length=64,
        json_schema_extra={**_KEYED, "x-kubernetes-list-map-keys": ["mountPath"]},
    )
    """Mounts, merged with the template's by mountPath."""


class ContainerOverride(_InContainer):
    """What differs in a container other than the first."""

    name: str = Field(min_length=1, max_length=63)
    """Name of the container, among the template's containers and initContainers but the first."""


class TemplateOverride(_InContainer):
    """What differs from the template in one data centre.

    image, resources, env and volumeMounts are those of the template's first container.
    """

    data_center: DataCenterName
    """Data centre whose pods differ."""
    containers: tuple[ContainerOverride, ...] = Field(
        default=(),
        max_length=32,
        json_schema_extra={**_KEYED, "x-kubernetes-list-map-keys": ["name"]},
    )
    """What differs in the other containers, by name."""
    volumes: tuple[VolumeEntry, ...] = Field(
        default=(),
        max_length=64,
        json_schema_extra={**_KEYED, "x-kubernetes-list-map-keys": ["name"]},
    )
    """Volumes, merged with the template's by name."""
    image_pull_secrets: tuple[SecretEntry, ...] = Field(
        default=(),
        max_length=32,
        json_schema_extra={**_KEYED, "x-kubernetes-list-map-keys": ["name"]},
    )
    """Credentials of registries, added to the template's."""
    tolerations: tuple[TolerationEntry, ...] = Field(default=(), max_length=64)
    """Taints that are tolerated besides the template's."""
    node_selector: dict[str, str] = Field(default_factory=dict, max_length=32)
    """Labels of nodes, merged with the template's by key."""
    annotations: dict[str, str] = Field(default_factory=dict, max_length=64)
    """Annotations of pods, merged with the template's by key; for example secondary networks."""
    runtime_class_name: str | None = Field(default=None, min_length=1, max_length=253)
    """RuntimeClass; absent: the template's."""

    def to_manifest(self) -> dict[str, Any]:
        """What differs, as the user wrote it, without the data centre's name."""
        written = self.model_dump(by_alias=True, mode="json", exclude_none=True)
        written["containers"] = [_filled(each) for each in written["containers"]]
        return {key: value for key, value in _filled(written).items() if key != "dataCenter"}


def _filled(written: dict[str, Any]) -> dict[str, Any]:
    """What says something: an empty list or mapping overrides nothing."""
    return {key: value for key, value in written.items() if value}


def _each_once(overrides: tuple[TemplateOverride, ...]) -> tuple[TemplateOverride, ...]:
    if len({each.data_center for each in overrides}) < len(overrides):
        raise ValueError("a data centre may appear only once in overrides; put its fields together")
    return overrides


Overrides = Annotated[
    tuple[TemplateOverride, ...],
    Field(
        max_length=64,
        json_schema_extra={**_KEYED, "x-kubernetes-list-map-keys": ["dataCenter"]},
    ),
    AfterValidator(_each_once),  # after the length, which it would otherwise hide from the schema
]

_LIMITS: Final = "has(c.resources) && has(c.resources.limits)"
_OVERRIDDEN: Final = "has(self.overrides) && self.overrides.exists(o, has(o.resources))"

GPU_RULES: Final = (
    rule(
        f"{_OVERRIDDEN} || self.template.spec.containers.exists(c, {_LIMITS}"
        " && c.resources.limits.exists(k, k.contains('/')))",
        "no container asks for GPUs: give the template's first container a limit of its GPU"
        " resource, like nvidia.com/gpu, equal to parallelism.tensor",
    ),
    rule(
        f"{_OVERRIDDEN} || self.template.spec.containers.all(c, !({_LIMITS})"
        " || c.resources.limits.all(k, !k.endsWith('/gpu') || int(c.resources.limits[k]) == 0"
        " || (c.name == self.template.spec.containers[0].name"
        " && int(c.resources.limits[k]) == self.parallelism.tensor)))",
        "parallelism.tensor must equal the GPU limit of the template's first container, the only"
        " one that may ask for GPUs",
    ),
)
"""What admission can see of the GPUs of a pod, without knowing how a data centre calls them."""
