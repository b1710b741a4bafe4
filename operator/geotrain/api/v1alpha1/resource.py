"""What all kinds share: metadata, conditions, references, pod templates."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ValidationError
from pydantic_core import ErrorDetails

from geotrain.api.labels import API_VERSION
from geotrain.api.v1alpha1.fields import (
    INT_OR_STRING,
    MESSAGES,
    ObjectName,
    OpenModel,
    SpecModel,
    StatusModel,
)
from geotrain.errors import InputError


class Metadata(StatusModel):
    """The part of metav1.ObjectMeta that geotrain reads."""

    name: str
    """Name of the object."""
    namespace: str = ""
    """Namespace, empty for a cluster-scoped kind."""
    uid: str = ""
    """Identity: changes when an object is deleted and made again."""
    generation: int = 0
    """Counts changes of the spec."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Labels."""
    annotations: dict[str, str] = Field(default_factory=dict)
    """Annotations."""
    creation_timestamp: datetime | None = None
    """When the object was made."""
    deletion_timestamp: datetime | None = None
    """When deletion was asked for; absent while the object is to stay."""


class StatusCondition(StatusModel):
    """One aspect of the object's state (metav1.Condition)."""

    type: str = Field(min_length=1, max_length=316)
    """What is observed, for example Planned."""
    status: Literal["True", "False", "Unknown"]
    """True, False, or Unknown where geotrain cannot tell."""
    reason: str = Field(min_length=1, max_length=1024)
    """One CamelCase word for programs; docs/reference/reasons.md lists them all."""
    message: str = Field(default="", max_length=32768)
    """A sentence for people: what happened and what would help."""
    last_transition_time: datetime
    """When status last changed."""
    observed_generation: int | None = None
    """The generation of the spec that this was observed for."""


Conditions = Annotated[
    tuple[StatusCondition, ...],
    Field(
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        }
    ),
]


class Status(StatusModel):
    """What every kind's status begins with."""

    observed_generation: int | None = None
    """The generation of the spec that this status describes; older than metadata.generation
    while geotrain has not caught up."""
    conditions: Conditions = ()
    """The latest observations, one a type."""

    def condition(self, kind: str) -> StatusCondition | None:
        """The condition of that type, if there is one."""
        return next((c for c in self.conditions if c.type == kind), None)


class NameRef(SpecModel):
    """An object in the same namespace."""

    name: ObjectName
    """Name of the object, in the same namespace."""


class TemplateMetadata(SpecModel):
    """Labels and annotations that every pod gets besides geotrain's own."""

    labels: dict[str, str] = Field(default_factory=dict)
    """Labels added to every pod; those of geotrain.io win."""
    annotations: dict[str, str] = Field(default_factory=dict)
    """Annotations added to every pod."""


Amount = Annotated[int | str, Field(json_schema_extra={INT_OR_STRING: True})]
"""A Kubernetes quantity: a whole number, or text like 500m or 64Gi."""
Amounts = Annotated[dict[str, Amount], Field(max_length=32)]
"""Quantities by resource."""


class ContainerResources(OpenModel):
    """What a container gets (core/v1 ResourceRequirements)."""

    limits: Amounts | None = None
    """Most of each resource; GPUs and other devices are given as limits."""
    requests: Amounts | None = None
    """What is set aside of each resource; absent: the limits."""


class Container(OpenModel):
    """A container (core/v1 Container): every field of Kubernetes is allowed."""

    name: str = Field(min_length=1, max_length=63)
    """Name of the container, unique in the pod."""
    image: str = Field(min_length=1)
    """Image that the nodes can pull."""
    resources: ContainerResources | None = None
    """What the container gets of its node."""


class TemplatePodSpec(OpenModel):
    """A pod (core/v1 PodSpec): every field of Kubernetes is allowed.

    It stays within Pod Security "baseline". geotrain sets the scheduler, priority, node selector of
    the data centre, scheduling gate, host name and restart policy; what it sets cannot be set here.
    """

    containers: tuple[Container, ...] = Field(min_length=1, max_length=32)
    """The pod's containers; the first one is the one that geotrain gives its environment."""


class PodTemplate(SpecModel):
    """What a pod looks like (core/v1 PodTemplateSpec)."""

    metadata: TemplateMetadata = TemplateMetadata()
    """Labels and annotations for every pod."""
    spec: TemplatePodSpec
    """The pod as in core/v1 PodSpec."""

    def to_manifest(self) -> dict[str, Any]:
        """The template as the user wrote it, for building pods."""
        return self.model_dump(by_alias=True, mode="json", exclude_none=True)


class Resource(StatusModel):
    """A custom resource as it comes from the API server or a file.

    The class variables say how the CRD is made; ``crd`` reads them.
    """

    PLURAL: ClassVar[str]
    SHORT: ClassVar[str]
    NAMESPACED: ClassVar[bool] = True
    COLUMNS: ClassVar[tuple["Column", ...]] = ()
    RULES: ClassVar[tuple[dict[str, str], ...]] = ()

    metadata: Metadata
    """The object's metadata."""

    @property
    def name(self) -> str:
        """Name of the object."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """Namespace of the object, empty for a cluster-scoped kind."""
        return self.metadata.namespace

    @classmethod
    def kind(cls) -> str:
        """The kind, as in a manifest."""
        return cls.__name__

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> Self:
        """Read an object. Raises InputError that names every wrong field."""
        problem = _identity_problem(manifest, cls.__name__)
        if problem:
            raise InputError(problem)
        try:
            return cls.model_validate(dict(manifest))
        except ValidationError as error:
            raise InputError(f"{cls.__name__}: {explain(error)}") from error


class Column(SpecModel):
    """A column of ``kubectl get``. ``wide`` columns only show with ``-o wide``."""

    name: str
    """Head of the column."""
    path: str
    """JSONPath below the object, for example .spec.capacity."""
    type: Literal["string", "integer", "number", "boolean", "date"] = "string"
    """How kubectl prints it."""
    description: str
    """What it shows."""
    wide: bool = False
    """Only with -o wide."""


def explain(error: ValidationError) -> str:
    """All faults of a pydantic error as one line, each with the field's path."""
    return "; ".join(f"{_path(e['loc'])}: {_sentence(e)}" for e in error.errors())


def _sentence(error: ErrorDetails) -> str:
    if error["type"] == "string_type":
        return "write text, in quotes where YAML would read a number"
    pattern = error.get("ctx", {}).get("pattern")
    return MESSAGES.get(str(pattern), error["msg"].removeprefix("Value error, "))


def _path(location: tuple[int | str, ...]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return text.removeprefix(".") or "the object"


def _identity_problem(manifest: Mapping[str, Any], kind: str) -> str:
    if not isinstance(manifest, Mapping):
        return f"{kind}: a mapping is expected, not {type(manifest).__name__}"
    found = manifest.get("apiVersion"), manifest.get("kind")
    if found not in ((API_VERSION, kind), (None, None)):
        return f"expected {API_VERSION} {kind}, found {found[0]} {found[1]}"
    return ""


def ready_columns(*types: str) -> tuple[Column, ...]:
    """A column for the status of each condition type."""
    return tuple(
        Column(
            name=kind,
            path=f'.status.conditions[?(@.type=="{kind}")].status',
            description=f"Status of the condition {kind}",
        )
        for kind in types
    )


def reason_column(name: str, kind: str) -> Column:
    """The reason of a condition, with -o wide."""
    return Column(
        name=name,
        path=f'.status.conditions[?(@.type=="{kind}")].reason',
        description=f"Reason of the condition {kind}",
        wide=True,
    )


def message_column(kind: str = "") -> Column:
    """The message of a condition, or of the first that is False, with -o wide."""
    chosen = f'@.type=="{kind}"' if kind else '@.status=="False"'
    return Column(
        name="Why",
        path=f".status.conditions[?({chosen})].message",
        description=f"Message of the condition {kind}" if kind else "What is wrong",
        wide=True,
    )


AGE = Column(
    name="Age", path=".metadata.creationTimestamp", type="date", description="Time since creation"
)
