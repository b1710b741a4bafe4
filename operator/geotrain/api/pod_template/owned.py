"""What geotrain itself sets in a pod: a template that sets it is refused, never overruled.

Where a template says what geotrain would say, nothing is lost, and it may.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from geotrain.api import labels
from geotrain.api.pod_template.faults import Fault, Part, containers, entries, part

TRAINER_VARIABLES: Final = frozenset(
    {
        "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
        "GEOTRAIN_JOB", "GEOTRAIN_STAGE", "GEOTRAIN_REPLICA", "GEOTRAIN_DATACENTER",
        "GEOTRAIN_SCHEDULE", "GEOTRAIN_SIGNAL", "GEOTRAIN_DATA", "GEOTRAIN_PIPELINE",
        "GEOTRAIN_MICRO_BATCHES", "GEOTRAIN_MICRO_BATCH", "GEOTRAIN_FIRST_LAYER",
        "GEOTRAIN_LAYERS", "GEOTRAIN_RECOMPUTE", "GEOTRAIN_ATTEMPT",
    }
)  # fmt: skip
"""Variables of every training container."""
NCCL_VARIABLES: Final = frozenset({"NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD"})
"""Variables of training containers whose NCCL carries the wide area itself."""
WORKER_VARIABLES: Final = frozenset(
    {
        "GEOTRAIN_GATE", "GEOTRAIN_GUARD", "GEOTRAIN_MINIMUM_BUBBLE", "GEOTRAIN_POOL",
        "GEOTRAIN_PROFILE", "GEOTRAIN_RANK",
    }
)  # fmt: skip
"""Variables of every prefill worker."""

PREFIX: Final = "geotrain-"
"""Names of containers and volumes that begin so are ours."""

_NEVER: Final = {
    "nodeName": "the scheduler chooses nodes",
    "hostname": "ranks find each other by their pods' names",
    "subdomain": "ranks find each other by their pods' names",
    "setHostnameAsFQDN": "ranks find each other by their pods' names",
    "schedulingGates": "a gang is let go as a whole",
    "priority": "it follows from the priority class",
    "preemptionPolicy": "it follows from the priority class",
    "serviceAccount": "write serviceAccountName",
    "ephemeralContainers": "they are added to running pods",
}
_SIDECAR_PORTS: Final = (labels.PORT_REDIRECT, labels.PORT_PEER, labels.PORT_STATUS)


@dataclass(frozen=True, slots=True)
class Owned:
    """What differs between the pods of jobs and of pools.

    ``fields`` are those of the pod with their values; ``mounts`` and ``variables`` are in the first
    container, ``ports`` in any, and ``first_ports`` in any but the first.
    """

    fields: Mapping[str, str]
    mounts: tuple[str, ...]
    variables: frozenset[str]
    ports: tuple[int, ...] = ()
    first_ports: tuple[int, ...] = field(default=())


def of_job(*, has_sidecar: bool) -> Owned:
    """What geotrain sets in a training pod."""
    return Owned(
        fields={
            "schedulerName": labels.SCHEDULER_NAME,
            "priorityClassName": labels.PRIORITY_TRAINING,
            "restartPolicy": "Never",
        },
        mounts=(labels.CONFIG_DIRECTORY, labels.SIGNAL_DIRECTORY),
        variables=TRAINER_VARIABLES if has_sidecar else TRAINER_VARIABLES | NCCL_VARIABLES,
        ports=_SIDECAR_PORTS if has_sidecar else (),
        first_ports=(labels.PORT_MASTER,),
    )


def of_pool() -> Owned:
    """What geotrain sets in a prefill worker's pod."""
    return Owned(
        fields={
            "schedulerName": labels.SCHEDULER_NAME,
            "priorityClassName": labels.PRIORITY_PREFILL,
            "restartPolicy": "Always",
        },
        mounts=(labels.CONFIG_DIRECTORY, labels.NODE_DIRECTORY),
        variables=WORKER_VARIABLES,
        first_ports=(labels.PORT_PREFILL,),
    )


def owned_faults(template: Part, owned: Owned) -> Iterator[Fault]:
    """Everything in a pod template that is geotrain's to say."""
    spec = part(template, "spec")
    yield from _metadata(template)
    yield from _fields(spec, owned)
    for path, volume in entries(spec, "volumes", "spec."):
        yield from _name(volume, path)
    for path, container in containers(spec):
        yield from _container(container, f"spec.{path}")
        yield from _ports(container, f"spec.{path}", owned)
    for path, first in list(entries(spec, "containers", "spec."))[:1]:
        yield from _environment(first, path, owned)
        yield from _mounts(first, path, owned)


def is_ours(key: str) -> bool:
    """Whether a key of labels, annotations or resources is in our domain."""
    domain = key.partition("/")[0]
    return "/" in key and (domain == labels.GROUP or domain.endswith(f".{labels.GROUP}"))


def _metadata(template: Part) -> Iterator[Fault]:
    for kind in ("labels", "annotations"):
        for key in part(template, "metadata", kind):
            if is_ours(key) or key == labels.MANAGED_BY:
                yield Fault(f"metadata.{kind}[{key}]", "geotrain sets it; use a key of your own")


def _fields(spec: Part, owned: Owned) -> Iterator[Fault]:
    for name, ours in owned.fields.items():
        if spec.get(name) not in (None, "", ours):
            yield Fault(f"spec.{name}", f"geotrain sets it to {ours}; leave it out")
    for name, why in _NEVER.items():
        if spec.get(name):
            yield Fault(f"spec.{name}", f"geotrain sets it: {why}; leave it out")
    for key in part(spec, "nodeSelector"):
        if is_ours(key):
            right = "geotrain sets it; name data centres in spec.placement"
            yield Fault(f"spec.nodeSelector[{key}]", right)


def _name(holder: Part, path: str) -> Iterator[Fault]:
    if str(holder.get("name", "")).startswith(PREFIX):
        yield Fault(
            f"{path}.name", f"names that begin with {PREFIX} are geotrain's; choose another"
        )


def _container(container: Part, path: str) -> Iterator[Fault]:
    yield from _name(container, path)
    for kind in ("limits", "requests"):
        for key in part(container, "resources", kind):
            if is_ours(key):
                yield Fault(f"{path}.resources.{kind}[{key}]", "geotrain sets it; leave it out")


def _ports(container: Part, path: str, owned: Owned) -> Iterator[Fault]:
    is_first = path == "spec.containers[0]"
    for where, port in entries(container, "ports", f"{path}."):
        number: Any = port.get("containerPort")
        if number in owned.ports:
            yield Fault(f"{where}.containerPort", f"geotrain's sidecar listens on {number}")
        elif number in owned.first_ports and not is_first:
            yield Fault(f"{where}.containerPort", f"the first container listens on {number}")


def _environment(container: Part, path: str, owned: Owned) -> Iterator[Fault]:
    for where, variable in entries(container, "env", f"{path}."):
        if variable.get("name") in owned.variables:
            yield Fault(f"{where}.name", f"geotrain sets {variable['name']}; leave it out")


def _mounts(container: Part, path: str, owned: Owned) -> Iterator[Fault]:
    for where, mount in entries(container, "volumeMounts", f"{path}."):
        place = f"{str(mount.get('mountPath', '')).rstrip('/')}/"
        taken = next((ours for ours in owned.mounts if place.startswith(f"{ours}/")), None)
        if taken is not None:
            yield Fault(f"{where}.mountPath", f"geotrain mounts {taken}; choose another place")
