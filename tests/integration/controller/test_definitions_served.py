"""The controller looks at the hub's definitions before anything else."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support import schemas
from support.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane

JOB = "GeoTrainingJob"


@pytest.fixture
def plane(hub_plane: ControlPlane) -> ControlPlane:
    hub_plane.apply(*schemas.crds().values())
    hub_plane.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=30s")
    return hub_plane


@contextmanager
def controller(plane: ControlPlane, folder: Path) -> Iterator[subprocess.Popen[str]]:
    settings = folder / "settings.yaml"
    settings.write_text("controller: {healthPort: 0}\nlog: {form: text}\n")
    command = [sys.executable, "-m", "geotrain", "controller", f"--settings={settings}"]
    command.append(f"--kubeconfig={plane.kubeconfig}")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def refusal(plane: ControlPlane, folder: Path) -> str:
    with controller(plane, folder) as process:
        said = process.communicate(timeout=120)[1]
    assert process.returncode == 1
    assert "Traceback" not in said
    return said


def spec_of(definition: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = schemas.part(definition, "spec")["properties"]
    return fields


def test_an_older_definition_ends_it_with_the_field_and_the_command(
    plane: ControlPlane, tmp_path: Path
) -> None:
    older = schemas.crds()[JOB]
    del spec_of(older)["schedule"]
    plane.apply(older)
    said = refusal(plane, tmp_path)
    assert "geotrainingjobs.geotrain.io is older than this controller" in said
    assert "lacks spec.schedule: run `helm show crds" in said
    assert len(said.splitlines()) == 1


def test_a_missing_definition_ends_it(plane: ControlPlane, tmp_path: Path) -> None:
    plane.kubectl("delete", "crd", "wanlinks.geotrain.io")
    said = refusal(plane, tmp_path)
    assert "CustomResourceDefinition wanlinks.geotrain.io is missing: run `helm show crds" in said


def test_under_a_newer_definition_it_runs(plane: ControlPlane, tmp_path: Path) -> None:
    newer = schemas.crds()[JOB]
    spec_of(newer)["colour"] = {"type": "string"}
    plane.apply(newer)
    with controller(plane, tmp_path) as process:
        assert process.stderr is not None
        deadline = time.monotonic() + 120
        while "health on" not in (line := process.stderr.readline()):
            assert line, "it ended"
            assert time.monotonic() < deadline
        process.terminate()
        process.stderr.read()
