"""What a data centre leaves behind, and what keeps it from leaving. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from geotrain.api import labels
from geotrain.api.objects import (
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    NETWORK_POLICIES,
    PODS,
    SERVICES,
    ApiResource,
)
from geotrain.api.v1alpha1 import GeoTrainingJob, WanLink

Manifest = Mapping[str, Any]

LEFT: Final[tuple[ApiResource, ...]] = (
    PODS,
    SERVICES,
    ENDPOINT_SLICES,
    NETWORK_POLICIES,
    CONFIG_MAPS,
)
"""What the controller makes in members, in the order in which it is taken away."""
OURS: Final = f"{labels.MANAGED_BY}={labels.MANAGED_BY_VALUE}"


def jobs_of(jobs: Iterable[GeoTrainingJob], name: str) -> list[str]:
    """Jobs that run or are to run in a data centre, as ``namespace/name``."""
    return sorted(
        f"{job.namespace}/{job.name}"
        for job in jobs
        if job.status.completion_time is None
        and not job.spec.suspend
        and job.status.plan is not None
        and any(stage.data_center == name for stage in job.status.plan.stages)
    )


def pods_of(pods: Iterable[Manifest], name: str) -> list[str]:
    """Jobs and pools whose pods are in a data centre and have not ended."""
    found = {
        f"{pod['metadata']['namespace']}/{tags.get(labels.POOL) or tags.get(labels.JOB)}"
        for pod in pods
        if (tags := pod["metadata"].get("labels") or {}).get(labels.JOB_UID)
        or tags.get(labels.POOL_UID)
        if runs_in(pod, name)
        and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
    }
    return sorted(found)


def runs_in(pod: Manifest, name: str) -> bool:
    """Whether a pod was placed in a data centre; several may be in one cluster."""
    chosen = (pod["spec"].get("nodeSelector") or {}).get(labels.DATA_CENTER)
    return bool(chosen == name)


def is_left(resource: ApiResource, manifest: Manifest, name: str, *, alone: bool) -> bool:
    """Whether an object is the data centre's leftover.

    ``alone``: nothing else of this hub uses the cluster. Otherwise only pods can be told apart, and
    the controller sees to the rest.
    """
    tags = manifest["metadata"].get("labels") or {}
    if resource == PODS and tags.get(labels.ROLE) == labels.ROLE_PROBE:
        return True
    if not (tags.get(labels.JOB_UID) or tags.get(labels.POOL_UID)):
        return False
    return alone or (resource == PODS and runs_in(manifest, name))


def links_of(links: Iterable[WanLink], name: str) -> list[str]:
    """WanLinks that name a data centre."""
    return sorted(link.name for link in links if name in (link.spec.source, link.spec.target))
