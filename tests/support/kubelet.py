"""Plays the kubelet on a bare control plane: runs geotrain's own containers as processes here.

Their containers are ``python -m geotrain`` with arguments and an account, so this does the same
with the account's own token. ``Hooks`` runs Helm's hooks and writes each Job's end into its
status, for which Helm waits; ``Controller`` runs the controller while its Deployment wants one.
"""

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from support.controlplane import ControlPlane, ControlPlaneError

PAUSE = 0.3  # seconds between two looks
TRIES = 25
CONTROLLER = "geotrain-controller"


class _Player:
    """A thread that looks again and again; a context manager that raises what went wrong in it."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane = plane
        self._namespace = namespace
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._fault: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end.set()
        self._thread.join()
        self.stop()
        if self._fault is not None and error is None:
            raise self._fault

    def look(self) -> None:
        """Do what is to be done now."""
        raise NotImplementedError

    def stop(self) -> None:
        """End what is still running."""

    def login(self, account: str) -> Path:
        """A kubeconfig with a token of the account."""
        path = self._plane.directory / f"kubeconfig-of-{account}"
        token = self._plane.kubectl("create", "token", account, "-n", self._namespace).strip()
        document = yaml.safe_load(self._plane.kubeconfig.read_text())
        document["users"][0]["user"] = {"token": token}
        path.write_text(yaml.safe_dump(document))
        return path

    def _run(self) -> None:
        while not self._end.wait(PAUSE):
            try:
                self.look()
            except ControlPlaneError as error:
                self._fault = error
                return


class Hooks(_Player):
    """Runs every Job of a namespace once. ``said`` is what they printed, by the Job's name."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        super().__init__(plane, namespace)
        self._seen: set[str] = set()
        self._tries: Counter[str] = Counter()
        self.said: dict[str, str] = {}

    def look(self) -> None:
        """Run the Jobs that are new; one that Helm is just replacing is tried again."""
        for job in self._plane.get("jobs", "-n", self._namespace)["items"]:
            uid = job["metadata"]["uid"]
            if uid in self._seen:
                continue
            try:
                self._work(job)
                self._seen.add(uid)
            except ControlPlaneError:
                self._tries[uid] += 1
                if self._tries[uid] == TRIES:
                    raise

    def _work(self, job: Mapping[str, Any]) -> None:
        pod = job["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        began = _now()
        role, *rest = container["args"]
        login = f"--kubeconfig={self.login(pod['serviceAccountName'])}"
        done = subprocess.run(
            [sys.executable, "-m", "geotrain", role, login, *rest],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        name = job["metadata"]["name"]
        self.said[name] = self.said.get(name, "") + done.stdout
        status = _ended(began, succeeded=done.returncode == 0)
        self._plane.kubectl(
            *("patch", "job", name, "-n", self._namespace, "--subresource=status"),
            *("--type=merge", "-p", json.dumps({"status": status})),
        )


class Controller(_Player):
    """Runs the controller while its Deployment has replicas; a Pod tells whether it runs."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        super().__init__(plane, namespace)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """What it wrote."""
        return self._plane.directory / "controller.log"

    def look(self) -> None:
        """Start or end it."""
        is_wanted = self._is_wanted()
        if is_wanted and self._process is None:
            self._start()
        elif not is_wanted and self._process is not None:
            self.stop()

    def stop(self) -> None:
        """End it, then its Pod."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None
            self._plane.kubectl(
                *("delete", "pod", CONTROLLER, "-n", self._namespace, "--ignore-not-found"),
                "--grace-period=0",
            )

    def _is_wanted(self) -> bool:
        text = self._plane.kubectl(
            *("get", "deploy", CONTROLLER, "-n", self._namespace, "--ignore-not-found"),
            *("-o", "jsonpath={.spec.replicas}"),
        )
        return text not in ("", "0")

    def _start(self) -> None:
        settings = self._plane.directory / "settings.yaml"
        settings.write_text("controller: {healthPort: 0}\n")
        labels = {"app.kubernetes.io/name": "geotrain", "app.kubernetes.io/component": "controller"}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": CONTROLLER, "namespace": self._namespace, "labels": labels},
            "spec": {"containers": [{"name": "controller", "image": "none"}]},
        }
        command = [sys.executable, "-m", "geotrain", "controller", f"--settings={settings}"]
        command += [f"--kubeconfig={self.login(CONTROLLER)}", f"--namespace={self._namespace}"]
        self._plane.apply(pod)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=dict(os.environ))


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _ended(began: str, *, succeeded: bool) -> dict[str, Any]:
    """A Job's status at its end, as the API server takes it."""
    end = _now()
    types = ("SuccessCriteriaMet", "Complete") if succeeded else ("FailureTarget", "Failed")
    conditions = [
        {"type": each, "status": "True", "lastProbeTime": end, "lastTransitionTime": end}
        for each in types
    ]
    counts = {"succeeded": 1, "completionTime": end} if succeeded else {"failed": 1}
    return {"startTime": began, "conditions": conditions, "uncountedTerminatedPods": {}, **counts}
