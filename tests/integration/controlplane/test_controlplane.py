"""The bare control plane: it starts, serves, comes back after a crash, and leaves nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.controlplane import (
    PROGRAMS_VARIABLE,
    ControlPlane,
    ControlPlaneError,
    ProgramsMissingError,
    find_programs,
)

pytestmark = pytest.mark.controlplane

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "none"}], "schedulerName": "ours"},
}
SCHEDULER = "profiles: [{schedulerName: ours}]"


def test_missing_programs_are_named_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(PROGRAMS_VARIABLE, str(tmp_path))
    with pytest.raises(ProgramsMissingError, match=r"etcd not found .* run `make programs`"):
        find_programs("etcd")


def test_objects_are_kept_and_namespaces_are_deleted(control_plane: ControlPlane) -> None:
    control_plane.kubectl("create", "namespace", "kept")
    assert "kept" in {n["metadata"]["name"] for n in control_plane.get("namespaces")["items"]}
    control_plane.kubectl("delete", "namespace", "kept", "--timeout=60s")


def test_what_kubectl_says_is_in_the_error(control_plane: ControlPlane) -> None:
    with pytest.raises(ControlPlaneError, match='"absent" not found'):
        control_plane.kubectl("get", "namespace", "absent")


def test_a_scheduled_pod_runs_on_a_node_played_by_kwok(control_plane_factory: Any) -> None:
    nodes = {"n0": ({"zone": "a"}, {"example.com/gpu": "4"})}
    plane = control_plane_factory(scheduler=SCHEDULER, nodes=nodes)
    plane.kubectl("create", "-f", "-", stdin=json.dumps(POD))
    plane.kubectl("wait", "pod/p", "--for=condition=Ready", "--timeout=60s")
    assert plane.get("pod", "p")["spec"]["nodeName"] == "n0"
    assert plane.get("node", "n0")["status"]["allocatable"]["example.com/gpu"] == "4"


def test_a_user_outside_the_masters_needs_a_role(tmp_path: Path) -> None:
    with ControlPlane(tmp_path, users={"alice": ["team"]}) as plane:
        login = f"--kubeconfig={plane.kubeconfig_of('alice')}"
        with pytest.raises(ControlPlaneError, match='User "alice" cannot list'):
            plane.kubectl("get", "pods", login)


def test_a_killed_server_comes_back_with_its_objects(tmp_path: Path) -> None:
    with ControlPlane(tmp_path) as plane:
        plane.kubectl("create", "namespace", "kept")
        plane.kill("kube-apiserver")
        with pytest.raises(ControlPlaneError, match="refused"):
            plane.kubectl("get", "namespaces")
        plane.start("kube-apiserver")
        assert plane.get("namespace", "kept")["metadata"]["name"] == "kept"


def test_nothing_runs_after_the_block(tmp_path: Path) -> None:
    with ControlPlane(tmp_path) as plane:
        assert _listeners(tmp_path)
    assert not _listeners(tmp_path)
    with pytest.raises(ControlPlaneError, match="refused"):
        plane.kubectl("get", "namespaces")


def _listeners(folder: Path) -> list[str]:
    """Command lines of running programs that name ``folder``."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line and "pytest" not in line.split("--")[0]:
            lines.append(line)
    return lines
