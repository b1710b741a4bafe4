"""What fitting needs to know about nodes and pods: plain values, already interpreted.

``geotrain.api.facts`` makes them from manifests. Amounts are integers: ``cpu`` in thousandths of a
core, everything else in its own unit (bytes, pods, GPUs).
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

Resources: TypeAlias = Mapping[str, int]
Asked: TypeAlias = tuple[tuple[str, int], ...]
"""Resources with the amounts that are asked for, all above 0."""
PodKey: TypeAlias = tuple[str, str]
"""Namespace and name."""
JobKey: TypeAlias = tuple[str, str]
"""Namespace and name of a training job."""


class Role(StrEnum):
    """What a pod is to geotrain."""

    TRAINING = "training"
    PREFILL = "prefill"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Taint:
    """``effect`` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"

    def __str__(self) -> str:
        return (
            f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"
        )


@dataclass(frozen=True, slots=True)
class Toleration:
    """As in a pod's spec: an empty key with Exists tolerates all, an empty effect every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether the taint is borne. Operators other than Exists and Equal bear nothing."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.operator == "Exists":
            return self.key in ("", taint.key)
        return self.operator == "Equal" and (self.key, self.value) == (taint.key, taint.value)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One expression of a required node affinity; ``on_name`` compares the node's name."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    on_name: bool = False


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node: what it offers to pods and whom it turns away."""

    name: str
    allocatable: Resources
    labels: Mapping[str, str] = field(default_factory=dict)
    data_center: str = ""
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A pod: what it asks for and where it stands.

    ``node`` is empty until the pod is bound, ``nominated`` names the node that the scheduler is
    clearing for it. ``affinity`` is an OR of ANDs. ``gated`` pods are not yet shown to the
    scheduler. ``job`` is the training job's name: its own for a rank, the one it serves for
    prefill, whose ``beside_rank`` is the rank whose GPUs it shares with at most
    ``max_beside`` workers in all.
    """

    namespace: str
    name: str
    requests: Resources
    uid: str = ""
    node: str = ""
    nominated: str = ""
    role: Role = Role.OTHER
    priority: int = 0
    phase: str = "Pending"
    gated: bool = False
    terminating: bool = False
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[tuple[Requirement, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    data_center: str = ""
    job: str = ""
    rank: int | None = None
    stage: int | None = None
    replica: int | None = None
    beside_rank: int | None = None
    max_beside: int = 1

    @property
    def key(self) -> PodKey:
        """What tells pods of one cluster apart."""
        return (self.namespace, self.name)

    @property
    def job_key(self) -> JobKey:
        """What tells training jobs apart; pods of one gang share it."""
        return (self.namespace, self.job)

    @property
    def ended(self) -> bool:
        """Ended pods hold nothing on their node."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def asked(self) -> Asked:
        """What the pod asks for; what it asks none of does not matter to it."""
        return tuple((name, amount) for name, amount in self.requests.items() if amount > 0)

    @property
    def shape(self) -> Hashable:
        """All that decides where the pod fits: pods of equal shape are interchangeable."""
        return (
            self.data_center,
            tuple(sorted(self.requests.items())),
            tuple(sorted(self.node_selector.items())),
            self.affinity,
            self.tolerations,
        )
