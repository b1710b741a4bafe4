"""Small jobs for the tests: their pods answer the bed's probe instead of training."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from e2e.lab import DATA_CENTERS, Cluster, LabError, condition, hub, said, wait_for
from e2e.testbed import places
from geotrain.api import labels

PROBE = (places.HERE / "probe.py").read_text()
PORT = 9000
PROFILE = "layers"
EVERYWHERE = {"dc-west": 2, "dc-central": 2, "dc-east": 2}
KINDS = "pods,services,endpointslices,configmaps,networkpolicies"
HUB_KINDS = "bandwidthschedules,deployments"


def serving(cpu: str = "20m", gpus: int = 1) -> dict[str, Any]:
    """A container that answers the probe."""
    return {
        "name": "trainer",
        "image": "geotrain:dev",
        "imagePullPolicy": "Never",
        "command": ["python3", "-c", PROBE, "serve", str(PORT)],
        "resources": {
            "requests": {"cpu": cpu},
            "limits": {"example.com/gpu": gpus} if gpus else {},
        },
    }


def pod_spec(container: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """The spec of a pod that ends at once when it is told to."""
    ends = {"terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False}
    return {**ends, "containers": [container], **fields}


def profile(
    namespace: str, name: str = PROFILE, boundary: int = 20_000, **changes: Any
) -> dict[str, Any]:
    """A ConfigMap with the costs of twelve small layers; ``changes`` are fields of the layers.

    ``boundary``: bytes that go from one stage to the next.
    """
    layers = {
        "count": 12,
        "forward": "10ms",
        "inputGradient": "10ms",
        "weightGradient": "10ms",
        "activationBytes": "1Mi",
        "parameterBytes": "1Mi",
    }
    document = {
        "layers": [layers | changes],
        "boundaryBytes": str(boundary),
        "optimizerStep": "0ms",
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {"profile.json": json.dumps(document)},
    }


def manifest(
    namespace: str,
    stages: Mapping[str, int],
    *,
    name: str = "gpt",
    data: int = 1,
    container: Mapping[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A GeoTrainingJob whose stages lie where ``stages`` says."""
    fixed = [{"dataCenter": where, "stages": count} for where, count in stages.items()]
    wanted: dict[str, Any] = {
        "profileRef": {"name": PROFILE},
        "parallelism": {"data": data, "pipeline": sum(stages.values())},
        "batch": {"global": 2 * data, "micro": 1},
        "placement": {"policy": "Fixed", "stages": fixed},
        "template": {"spec": pod_spec(container or serving())},
    }
    return {
        "apiVersion": "geotrain.io/v1alpha1",
        "kind": "GeoTrainingJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": wanted | spec,
    }


@dataclass(frozen=True)
class Job:
    """A job that was applied to the hub, and what the three clusters hold of it."""

    namespace: str
    name: str = "gpt"

    @classmethod
    def applied(cls, job: Mapping[str, Any]) -> "Job":
        """Apply a manifest."""
        hub().apply(job)
        return cls(job["metadata"]["namespace"], job["metadata"]["name"])

    def resource(self) -> dict[str, Any]:
        """The job as the hub has it."""
        found = hub().get("gtj", self.name, self.namespace)
        if found is None:
            raise LabError(f"there is no job {self.name}")
        return found

    def patch(self, **spec: Any) -> None:
        """Change fields of the spec."""
        self._kubectl("patch", "gtj", self.name, "--type=merge", "-p", json.dumps({"spec": spec}))

    def condition(self, kind: str) -> dict[str, Any]:
        return condition(self.resource(), kind)

    def why(self) -> str:
        """What the conditions say."""
        return said(self.resource())

    def await_reason(self, kind: str, reason: str, timeout: float = 60) -> str:
        """Wait for a reason of a condition; gives the message beside it."""

        def look() -> dict[str, Any] | None:
            found = self.condition(kind)
            return found if found.get("reason") == reason else None

        said = wait_for(f"{kind} for {reason} of {self.name}", look, timeout, seen=self.why)
        return str(said["message"])

    def await_event(self, reason: str, timeout: float = 60) -> str:
        """Wait until an event of the job has a reason; gives its message."""
        which = f"involvedObject.name={self.name},reason={reason}"

        def look() -> list[Any]:
            text = self._kubectl("get", "events", "--field-selector", which, "-o", "json")
            return list(json.loads(text)["items"])

        found = wait_for(f"event {reason} of {self.name}", look, timeout, seen=self.why)
        return str(found[-1]["message"])

    def await_running(self, timeout: float = 120) -> list[dict[str, Any]]:
        """Wait until all pods run; gives them in order of their ranks."""

        def look() -> bool:
            job = self.resource()
            present = job["status"].get("observedGeneration") == job["metadata"]["generation"]
            return present and condition(job, "PodsReady").get("status") == "True"

        wait_for(f"running gang of {self.name}", look, timeout, seen=self.why)
        return self.pods()

    def pods(self) -> list[dict[str, Any]]:
        """The pods of all clusters, in order of their ranks."""
        chosen = f"{labels.JOB}={self.name},{labels.ROLE}={labels.ROLE_TRAINER}"
        found = [p for n in DATA_CENTERS for p in Cluster(n).list("pods", self.namespace, chosen)]
        return sorted(found, key=lambda pod: int(pod["metadata"]["labels"][labels.RANK]))

    def home(self, rank: int) -> Cluster:
        """The cluster in which a rank runs, by the plan."""
        plan = self.resource()["status"]["plan"]
        stage = rank // plan["data"]
        for part in plan["stages"]:
            if part["firstStage"] <= stage < part["firstStage"] + part["stages"]:
                return Cluster(part["dataCenter"])
        raise LabError(f"the plan has no rank {rank}")

    def probe(self, rank: int, *command: str) -> str:
        """Run a command of the probe in a rank's training container."""
        return execute(self.home(rank), self.namespace, f"{self.name}-r{rank}", *command)

    def delete(self, timeout: float = 60) -> None:
        """Delete the job and wait until it is gone, which it is only when all it had is."""
        wait = f"--timeout={timeout:.0f}s"
        self._kubectl("delete", "gtj", self.name, "--ignore-not-found", wait, timeout=timeout + 20)

    def _kubectl(self, *arguments: str, timeout: float = 60) -> str:
        return hub().kubectl("-n", self.namespace, *arguments, timeout=timeout)


def execute(cluster: Cluster, namespace: str, pod: str, *command: str) -> str:
    """Run a command of the probe in a pod; gives what it printed."""
    inside = ("exec", pod, "--", "python3", "-c", PROBE, *command)
    return cluster.kubectl("-n", namespace, *inside).strip()


def held(namespace: str) -> dict[str, list[str]]:
    """Every object of geotrain's that the clusters hold in a namespace, by cluster; empty if none.

    EndpointSlices that Kubernetes itself makes for a Service are gone with it.
    """
    found: dict[str, list[str]] = {}
    for name in DATA_CENTERS:
        cluster = Cluster(name)
        kinds = f"{KINDS},{HUB_KINDS}" if name == hub().name else KINDS
        ours = ("-l", f"{labels.MANAGED_BY}={labels.MANAGED_BY_VALUE}", "-o", "name")
        text = cluster.kubectl("get", kinds, "-n", namespace, *ours)
        if text.strip():
            found[name] = text.split()
    return found


def await_nothing_left(namespace: str, timeout: float = 30) -> None:
    """Wait until no cluster holds anything of geotrain's in a namespace."""
    wait_for(
        "empty namespace", lambda: not held(namespace), timeout, seen=lambda: str(held(namespace))
    )


def uids(pods: Sequence[Mapping[str, Any]]) -> set[str]:
    """What tells one pod from a later one of the same name."""
    return {pod["metadata"]["uid"] for pod in pods}


def container_in(data_center: str, namespace: str, name: str, container: Mapping[str, Any]) -> None:
    """Start a pod that is none of geotrain's, and wait until it is Ready."""
    Cluster(data_center).apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace},
            "spec": pod_spec(container),
        }
    )
    Cluster(data_center).kubectl(
        "wait", f"pod/{name}", "-n", namespace, "--for=condition=Ready", "--timeout=60s"
    )
