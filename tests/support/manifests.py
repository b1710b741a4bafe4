"""A good manifest of every kind, and a way to change one field of it."""

from copy import deepcopy
from itertools import pairwise
from typing import Any

from geotrain.api import labels
from geotrain.api.labels import API_VERSION

Manifest = dict[str, Any]

POD: Manifest = {
    "spec": {
        "containers": [
            {
                "name": "trainer",
                "image": "geotrain-trainer:dev",
                "resources": {"limits": {"nvidia.com/gpu": 1}},
            }
        ]
    }
}


def namespace(name: str, *, enabled: bool = True, accounts: str = "") -> Manifest:
    """A namespace in a member, opened to jobs as its administrator does."""
    metadata: Manifest = {"name": name, "labels": {labels.ENABLED: "true"} if enabled else {}}
    if accounts:
        metadata["annotations"] = {labels.SERVICE_ACCOUNTS: accounts}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def data_center(name: str = "dc-west", **spec: Any) -> Manifest:
    return _object("DataCenter", name, {"cluster": {"local": True}, "accelerator": "H200", **spec})


def wan_link(name: str = "west-central", **spec: Any) -> Manifest:
    usual = {
        "from": "dc-west",
        "to": "dc-central",
        "capacity": "5G",
        "perPodCapacity": "1G",
        "roundTripTime": "33ms",
        "tcpWindow": "1536Ki",
        "costPerGigabyte": 0.02,
        "reservable": 0.9,
    }
    return _object("WanLink", name, {**usual, **spec})


def training_job(name: str = "gpt", namespace: str = "default", **spec: Any) -> Manifest:
    usual = {
        "model": {
            "layers": 24,
            "hiddenSize": 4096,
            "sequenceLength": 4096,
            "vocabularySize": 50304,
        },
        "parallelism": {"data": 2, "pipeline": 6},
        "batch": {"global": 16, "micro": 1},
        "schedule": {"policy": "Atlas"},  # the quickest to plan with several warm-ups
        "template": deepcopy(POD),
    }
    return _object("GeoTrainingJob", name, {**usual, **spec}, namespace)


def prefill_pool(name: str = "llama", namespace: str = "default", **spec: Any) -> Manifest:
    usual = {
        "trainingJobRef": {"name": "gpt"},
        "model": {"name": "llama", "layers": 32, "hiddenSize": 4096},
        "decode": {"url": "http://decode.default.svc:8000"},
        "template": deepcopy(POD),
    }
    return _object("PrefillPool", name, {**usual, **spec}, namespace)


def bandwidth_schedule(name: str = "gpt-dc-west", namespace: str = "default") -> Manifest:
    spec = {
        "job": "gpt",
        "dataCenter": "dc-west",
        "revision": "abc",
        "period": "1640000us",
        "flows": [
            {
                "id": 1,
                "source": 2,
                "target": 4,
                "targetDataCenter": "dc-central",
                "mates": [3],
                "connections": 34,
                "rate": "50000000",
                "idleRate": "5000000",
            }
        ],
        "windows": [{"flow": 1, "offset": "0us", "length": "80000us", "rate": "50000000"}],
    }
    return _object("BandwidthSchedule", name, spec, namespace)


def examples() -> list[Manifest]:
    """One good manifest of each kind."""
    return [data_center(), wan_link(), training_job(), prefill_pool(), bandwidth_schedule()]


def example(kind: str) -> Manifest:
    """The good manifest of a kind."""
    return next(m for m in examples() if m["kind"] == kind)


def with_field(manifest: Manifest, path: str, value: Any) -> Manifest:
    """A copy with the field at ``path`` (``spec.batch.global``, ``spec.flows.0.rate``) replaced.

    Parents that are missing are made. A value of ``...`` removes the field.
    """
    copy = deepcopy(manifest)
    parts = path.split(".")
    node: Any = copy
    for part, following in pairwise(parts):
        node = _step(node, part, [] if following.isdigit() else {})
    if value is ...:
        del node[parts[-1]]
    elif isinstance(node, list):
        node[int(parts[-1]) :] = [value]
    else:
        node[parts[-1]] = value
    return copy


def _step(node: Any, part: str, empty: Any) -> Any:
    if isinstance(node, dict):
        return node.setdefault(part, empty)
    if not node:
        node.append(empty)
    return node[int(part)]


def _object(kind: str, name: str, spec: Manifest, namespace: str = "") -> Manifest:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
