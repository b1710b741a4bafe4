"""The project's chart, rendered by the real helm."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.controlplane import ProgramsMissingError, find_programs

CHART = Path(__file__).parents[2] / "charts" / "geotrain"
KUBERNETES = "1.37.2"  # helm that is built from its module knows no version of its own


class HelmError(Exception):
    """helm refused; holds what it said."""


def helm(*arguments: str) -> str:
    """Run helm. Raises HelmError with what it said, ProgramsMissingError where there is none."""
    command = [str(find_programs("helm") / "helm"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HelmError(done.stderr.strip())
    return done.stdout


def template(*values: str, namespace: str = "geotrain-system", kubernetes: str = KUBERNETES) -> str:
    """The chart as YAML text, with ``--set`` for each of ``values``."""
    sets = [part for value in values for part in ("--set", value)]
    place = ("--namespace", namespace, "--kube-version", kubernetes)
    return helm("template", "geotrain", str(CHART), *place, *sets)


def render(
    *values: str, namespace: str = "geotrain-system", kubernetes: str = KUBERNETES
) -> list[dict[str, Any]]:
    """The chart's objects."""
    text = template(*values, namespace=namespace, kubernetes=kubernetes)
    return [o for o in yaml.safe_load_all(text) if o]


def render_or_skip(*values: str) -> Sequence[dict[str, Any]]:
    """The chart's objects; skips the test, saying why, where helm is missing."""
    try:
        return render(*values)
    except ProgramsMissingError as missing:
        pytest.skip(str(missing))
