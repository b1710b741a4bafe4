"""The manifests of a pool: workers and their surroundings in members, the router on the hub."""

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from geotrain.api import labels
from geotrain.api.namespaces import without_token
from geotrain.api.objects import CONFIG_MAPS, DEPLOYMENTS, NETWORK_POLICIES, PODS, SERVICES
from geotrain.api.pod_template import template_in
from geotrain.api.v1alpha1 import GeoTrainingJob, PrefillPool
from geotrain.prefill.profile import PrefillProfile
from geotrain.roles.controller.decision import HUB, Manifest
from geotrain.roles.controller.digests import digest
from geotrain.roles.controller.ownership import Need

_CONFIG: Final = "geotrain-config"
_NODE: Final = "geotrain-node"
_USER: Final = 65532  # of geotrain's image
_LEAVE_WITHIN: Final = 5  # seconds: a training gang may wait for the room


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for a worker: the ``index``-th of its data centre, beside a rank of the job."""

    data_center: str
    index: int
    rank: int


@dataclass(frozen=True, slots=True)
class Parts:
    """The facts that all of a pool's manifests are made from."""

    pool: PrefillPool
    profile: PrefillProfile
    router_image: str

    @property
    def model(self) -> str:
        """The name under which clients ask for the model."""
        model = self.pool.spec.model
        return model.name if model is not None else self.pool.name

    def metadata(self, name: str, **extra: str) -> dict[str, Any]:
        """Name, namespace and the labels that tell whose an object is."""
        return {
            "name": name,
            "namespace": self.pool.namespace,
            "labels": {
                labels.MANAGED_BY: labels.MANAGED_BY_VALUE,
                labels.POOL: self.pool.name,
                labels.POOL_UID: self.pool.metadata.uid,
                labels.NAMESPACE: self.pool.namespace,
                **extra,
            },
        }

    def on_hub(self, name: str, **extra: str) -> dict[str, Any]:
        """The same for an object on the hub, which goes when the pool goes."""
        owner = {
            "apiVersion": labels.API_VERSION,
            "kind": self.pool.kind(),
            "name": self.pool.name,
            "uid": self.pool.metadata.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
        return {**self.metadata(name, **extra), "ownerReferences": [owner]}


def config_name(pool: str) -> str:
    """The workers' ConfigMap and NetworkPolicy."""
    return f"{pool}-geotrain"


def router_name(pool: str) -> str:
    """The router's Deployment, Service and ConfigMap."""
    return f"{pool}-router"


def worker_name(pool: str, slot: Slot) -> str:
    """A worker's pod."""
    return f"{pool}-{slot.data_center}-{slot.index}"


def needs(pool: PrefillPool, slots: Sequence[Slot]) -> tuple[Need, ...]:
    """Every name that the pool needs: of router, workers and what stands around them."""
    router = [(kind, router_name(pool.name)) for kind in (CONFIG_MAPS, SERVICES, DEPLOYMENTS)]
    found = [(HUB, *each) for each in router]
    for center in sorted({slot.data_center for slot in slots}):
        found += [
            (center, kind, config_name(pool.name)) for kind in (CONFIG_MAPS, NETWORK_POLICIES)
        ]
    found += [(slot.data_center, PODS, worker_name(pool.name, slot)) for slot in slots]
    return tuple(
        Need(center, kind.api_version, kind.kind, pool.namespace, name)
        for center, kind, name in found
    )


def endpoint(pool: PrefillPool) -> str:
    """Where clients on the hub find the router."""
    return f"http://{router_name(pool.name)}.{pool.namespace}.svc:{labels.PORT_ROUTER}"


def profile_text(profile: PrefillProfile) -> str:
    """``prefill.json``, to the nanosecond."""
    points = [
        {"tokens": point.tokens, "time": f"{round(point.time * 1e9)}ns"}
        for point in profile.layer_times
    ]
    longest = f"{profile.longest_kernel * 1e9:.0f}ns"
    return json.dumps({"layers": profile.layers, "layerTimes": points, "longestKernel": longest})


def worker_config(parts: Parts) -> Manifest:
    """What the workers of one cluster read."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": parts.metadata(config_name(parts.pool.name)),
        "data": {"prefill.json": profile_text(parts.profile)},
    }


def worker_policy(parts: Parts, routers: Sequence[str]) -> Manifest:
    """Only the pool's router may talk to its workers.

    A router in another cluster is named by its exact address, which no selector could pick.
    """
    mine = {labels.POOL_UID: parts.pool.metadata.uid}
    addresses = [{"ipBlock": {"cidr": _alone(address)}} for address in sorted(routers)]
    local = {"podSelector": {"matchLabels": {**mine, labels.ROLE: labels.ROLE_ROUTER}}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": parts.metadata(config_name(parts.pool.name)),
        "spec": {
            "podSelector": {"matchLabels": {**mine, labels.ROLE: labels.ROLE_PREFILL}},
            "policyTypes": ["Ingress"],
            "ingress": [
                {
                    "from": [local, *addresses],
                    "ports": [{"port": labels.PORT_PREFILL, "protocol": "TCP"}],
                }
            ],
        },
    }


def worker(parts: Parts, job: GeoTrainingJob, slot: Slot) -> Manifest:
    """A worker's pod; its revision label changes with anything that the pod is made from."""
    template = template_in(parts.pool, slot.data_center)
    spec: dict[str, Any] = without_token(copy.deepcopy(template["spec"]))
    spec["containers"][0] = _prefill_container(parts, job, slot, spec["containers"][0])
    spec |= {
        "schedulerName": labels.SCHEDULER_NAME,
        "priorityClassName": labels.PRIORITY_PREFILL,
        "nodeSelector": {**(spec.get("nodeSelector") or {}), labels.DATA_CENTER: slot.data_center},
        "restartPolicy": "Always",
        "volumes": [*(spec.get("volumes") or ()), *_worker_volumes(parts)],
    }
    spec.setdefault("terminationGracePeriodSeconds", _LEAVE_WITHIN)
    meta = _worker_metadata(parts, job, slot, template.get("metadata", {}))
    meta["labels"][labels.REVISION] = digest([meta, spec, profile_text(parts.profile)])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def router_config(parts: Parts, workers: Sequence[dict[str, Any]], baseline: str) -> Manifest:
    """What the router reads: its workers, again whenever they change, and the profile once."""
    meta = parts.on_hub(router_name(parts.pool.name))
    if baseline:
        meta["annotations"] = {labels.BASELINE: baseline}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta,
        "data": {
            "prefill.json": profile_text(parts.profile),
            "workers.json": json.dumps({"workers": list(workers)}),
        },
    }


def router_service(parts: Parts) -> Manifest:
    """The stable name of the router."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": parts.on_hub(router_name(parts.pool.name)),
        "spec": {
            "selector": _router_labels(parts),
            "ports": [
                {
                    "name": "http",
                    "port": labels.PORT_ROUTER,
                    "targetPort": labels.PORT_ROUTER,
                    "protocol": "TCP",
                }
            ],
        },
    }


def router_deployment(parts: Parts) -> Manifest:
    """One router. During an update the new one is ready before the old one leaves."""
    name = router_name(parts.pool.name)
    meta = parts.metadata(name, **{labels.ROLE: labels.ROLE_ROUTER})
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": parts.on_hub(name),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": _router_labels(parts)},
            "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {
                "metadata": {
                    "labels": meta["labels"],
                    # The profile is read once, so a new one takes a new pod.
                    "annotations": {labels.REVISION: digest(profile_text(parts.profile))},
                },
                "spec": {
                    "automountServiceAccountToken": False,
                    "terminationGracePeriodSeconds": 30,
                    "securityContext": {
                        "runAsNonRoot": True,
                        "runAsUser": _USER,
                        "runAsGroup": _USER,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "containers": [_router_container(parts)],
                    "volumes": [{"name": _CONFIG, "configMap": {"name": name}}],
                },
            },
        },
    }


def _prefill_container(
    parts: Parts, job: GeoTrainingJob, slot: Slot, container: dict[str, Any]
) -> dict[str, Any]:
    """The template's first container; our variables come first, so that its own may use them."""
    environment = {
        "GEOTRAIN_GATE": labels.gate_path(job.namespace, job.name, slot.rank),
        "GEOTRAIN_GUARD": parts.pool.spec.guard,
        "GEOTRAIN_MINIMUM_BUBBLE": parts.pool.spec.minimum_bubble,
        "GEOTRAIN_POOL": f"{parts.pool.namespace}/{parts.pool.name}",
        "GEOTRAIN_PROFILE": f"{labels.CONFIG_DIRECTORY}/prefill.json",
        "GEOTRAIN_RANK": str(slot.rank),
    }
    theirs = [each for each in container.get("env") or () if each["name"] not in environment]
    resources = container.get("resources") or {}
    one = {labels.MANAGED_RESOURCE: "1"}
    probe = {"httpGet": {"path": "/state", "port": labels.PORT_PREFILL}, "periodSeconds": 5}
    return {
        "readinessProbe": probe,
        **container,
        "env": [*({"name": k, "value": v} for k, v in environment.items()), *theirs],
        "resources": {
            **resources,
            "requests": {**(resources.get("requests") or {}), **one},
            "limits": {**(resources.get("limits") or {}), **one},
        },
        "volumeMounts": [
            *(container.get("volumeMounts") or ()),
            {"name": _CONFIG, "mountPath": labels.CONFIG_DIRECTORY, "readOnly": True},
            {"name": _NODE, "mountPath": labels.NODE_DIRECTORY},
        ],
    }


def _worker_metadata(
    parts: Parts, job: GeoTrainingJob, slot: Slot, template: dict[str, Any]
) -> dict[str, Any]:
    meta = parts.metadata(
        worker_name(parts.pool.name, slot),
        **{
            labels.ROLE: labels.ROLE_PREFILL,
            labels.JOB: job.name,
            labels.BESIDE_RANK: str(slot.rank),
            labels.POOL_INDEX: str(slot.index),
        },
    )
    meta["labels"] = {**template.get("labels", {}), **meta["labels"]}
    most = {labels.MAX_PREFILL_PER_GPU: str(parts.pool.spec.placement.max_per_gpu)}
    meta["annotations"] = {**template.get("annotations", {}), **most}
    return meta


def _worker_volumes(parts: Parts) -> list[dict[str, Any]]:
    return [
        {"name": _CONFIG, "configMap": {"name": config_name(parts.pool.name)}},
        {"name": _NODE, "hostPath": {"path": labels.NODE_DIRECTORY, "type": "DirectoryOrCreate"}},
    ]


def _router_labels(parts: Parts) -> dict[str, str]:
    return {labels.POOL_UID: parts.pool.metadata.uid, labels.ROLE: labels.ROLE_ROUTER}


def _router_container(parts: Parts) -> dict[str, Any]:
    spec = parts.pool.spec
    environment = {
        "GEOTRAIN_MODEL": parts.model,
        "GEOTRAIN_OBJECTIVE": spec.objective.time_to_first_token,
        "GEOTRAIN_PERCENTILE": f"{spec.objective.percentile:g}",
        "GEOTRAIN_GUARD": spec.guard,
        "GEOTRAIN_MINIMUM_BUBBLE": spec.minimum_bubble,
        "GEOTRAIN_DECODE_URL": spec.decode.url if spec.decode else "",
        "GEOTRAIN_WORKERS": f"{labels.CONFIG_DIRECTORY}/workers.json",
        "GEOTRAIN_PROFILE": f"{labels.CONFIG_DIRECTORY}/prefill.json",
    }
    return {
        "name": "router",
        "image": parts.router_image,
        "args": ["router"],
        # The API server drops an empty value, and the object would never be as wanted.
        "env": [{"name": name, "value": value} for name, value in environment.items() if value],
        "ports": [{"name": "http", "containerPort": labels.PORT_ROUTER, "protocol": "TCP"}],
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": labels.PORT_ROUTER},
            "periodSeconds": 2,
        },
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": labels.PORT_ROUTER},
            "periodSeconds": 10,
            "failureThreshold": 6,
        },
        "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}},
        # With the pod's own: Pod Security "restricted", and a root that nobody writes to.
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": _CONFIG, "mountPath": labels.CONFIG_DIRECTORY, "readOnly": True}],
    }


def _alone(address: str) -> str:
    return f"{address}/128" if ":" in address else f"{address}/32"
