"""The project's chart, rendered and installed by the real helm."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.controlplane import ControlPlane, ProgramsMissingError, find_programs

CHART = Path(__file__).parents[2] / "charts" / "geotrain"
DEFINITIONS = CHART / "charts" / "crds" / "crds"
KUBERNETES = "1.37.2"  # helm that is built from its module knows no version of its own
NAMESPACE = "geotrain-system"


class HelmError(Exception):
    """helm refused; holds what it said."""


def helm(*arguments: str) -> str:
    """Run helm. Raises HelmError with what it said, ProgramsMissingError where there is none."""
    command = [str(find_programs("helm") / "helm"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HelmError(done.stderr.strip())
    return done.stdout


def _sets(values: Sequence[str]) -> list[str]:
    return [part for value in values for part in ("--set", value)]


def template(*values: str, namespace: str = NAMESPACE, kubernetes: str = KUBERNETES) -> str:
    """The chart as YAML text, with ``--set`` for each of ``values``."""
    place = ("--namespace", namespace, "--kube-version", kubernetes)
    return helm("template", "geotrain", str(CHART), *place, *_sets(values))


def render(
    *values: str, namespace: str = NAMESPACE, kubernetes: str = KUBERNETES
) -> list[dict[str, Any]]:
    """The chart's objects, those of hooks too."""
    text = template(*values, namespace=namespace, kubernetes=kubernetes)
    return _objects(text)


def _objects(text: str) -> list[dict[str, Any]]:
    # libyaml: the chart holds the CRDs, which Python alone reads in a second
    return [o for o in yaml.load_all(text, yaml.CSafeLoader) if o]


def render_or_skip(*values: str) -> Sequence[dict[str, Any]]:
    """The chart's objects; skips the test, saying why, where helm is missing."""
    try:
        return render(*values)
    except ProgramsMissingError as missing:
        pytest.skip(str(missing))


@dataclass(frozen=True)
class Release:
    """A release of the chart in a bare control plane; nothing waits for pods, which nobody runs."""

    plane: ControlPlane
    namespace: str = NAMESPACE
    name: str = "geotrain"
    chart: Path = CHART

    def install(self, *values: str, options: Sequence[str] = ()) -> str:
        """Install it; gives what helm said."""
        return self._run("install", self.name, str(self.chart), *_sets(values), *options)

    def upgrade(self, *values: str, options: Sequence[str] = ()) -> str:
        """Upgrade it to ``values`` and the chart's defaults."""
        return self._run("upgrade", self.name, str(self.chart), *_sets(values), *options)

    def rollback(self, revision: int) -> str:
        """Go back to a revision."""
        return self._run("rollback", self.name, str(revision))

    def uninstall(self, *options: str) -> str:
        """Uninstall it."""
        return self._run("uninstall", self.name, *options)

    def status(self) -> str:
        """deployed, failed, …; '' where there is none."""
        listed = yaml.safe_load(self._run("list", "--all", "-o", "json"))
        return next((str(r["status"]) for r in listed if r["name"] == self.name), "")

    def manifest(self) -> list[dict[str, Any]]:
        """The objects of the release, without hooks."""
        return _objects(self._run("get", "manifest", self.name))

    def hooks(self) -> list[dict[str, Any]]:
        """The objects of its hooks."""
        return _objects(self._run("get", "hooks", self.name))

    def _run(self, *arguments: str) -> str:
        created = ("--create-namespace",) if arguments[0] == "install" else ()
        login = (f"--kubeconfig={self.plane.kubeconfig}", "--namespace", self.namespace)
        return helm(*arguments, *login, *created)
