"""Manifests of nodes and pods as the controller and the API server write them."""

from typing import Any

from geotrain.api import labels

GPU = "example.com/gpu"


def node_manifest(name: str, center: str = "dc-east", **allocatable: str) -> dict[str, Any]:
    """A v1 Node with 8 cores, 8 GPUs and 110 pods; keywords change amounts (``gpu`` is GPU)."""
    amounts = {"cpu": "8", GPU: allocatable.pop("gpu", "8"), "pods": "110", **allocatable}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {labels.DATA_CENTER: center}},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def rank_manifest(rank: int, center: str = "dc-east", **options: Any) -> dict[str, Any]:
    """A training pod of job ``gpt`` with data parallelism 2; ``node`` binds it, ``gated`` gates."""
    job = options.pop("job", "gpt")
    tags = {
        labels.ROLE: labels.ROLE_TRAINER,
        labels.JOB: job,
        labels.RANK: str(rank),
        labels.STAGE: str(rank // 2),
        labels.REPLICA: str(rank % 2),
    }
    pod = _pod(labels.pod_name(job, rank), tags, center, {GPU: "1"}, **options)
    pod["spec"]["priorityClassName"] = labels.PRIORITY_TRAINING
    return pod


def prefill_manifest(index: int, beside: int = 0, **options: Any) -> dict[str, Any]:
    """A prefill worker of job ``gpt`` beside a rank."""
    job, center = options.pop("job", "gpt"), options.pop("center", "dc-east")
    tags = {
        labels.ROLE: labels.ROLE_PREFILL,
        labels.JOB: job,
        labels.POOL: "pool",
        labels.BESIDE_RANK: str(beside),
    }
    pod = _pod(f"pool-{center}-{index}", tags, center, {}, **options)
    pod["spec"]["priorityClassName"] = labels.PRIORITY_PREFILL
    pod["spec"]["preemptionPolicy"] = "Never"
    return pod


def _pod(
    name: str, tags: dict[str, str], center: str, extended: dict[str, str], **options: Any
) -> dict[str, Any]:
    limits = {labels.MANAGED_RESOURCE: "1", **extended}
    requests = {"cpu": options.pop("cpu", "1"), **limits}
    spec: dict[str, Any] = {
        "schedulerName": labels.SCHEDULER_NAME,
        "nodeSelector": {labels.DATA_CENTER: center},
        "containers": [
            {"name": "main", "image": "x", "resources": {"requests": requests, "limits": limits}}
        ],
        "terminationGracePeriodSeconds": 0,
    }
    if options.pop("gated", False):
        spec["schedulingGates"] = [{"name": labels.SCHEDULING_GATE}]
    if node := options.pop("node", ""):
        spec["nodeName"] = node
    metadata = {
        "namespace": options.pop("namespace", "team-a"),
        "name": name,
        "labels": tags,
        **options.pop("metadata", {}),
    }
    assert not options, f"unknown options: {sorted(options)}"
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
