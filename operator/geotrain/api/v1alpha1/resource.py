"""What all kinds share: metadata, conditions, references, pod templates."""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, Literal, Self, get_args

from pydantic import BaseModel, Field, ValidationError
from pydantic_core import ErrorDetails

from geotrain.api.labels import API_VERSION
from geotrain.api.v1alpha1.fields import (
    INT_OR_STRING,
    MESSAGES,
    Annotations,
    Labels,
    NamespaceName,
    ObjectName,
    OpenModel,
    SpecModel,
    StatusModel,
)
from geotrain.errors import InputError


class Metadata(StatusModel):
    """The part of metav1.ObjectMeta that geotrain reads."""

    name: ObjectName
    """Name of the object."""
    namespace: NamespaceName = ""
    """Namespace, empty for a cluster-scoped kind."""
    uid: str = ""
    """Identity: changes when an object is deleted and made again."""
    generation: int = 0
    """Counts changes of the spec."""
    labels: Labels = Field(default_factory=dict)
    """Labels."""
    annotations: Annotations = Field(default_factory=dict)
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
            return cls.model_validate(dict(manifest), by_alias=True, by_name=False)
        except ValidationError as error:
            raise InputError(f"{cls.__name__}: {explain(error, cls)}") from error


def metadata_of(manifest: Mapping[str, Any], kind: str) -> Metadata:
    """The metadata of an object of any kind, as the API server would take them.

    Raises InputError that names every wrong field.
    """
    read = {"metadata": manifest.get("metadata")}
    try:
        return _Object.model_validate(read, by_alias=True, by_name=False).metadata
    except ValidationError as error:
        raise InputError(f"{kind}: {explain(error, _Object)}") from error


class _Object(StatusModel):
    """Of an object of any kind, what all have."""

    metadata: Metadata


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


_MOST_FAULTS: Final = 8
"""Of one object that are told; whoever mends them sees the rest."""
_MOST_FIELDS: Final = 24
"""That are listed where a field has no name like any of them."""
_LONGEST_PART: Final = 63
"""Characters of one name in a field's path."""


def explain(error: ValidationError, read: type[BaseModel] | None = None) -> str:
    """The faults of a pydantic error as one line, each with the field's path.

    With ``read``, the model that was read, a field that does not exist is told with the nearest.
    """
    faults = [f"{_path(e['loc'])}: {_sentence(e, read)}" for e in _first_causes(error.errors())]
    more = len(faults) - _MOST_FAULTS
    return "; ".join(faults[:_MOST_FAULTS]) + (f"; and {more} more" if more > 0 else "")


def _first_causes(errors: Sequence[ErrorDetails]) -> Iterator[ErrorDetails]:
    """Without lists that are too short because what was in them is wrong."""
    inner = {each["loc"][: len(each["loc"]) - up] for each in errors for up in range(1, 4)}
    return (each for each in errors if each["type"] != "too_short" or each["loc"] not in inner)


def _sentence(error: ErrorDetails, read: type[BaseModel] | None) -> str:
    if error["type"] == "string_type":
        return "write text, in quotes where YAML would read a number"
    if error["type"] == "extra_forbidden":
        return _no_such_field(error["loc"], read)
    pattern = error.get("ctx", {}).get("pattern")
    return MESSAGES.get(str(pattern), error["msg"].removeprefix("Value error, "))


def _no_such_field(location: tuple[int | str, ...], read: type[BaseModel] | None) -> str:
    *parents, name = location
    known = sorted(_fields(read, parents))
    near = difflib.get_close_matches(str(name)[:_LONGEST_PART], known, n=1)
    if near:
        return f"there is no such field; did you mean {near[0]}?"
    if not known or len(known) > _MOST_FIELDS:
        return "there is no such field"
    return f"there is no such field; there is {', '.join(known)}"


def _fields(read: Any, parents: Sequence[int | str]) -> Iterable[str]:
    """The fields, as users write them, of the model that ``parents`` lead to from ``read``."""
    for part in parents:
        if isinstance(part, int):
            continue  # an item has the type that the list's field says
        fields = read.model_fields.values() if read is not None else ()
        read = next((_model(f.annotation) for f in fields if f.alias == part), None)
    return [str(field.alias) for field in read.model_fields.values()] if read is not None else []


def _model(annotation: Any) -> type[BaseModel] | None:
    """The model in ``Model | None`` or ``tuple[Model, ...]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model, get_args(annotation))), None)


def _path(location: tuple[int | str, ...]) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{_short(part)}" for part in location)
    return "".join(parts).removeprefix(".") or "the object"


def _short(part: str) -> str:
    return part if len(part) <= _LONGEST_PART else f"{part[:_LONGEST_PART]}…"


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
