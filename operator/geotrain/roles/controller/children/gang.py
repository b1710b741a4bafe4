"""The facts that all of a gang's manifests are made from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from geotrain.api import labels
from geotrain.api.v1alpha1 import GeoTrainingJob
from geotrain.model.plan import Plan
from geotrain.roles.controller.inputs import Planned


@dataclass(frozen=True, slots=True)
class Gang:
    """One attempt at one revision of a job.

    ``cidrs`` are the pod networks of the data centres, ``selectors`` the labels of their nodes
    besides the data centre's own, ``sidecar_image`` is what carries the WAN traffic.
    """

    job: GeoTrainingJob
    planned: Planned
    attempt: int
    cidrs: Mapping[str, tuple[str, ...]]
    sidecar_image: str
    selectors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def plan(self) -> Plan:
        """The plan that the gang runs by."""
        return self.planned.plan

    @property
    def name(self) -> str:
        """The job's name, which is also its Service's."""
        return self.job.name

    @property
    def namespace(self) -> str:
        """The job's namespace, the same in every cluster."""
        return self.job.namespace

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def has_sidecar(self) -> bool:
        """Whether sidecars carry what crosses the wide area."""
        return self.job.spec.network.enforcement == "Sidecar"

    @property
    def data_centers(self) -> tuple[str, ...]:
        """Where the gang runs, in pipeline order."""
        return tuple(name for name, _ in self.plan.placement.segments)

    def ranks_in(self, data_center: str) -> tuple[int, ...]:
        """The ranks that run in a data centre."""
        return tuple(
            r for r in range(self.plan.ranks) if self.plan.data_center_of(r) == data_center
        )

    def address(self, rank: int) -> str:
        """The name under which a rank is found in every cluster."""
        return labels.rank_address(self.namespace, self.name, rank)

    def metadata(self, name: str, **extra: str) -> dict[str, Any]:
        """Name, namespace and the labels that tell whose an object is."""
        return {
            "name": name,
            "namespace": self.namespace,
            "labels": {
                labels.MANAGED_BY: labels.MANAGED_BY_VALUE,
                labels.JOB: self.name,
                labels.JOB_UID: self.job.metadata.uid,
                labels.NAMESPACE: self.namespace,
                labels.REVISION: self.planned.revision,
                **extra,
            },
        }


def config_name(job: str, data_center: str) -> str:
    """The ConfigMap of a job's part; named for the data centre, as a cluster may hold several."""
    return f"{job}-geotrain.{data_center}"


def owner(job: GeoTrainingJob) -> dict[str, Any]:
    """The reference by which the hub's garbage collector knows a job's objects."""
    return {
        "apiVersion": labels.API_VERSION,
        "kind": job.kind(),
        "name": job.name,
        "uid": job.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
