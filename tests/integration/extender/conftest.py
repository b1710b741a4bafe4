"""A real API server and kube-scheduler with our configuration, nodes by kwok, and our extender."""

import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from geotrain.api import labels
from support.controlplane import ControlPlane, free_ports

PATIENCE = 120.0  # seconds; a second is usual, a busy machine takes longer
_ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "extender"},
    "rules": [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]}],
}
_BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "extender"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "extender"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "extenders"}],
}


def eventually(question: Callable[[], Any]) -> Any:
    """The first answer that is true. Fails when patience ends."""
    end = time.monotonic() + PATIENCE
    while True:
        if answer := question():
            return answer
        assert time.monotonic() < end, f"still {answer!r} after {PATIENCE:.0f} s"
        time.sleep(0.2)


class Extender:
    """Our extender as a process of its own, with the rights that it needs and no more."""

    def __init__(self, kubeconfig: Path, port: int, log: Path) -> None:
        self._kubeconfig, self._log = kubeconfig, log
        self._process: subprocess.Popen[bytes] | None = None
        self.port = port

    def start(self) -> None:
        arguments = [f"--kubeconfig={self._kubeconfig}", f"--port={self.port}"]
        command = [sys.executable, "-P", "-m", "geotrain", "extender", *arguments]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        eventually(self.ready)

    def stop(self) -> int:
        """Ask it to end; gives its exit status."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(60)

    def ready(self) -> bool:
        try:
            return "ok" in self._get("readyz")
        except (urllib.error.URLError, OSError):
            return False

    def metric(self, name: str, **tags: str) -> float:
        """The value of a series, 0 where it does not exist yet."""
        wanted = ",".join(f'{key}="{value}"' for key, value in sorted(tags.items()))
        found = re.search(rf"^{name}{{{wanted}}} (\S+)$", self._get("metrics"), re.MULTILINE)
        return float(found[1]) if found else 0.0

    def _get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}", timeout=5) as answer:
            return answer.read().decode()


class Bed:
    """What the tests do with the control plane. Each test uses a data centre of its own."""

    eventually = staticmethod(eventually)

    def __init__(self, plane: ControlPlane, extender: Extender) -> None:
        self.plane, self.extender = plane, extender

    def add_node(self, name: str, center: str, **resources: str) -> None:
        amounts = {"example.com/gpu": resources.pop("gpu", "8"), **resources}
        self.plane.add_node(name, {labels.DATA_CENTER: center}, amounts)

    def create(self, *pods: dict[str, Any]) -> None:
        self.plane.apply(*pods)

    def lift_gate(self, name: str) -> None:
        patch = '{"spec": {"schedulingGates": null}}'
        self.plane.kubectl("patch", "pod", name, "-n", "team-a", "--type=merge", "-p", patch)

    def pods(self) -> dict[str, dict[str, Any]]:
        return {p["metadata"]["name"]: p for p in self.plane.get("pods", "-n", "team-a")["items"]}

    def nodes_of(self, *names: str) -> list[str]:
        """Where the pods are once all are bound."""

        def bound() -> list[str] | None:
            pods = self.pods()
            nodes = [pods[n]["spec"].get("nodeName", "") if n in pods else "" for n in names]
            return nodes if all(nodes) else None

        return eventually(bound)

    def refusal(self, name: str, pattern: str) -> str:
        """The first message of a FailedScheduling event of the pod that matches."""

        def told() -> str | None:
            selector = f"--field-selector=involvedObject.name={name},reason=FailedScheduling"
            events = self.plane.get("events", "-n", "team-a", selector)["items"]
            return next((e["message"] for e in events if re.search(pattern, e["message"])), None)

        return eventually(told)


@pytest.fixture(scope="module")
def bed(control_plane_factory: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """The whole set-up, once for a module."""
    (port,) = free_ports(1)
    text = (files("geotrain.roles.extender") / "scheduler-config.yaml").read_text()
    configuration = yaml.safe_load(text)
    configuration["extenders"][0]["urlPrefix"] = f"http://127.0.0.1:{port}"
    plane = control_plane_factory(
        scheduler=configuration, nodes={}, users={"extender": ["extenders"]}
    )
    plane.apply(_ROLE, _BINDING, _priority(labels.PRIORITY_TRAINING, 1000), _priority("low", 10))
    plane.apply(_priority(labels.PRIORITY_PREFILL, -10))
    plane.kubectl("create", "namespace", "team-a")
    log = tmp_path_factory.mktemp("extender") / "log"
    extender = Extender(plane.kubeconfig_of("extender"), port, log)
    extender.start()
    yield Bed(plane, extender)
    assert extender.stop() == 0, log.read_text()[-2000:]
    assert "Traceback" not in log.read_text()


def _priority(name: str, value: int) -> dict[str, Any]:
    policy = "Never" if name == labels.PRIORITY_PREFILL else "PreemptLowerPriority"
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "preemptionPolicy": policy,
    }
