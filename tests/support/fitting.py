"""Nodes and pods for tests of fitting: short to write, sensible where nothing is said."""

from typing import Any

from geotrain.fitting import NodeFacts, PodFacts, Role

GPU = "example.com/gpu"
DC = "topology.geotrain.io/datacenter"


def node(name: str, center: str = "dc-east", **resources: Any) -> NodeFacts:
    """A node with 8 cores, 64 GPUs and 110 pods; keywords change amounts (``gpu`` is GPU)."""
    fields = {key: resources.pop(key) for key in ("taints", "unschedulable") if key in resources}
    labels = {DC: center, **resources.pop("labels", {})}
    amounts = {"cpu": 8000, GPU: resources.pop("gpu", 64), "pods": 110, **resources}
    return NodeFacts(name, amounts, labels=labels, data_center=center, **fields)


def rank(number: int, center: str = "dc-east", **fields: Any) -> PodFacts:
    """A gated pod of job ``gpt`` with data parallelism 2 that asks for 1 GPU and 1 core."""
    job = fields.pop("job", "gpt")
    requests = {"cpu": fields.pop("cpu", 1000), GPU: fields.pop("gpu", 1), "pods": 1}
    return PodFacts(
        "team-a",
        f"{job}-r{number}",
        fields.pop("requests", requests),
        uid=f"uid-{job}-r{number}",
        role=Role.TRAINING,
        priority=fields.pop("priority", 1000),
        gated=fields.pop("gated", not fields.get("node")),
        data_center=center,
        node_selector={DC: center, **fields.pop("node_selector", {})},
        job=job,
        rank=number,
        stage=number // 2,
        replica=number % 2,
        **fields,
    )


def prefill(number: int, beside: int | None = 0, **fields: Any) -> PodFacts:
    """A prefill worker of job ``gpt`` that asks for 1 core and no GPU."""
    return PodFacts(
        "team-a",
        f"pool-{number}",
        {"cpu": fields.pop("cpu", 1000), "pods": 1},
        uid=f"uid-pool-{number}",
        role=Role.PREFILL,
        job=fields.pop("job", "gpt"),
        beside_rank=beside,
        **fields,
    )


def stranger(name: str, **fields: Any) -> PodFacts:
    """A pod that is not geotrain's."""
    cpu = fields.pop("cpu", 1000)
    return PodFacts("default", name, {"cpu": cpu, "pods": 1}, uid=f"uid-{name}", **fields)
