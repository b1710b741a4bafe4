"""A hub and a member as a person meets them: real API servers with objects as geotrain leaves them.

The hub is the data centre dc-central; dc-west is a member that the kubeconfig's context
kind-dc-west leads to; dc-east is registered and cannot be reached. The plan is a real one, made by
the planner.
"""

import json
from pathlib import Path
from typing import Any

import yaml

from geotrain.api import convert
from geotrain.api.v1alpha1 import GeoTrainingJob
from geotrain.cli import manifests
from geotrain.model.plan import Plan
from geotrain.planning.placement.choose import choose
from geotrain.roles.controller.children.config import INPUTS, ledger_name
from geotrain.roles.controller.inputs import Inputs, spec_digest
from support import schemas
from support.controlplane import ControlPlane
from support.log_kubelet import Kubelet

Manifest = dict[str, Any]

DATA = Path(__file__).parents[1] / "unit" / "cli" / "data"
NAMESPACE = "team-a"
JOB = "gpt"
CENTERS = ("dc-central", "dc-east", "dc-west")
TIME = "2026-01-01T00:00:00Z"


def condition(kind: str, status: str, reason: str, message: str = "") -> Manifest:
    """A condition of long ago."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": TIME,
    }


def problem() -> tuple[GeoTrainingJob, Inputs, Plan]:
    """The job of the tests, what its plan is made from, and the plan."""
    found = manifests.read([DATA / "job.yaml", DATA / "topology.yaml"])
    job = found.job(None)
    inputs = Inputs(spec_digest(job), found.topology(job), found.workload(job, None))
    plan = choose(inputs.topology, inputs.workload)
    assert isinstance(plan, Plan)
    return job, inputs, plan


def documents(name: str) -> list[Manifest]:
    """The manifests of a file of the tests."""
    return [each for each in yaml.safe_load_all((DATA / name).read_text()) if each]


def running(plan: Plan, **observed: Any) -> Manifest:
    """The status of a job whose gang runs."""
    return {
        "phase": "Running",
        "observedGeneration": 1,
        "attempt": 0,
        "startTime": TIME,
        "plan": convert.plan_status(plan),
        "observed": {"iteration": 7, "iterationTime": "2.4s", "ranksReady": 12, **observed},
        "conditions": [
            condition("Planned", "True", "PlanReady", "runs as planned"),
            condition("Reserved", "True", "GangReserved", "all 12 pods were let go together"),
            condition("PodsReady", "True", "PodsRunning", "all 12 pods run"),
            condition("WindowsEnforced", "False", "NoSignal", "rank 2: NoSignal: no iteration"),
        ],
    }


def waiting(plan: Plan) -> Manifest:
    """The status of a job that waits for room."""
    return {
        "phase": "Waiting",
        "observedGeneration": 1,
        "plan": convert.plan_status(plan),
        "conditions": [
            condition("Planned", "True", "PlanReady", "runs as planned"),
            condition(
                "Reserved", "False", "WaitingForCapacity",
                "dc-west: node w1 has 0 of 1 nvidia.com/gpu free",
            ),
            condition("PodsReady", "False", "PodsStarting", "the gang is being reserved"),
        ],
    }  # fmt: skip


def fill(hub: ControlPlane) -> Plan:
    """Put data centres, links, jobs and their plans into a hub."""
    _, inputs, plan = problem()
    hub.apply(*schemas.crds().values())
    hub.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=30s")
    for space in (NAMESPACE, "team-b"):
        hub.kubectl("create", "namespace", space)
    hub.apply(*_centers(), *documents("topology.yaml")[3:], _moon(), *documents("job.yaml"))
    slow = documents("job.yaml")[0]
    slow["metadata"] |= {"name": "llama", "namespace": "team-b"}
    hub.apply(slow, ledger(inputs))
    patch_status(hub, "gtj", JOB, running(plan, linkBytes=carried()), NAMESPACE)
    patch_status(hub, "gtj", "llama", waiting(plan), "team-b")
    _centers_status(hub)
    reserved = {"reserved": [{"job": f"{NAMESPACE}/{JOB}", "rate": "53M"}], "reservedRate": "53M"}
    measured = {"measured": {"capacity": "60M", "roundTripTime": "45ms", "time": TIME}}
    patch_status(hub, "wan", "west-central", {**reserved, **measured})
    return plan


def patch_status(
    plane: ControlPlane, kind: str, name: str, status: Manifest, namespace: str = ""
) -> None:
    """Write a status as the controller does."""
    where = ["-n", namespace] if namespace else []
    patch = json.dumps({"status": status})
    arguments = ["patch", kind, name, *where, "--subresource=status", "--type=merge", "-p", patch]
    plane.kubectl(*arguments)


def _centers() -> list[Manifest]:
    reference = {"namespace": "geotrain-system", "name": "x", "key": "kubeconfig"}
    made = []
    for each in documents("topology.yaml")[:3]:
        is_hub = each["metadata"]["name"] == "dc-central"
        access: Manifest = {"local": True} if is_hub else {"kubeconfigSecretRef": reference}
        made.append({**each, "spec": {**each["spec"], "cluster": access}})
    return made


def _centers_status(hub: ControlPlane) -> None:
    for name in CENTERS:
        answers = name != "dc-east"
        reachable = condition(
            "Reachable",
            "True" if answers else "False",
            "Contacted" if answers else "Unreachable",
            "" if answers else "https://10.0.0.9:6443 does not answer: timed out",
        )
        gpus = {"capacity": 4, "allocatable": 4, "free": 1 if answers else 0}
        status = {"gpus": gpus, "nodes": 4, "podCIDRs": ["10.1.0.0/16"], "lastContact": TIME}
        patch_status(hub, "dc", name, {**status, "conditions": [reachable]})


def _moon() -> Manifest:
    link = documents("topology.yaml")[3]
    link["metadata"]["name"] = "west-moon"
    link["spec"] |= {"to": "moon"}
    return link


def carried() -> list[Manifest]:
    """What has crossed a link of the running job."""
    return [
        {"from": "dc-west", "to": "dc-central", "bytes": 3 << 30},
        {"from": "dc-central", "to": "dc-west", "bytes": 1 << 30},
    ]


def ledger(inputs: Inputs) -> Manifest:
    """What the controller keeps of the plan."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": ledger_name(JOB), "namespace": NAMESPACE},
        "data": {INPUTS: inputs.to_text()},
    }


def pod(job_uid: str, center: str, rank: int, node: str, attempt: int = 0) -> Manifest:
    """A rank's pod, bound to a node."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{JOB}-r{rank}",
            "namespace": NAMESPACE,
            "labels": {
                "geotrain.io/job": JOB,
                "geotrain.io/job-uid": job_uid,
                "geotrain.io/role": "trainer",
                "geotrain.io/rank": str(rank),
                "geotrain.io/attempt": str(attempt),
            },
        },
        "spec": {
            "nodeName": node,
            "nodeSelector": {"topology.geotrain.io/datacenter": center},
            "containers": [{"name": "trainer", "image": "trainer:1"}],
            "initContainers": [
                {"name": "geotrain-sidecar", "image": "x:1", "restartPolicy": "Always"}
            ],
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
        },
    }


def run_pod(plane: ControlPlane, manifest: Manifest, *, ended: bool = False) -> None:
    """Make a pod and say, as a kubelet would, that its containers run or have ended."""
    plane.apply(manifest)
    state: Manifest = {"terminated": {"exitCode": 0}} if ended else {"running": {"startedAt": TIME}}
    shared = {"ready": True, "restartCount": 0, "image": "x", "imageID": "x"}
    status = {
        "phase": "Succeeded" if ended else "Running",
        "containerStatuses": [{"name": "trainer", "state": state, **shared}],
        "initContainerStatuses": [{"name": "geotrain-sidecar", "state": state, **shared}],
    }
    patch_status(plane, "pod", manifest["metadata"]["name"], status, NAMESPACE)


def add_kubelet(plane: ControlPlane, kubelet: Kubelet, center: str) -> str:
    """A node whose logs the kubelet has; gives its name."""
    node = kubelet.node(f"{center}-node", {"topology.geotrain.io/datacenter": center})
    plane.kubectl("create", "-f", "-", stdin=json.dumps(node))
    return str(node["metadata"]["name"])


def kubeconfig(path: Path, **planes: ControlPlane) -> Path:
    """One kubeconfig with a context a plane; the first is the current one, in team-a."""
    merged: Manifest = {"apiVersion": "v1", "kind": "Config", "current-context": next(iter(planes))}
    for name, plane in planes.items():
        document = yaml.safe_load(plane.kubeconfig.read_text())
        for section in ("contexts", "clusters", "users"):
            entry = {**document[section][0], "name": name}
            if section == "contexts":
                entry["context"] = {"cluster": name, "user": name, "namespace": NAMESPACE}
            merged.setdefault(section, []).append(entry)
    path.write_text(yaml.safe_dump(merged))
    return path
