"""The training pods: the user's template, told who it is, and with a sidecar for its traffic."""

import copy
from typing import Any, Final

from geotrain.api import labels
from geotrain.api.namespaces import without_token
from geotrain.api.pod_template import template_in
from geotrain.model.workload import Workload
from geotrain.planning.costs.connections import nccl_variables
from geotrain.roles.controller.children.gang import Gang, config_name
from geotrain.roles.controller.decision import Manifest

SIDECAR_RESOURCES: Final = {"requests": {"cpu": "50m", "memory": "64Mi"}}

_CONFIG: Final = "geotrain-config"
_SIGNAL: Final = "geotrain-signal"
_NODE: Final = "geotrain-node"


def pod(gang: Gang, rank: int) -> Manifest:
    """The pod of a rank, held back by its scheduling gate."""
    data_center = gang.plan.data_center_of(rank)
    template = template_in(gang.job, data_center)
    spec: dict[str, Any] = without_token(copy.deepcopy(template["spec"]))
    environment = _environment(gang, rank)
    spec["containers"][0] = _trainer(spec["containers"][0], environment)
    if gang.has_sidecar:
        spec["initContainers"] = [
            _sidecar(gang.sidecar_image, environment),
            *(spec.get("initContainers") or ()),
        ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(gang, rank, template.get("metadata", {})),
        "spec": {
            **spec,
            "schedulingGates": [{"name": labels.SCHEDULING_GATE}],
            "schedulerName": labels.SCHEDULER_NAME,
            "priorityClassName": labels.PRIORITY_TRAINING,
            "nodeSelector": {
                **(spec.get("nodeSelector") or {}),
                **gang.selectors.get(data_center, {}),
                labels.DATA_CENTER: data_center,
            },
            "restartPolicy": "Never",
            "subdomain": gang.name,
            "volumes": [*(spec.get("volumes") or ()), *_volumes(gang, data_center)],
        },
    }


def _metadata(gang: Gang, rank: int, template: dict[str, Any]) -> dict[str, Any]:
    meta = gang.metadata(
        labels.pod_name(gang.name, rank),
        **{
            labels.ROLE: labels.ROLE_TRAINER,
            labels.RANK: str(rank),
            labels.STAGE: str(gang.plan.stage_of(rank)),
            labels.REPLICA: str(gang.plan.replica_of(rank)),
            labels.ATTEMPT: str(gang.attempt),
        },
    )
    meta["labels"] = {**template.get("labels", {}), **meta["labels"]}
    if annotations := template.get("annotations"):
        meta["annotations"] = annotations
    return meta


def _trainer(container: dict[str, Any], environment: list[dict[str, str]]) -> dict[str, Any]:
    """The template's first container; our variables come first, so that its own may use them."""
    ours = {each["name"] for each in environment}
    theirs = [each for each in container.get("env") or () if each["name"] not in ours]
    resources = container.get("resources") or {}
    one = {labels.MANAGED_RESOURCE: "1"}
    return {
        **container,
        "env": [*environment, *theirs],
        "resources": {
            **resources,
            "requests": {**(resources.get("requests") or {}), **one},
            "limits": {**(resources.get("limits") or {}), **one},
        },
        "volumeMounts": [*(container.get("volumeMounts") or ()), *_mounts(node=False)],
    }


def _sidecar(image: str, environment: list[dict[str, str]]) -> dict[str, Any]:
    """A native sidecar: it starts before the trainer, which waits until it carries traffic."""
    return {
        "name": "geotrain-sidecar",
        "image": image,
        "args": ["sidecar"],
        "restartPolicy": "Always",
        "env": environment,
        "ports": [
            {"name": "peer", "containerPort": labels.PORT_PEER, "protocol": "TCP"},
            {"name": "status", "containerPort": labels.PORT_STATUS, "protocol": "TCP"},
        ],
        "startupProbe": {
            "httpGet": {"path": "/healthz", "port": labels.PORT_STATUS},
            "periodSeconds": 1,
            "failureThreshold": 120,
        },
        "securityContext": {
            "runAsUser": 0,
            "runAsNonRoot": False,
            "allowPrivilegeEscalation": False,
            "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
        },
        "resources": SIDECAR_RESOURCES,
        "volumeMounts": _mounts(node=True),
    }


def _mounts(*, node: bool) -> list[dict[str, Any]]:
    """``node``: also the folder on the node in which the gate pages lie."""
    mounts: list[dict[str, Any]] = [
        {"name": _CONFIG, "mountPath": labels.CONFIG_DIRECTORY, "readOnly": True},
        {"name": _SIGNAL, "mountPath": labels.SIGNAL_DIRECTORY},
    ]
    return [*mounts, {"name": _NODE, "mountPath": labels.NODE_DIRECTORY}] if node else mounts


def _volumes(gang: Gang, data_center: str) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [
        {"name": _CONFIG, "configMap": {"name": config_name(gang.name, data_center)}},
        {"name": _SIGNAL, "emptyDir": {"medium": "Memory"}},
    ]
    node = {"path": labels.NODE_DIRECTORY, "type": "DirectoryOrCreate"}
    return [*volumes, {"name": _NODE, "hostPath": node}] if gang.has_sidecar else volumes


def _environment(gang: Gang, rank: int) -> list[dict[str, str]]:
    plan, workload = gang.plan, gang.planned.inputs.workload
    stage = plan.stage_of(rank)
    values = {
        "RANK": rank,
        "WORLD_SIZE": plan.ranks,
        "MASTER_ADDR": gang.address(0),
        "MASTER_PORT": labels.PORT_MASTER,
        "GEOTRAIN_JOB": gang.full_name,
        "GEOTRAIN_STAGE": stage,
        "GEOTRAIN_REPLICA": plan.replica_of(rank),
        "GEOTRAIN_DATACENTER": plan.data_center_of(rank),
        "GEOTRAIN_SCHEDULE": f"{labels.CONFIG_DIRECTORY}/schedule.csv",
        "GEOTRAIN_SIGNAL": labels.SIGNAL_SOCKET,
        "GEOTRAIN_DATA": plan.placement.data,
        "GEOTRAIN_PIPELINE": plan.placement.stages,
        "GEOTRAIN_MICRO_BATCHES": plan.micro_batches,
        "GEOTRAIN_MICRO_BATCH": workload.micro_batch,
        "GEOTRAIN_FIRST_LAYER": sum(plan.layers[:stage]),
        "GEOTRAIN_LAYERS": plan.layers[stage],
        "GEOTRAIN_RECOMPUTE": _recompute(workload),
        "GEOTRAIN_ATTEMPT": gang.attempt,
        **_collectives(gang),
    }
    return [{"name": name, "value": str(value)} for name, value in values.items()]


def _recompute(workload: Workload) -> str:
    """When activations are computed again: never, once the gradient is there, or before."""
    if not workload.recompute:
        return "none"
    return "early" if workload.early_recompute else "late"


def _collectives(gang: Gang) -> dict[str, int]:
    """Where NCCL carries the WAN itself, how many sockets it is to open."""
    if gang.has_sidecar:
        return {}
    return nccl_variables(max(gang.plan.connections.values(), default=1))
