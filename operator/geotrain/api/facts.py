"""Nodes and pods as the API servers give them, turned into what ``geotrain.fitting`` needs.

A pod's request is counted as scheduler and kubelet count it (k8s.io/component-helpers
``resource.PodRequests``): containers and sidecars together, or the hungriest moment of the
initialisation if that is more, then pod-level requests in their place, then the overhead.
Missing requests default to limits, as the API server would do. The managed resource is left out: no
node offers it, it only tells the scheduler to ask the extender.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from geotrain.api import labels
from geotrain.fitting import (
    NodeFacts,
    PodFacts,
    Requirement,
    Resources,
    Role,
    Taint,
    Toleration,
)
from geotrain.fitting.quantities import add, largest, parse_amount

Manifest = Mapping[str, Any]

_ROLES = {labels.ROLE_TRAINER: Role.TRAINING, labels.ROLE_PREFILL: Role.PREFILL}


def node_from_manifest(manifest: Manifest) -> NodeFacts:
    """The facts of a v1 Node. Raises ValueError where an amount is no quantity."""
    metadata, spec = _part(manifest, "metadata"), _part(manifest, "spec")
    tags = _part(metadata, "labels")
    return NodeFacts(
        name=metadata["name"],
        allocatable=_amounts(_part(_part(manifest, "status"), "allocatable")),
        labels=tags,
        data_center=tags.get(labels.DATA_CENTER, ""),
        unschedulable=bool(spec.get("unschedulable")),
        taints=tuple(
            Taint(taint["key"], taint.get("value", ""), taint.get("effect", ""))
            for taint in spec.get("taints") or ()
        ),
    )


def pod_from_manifest(manifest: Manifest) -> PodFacts:
    """The facts of a v1 Pod, bound or not. Raises ValueError where an amount is no quantity."""
    metadata, spec = _part(manifest, "metadata"), _part(manifest, "spec")
    status, tags = _part(manifest, "status"), _part(metadata, "labels")
    limit = _part(metadata, "annotations").get(labels.MAX_PREFILL_PER_GPU)
    selector = _part(spec, "nodeSelector")
    return PodFacts(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        requests=pod_requests(spec),
        node=spec.get("nodeName") or "",
        nominated=status.get("nominatedNodeName") or "",
        role=_ROLES.get(tags.get(labels.ROLE, ""), Role.OTHER),
        priority=spec.get("priority") or 0,
        phase=status.get("phase", "Pending"),
        gated=bool(spec.get("schedulingGates")),
        terminating="deletionTimestamp" in metadata,
        node_selector=selector,
        affinity=_affinity(spec),
        tolerations=tuple(_tolerations(spec)),
        data_center=selector.get(labels.DATA_CENTER, ""),
        job=tags.get(labels.JOB, ""),
        rank=_number(tags.get(labels.RANK)),
        stage=_number(tags.get(labels.STAGE)),
        replica=_number(tags.get(labels.REPLICA)),
        beside_rank=_number(tags.get(labels.BESIDE_RANK)),
        max_beside=_number(limit) or 1,
    )


def pod_requests(spec: Manifest) -> dict[str, int]:
    """What a pod of this spec takes of a node, itself (one of ``pods``) included."""
    running: dict[str, int] = {}
    for container in spec.get("containers") or ():
        running = add(running, _requests(container))
    sidecars, peak = _initialisation(spec.get("initContainers") or ())
    total = largest(add(running, sidecars), peak)
    total = {**total, **_requests(spec)}
    total = add(total, _amounts(_part(spec, "overhead")))
    total.pop(labels.MANAGED_RESOURCE, None)
    return {**total, "pods": 1}


def _initialisation(containers: Iterable[Manifest]) -> tuple[Resources, Resources]:
    """What stays (sidecars, restartPolicy Always), and the most that is needed until then."""
    sidecars: Resources = {}
    peak: Resources = {}
    for container in containers:
        with_it = add(sidecars, _requests(container))
        peak = largest(peak, with_it)
        if container.get("restartPolicy") == "Always":
            sidecars = with_it
    return sidecars, peak


def _requests(holder: Manifest) -> dict[str, int]:
    """The requests of a container or of a whole pod, limits where they are missing."""
    resources = _part(holder, "resources")
    return _amounts({**_part(resources, "limits"), **_part(resources, "requests")})


def _amounts(texts: Manifest) -> dict[str, int]:
    return {name: parse_amount(name, text) for name, text in texts.items()}


def _tolerations(spec: Manifest) -> Iterable[Toleration]:
    for entry in spec.get("tolerations") or ():
        yield Toleration(
            entry.get("key", ""),
            entry.get("operator") or "Equal",
            entry.get("value", ""),
            entry.get("effect", ""),
        )


def _affinity(spec: Manifest) -> tuple[tuple[Requirement, ...], ...]:
    """The required node affinity; preferences are the real scheduler's business."""
    wanted = _part(_part(spec, "affinity"), "nodeAffinity")
    required = _part(wanted, "requiredDuringSchedulingIgnoredDuringExecution")
    return tuple(tuple(_term(term)) for term in required.get("nodeSelectorTerms") or ())


def _term(term: Manifest) -> Iterable[Requirement]:
    for part, on_name in (("matchExpressions", False), ("matchFields", True)):
        for entry in term.get(part) or ():
            values = tuple(entry.get("values") or ())
            yield Requirement(entry["key"], entry["operator"], values, on_name)


def _part(manifest: Manifest, key: str) -> Manifest:
    """An inner object, empty where it is missing or null."""
    return manifest.get(key) or {}


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
