"""The three clusters as a test or the demo sees them: kubectl, helm, and waiting with a reason."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
HUB = "dc-central"
DATA_CENTERS = ("dc-west", "dc-central", "dc-east")
SYSTEM = "geotrain-system"


class LabError(Exception):
    """A command failed or something did not happen in time; says which and what was seen."""


def programs() -> dict[str, str]:
    """The environment in which the bed's own kubectl, helm and kind come first."""
    folder = os.environ.get("GEOTRAIN_PROGRAMS", str(Path.home() / ".cache/geotrain/bin"))
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def run(*command: str, text: str | None = None, timeout: float = 300, check: bool = True) -> str:
    """Run a program and return what it printed; a failure carries its words."""
    done = subprocess.run(
        command,
        input=text,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=programs(),
        cwd=ROOT,
        check=False,
    )
    if check and done.returncode:
        words = (done.stderr or done.stdout).strip()
        raise LabError(f"{' '.join(command)[:200]} ended with {done.returncode}: {words[-2000:]}")
    return done.stdout


def wait_for(
    what: str,
    look: Callable[[], Any],
    timeout: float = 120,
    every: float = 1.0,
    seen: Callable[[], str] | None = None,
) -> Any:
    """Call ``look`` until it returns something true; past ``timeout`` seconds say what was."""
    deadline = time.monotonic() + timeout
    last = ""
    while time.monotonic() < deadline:
        try:
            if found := look():
                return found
        except (LabError, KeyError, IndexError, subprocess.TimeoutExpired) as error:
            last = str(error)
        time.sleep(every)
    state = seen() if seen else last
    raise LabError(f"no {what} within {timeout:.0f} s; last seen: {state or 'nothing'}")


@dataclass(frozen=True)
class Cluster:
    """One kind cluster, reached through its kubeconfig context."""

    name: str

    @property
    def context(self) -> str:
        return f"kind-{self.name}"

    def kubectl(
        self, *arguments: str, text: str | None = None, timeout: float = 120, check: bool = True
    ) -> str:
        return run(
            "kubectl",
            "--context",
            self.context,
            *arguments,
            text=text,
            timeout=timeout,
            check=check,
        )

    def helm(self, *arguments: str, timeout: float = 300) -> str:
        return run("helm", "--kube-context", self.context, *arguments, timeout=timeout)

    def get(self, kind: str, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        """An object, or None where it does not exist."""
        where = ("-n", namespace) if namespace else ()
        text = self.kubectl("get", kind, name, *where, "--ignore-not-found", "-o", "json")
        return json.loads(text) if text.strip() else None

    def list(
        self, kind: str, namespace: str | None = None, selector: str = ""
    ) -> list[dict[str, Any]]:
        where = ("-n", namespace) if namespace else ("-A",)
        chosen = ("-l", selector) if selector else ()
        return json.loads(self.kubectl("get", kind, *where, *chosen, "-o", "json"))["items"]

    def apply(self, *manifests: Mapping[str, Any]) -> None:
        items = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        self.kubectl("apply", "-f", "-", text=json.dumps(items))

    def apply_files(self, *paths: Path) -> None:
        for path in paths:
            self.kubectl("apply", "-f", str(path))

    def delete(self, kind: str, name: str, namespace: str | None = None, *options: str) -> None:
        where = ("-n", namespace) if namespace else ()
        self.kubectl("delete", kind, name, *where, "--ignore-not-found", *options, timeout=180)


def clusters() -> dict[str, Cluster]:
    return {name: Cluster(name) for name in DATA_CENTERS}


def hub() -> Cluster:
    return Cluster(HUB)


def conditions(resource: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The conditions of a resource; none where it does not exist or says nothing yet."""
    return ((resource or {}).get("status") or {}).get("conditions") or []


def condition(resource: Mapping[str, Any] | None, kind: str) -> dict[str, Any]:
    """A condition of a resource, or an empty one."""
    return next((c for c in conditions(resource) if c["type"] == kind), {})


def said(resource: Mapping[str, Any] | None) -> str:
    """What a resource's conditions say, in one line."""
    return "; ".join(
        f"{c['type']}={c['status']} {c['reason']}: {c['message']}" for c in conditions(resource)
    )
