"""Installs geotrain on the three clusters as a person would: Helm, join."""

import json
import sys
from pathlib import Path

from e2e.lab import DATA_CENTERS, HUB, ROOT, SYSTEM, Cluster, hub, run, wait_for
from e2e.testbed import docker, images
from e2e.testbed.shell import each

CHART = ROOT / "charts/geotrain"
GPU_RESOURCE = "example.com/gpu"
IMAGE = ("--set", "image.repository=geotrain", "--set", "image.tag=dev")
BUILD = r"podAnnotations.geotrain\.io/build"


def install() -> None:
    """Bring geotrain onto hub and members; safe to repeat, and picks up a rebuilt image."""
    each(DATA_CENTERS, lambda name: _helm(Cluster(name)))
    for name in DATA_CENTERS:
        join(name, "--skip-connectivity")  # test_join.py connects them
    for name in DATA_CENTERS:
        wait_for(f"Reachable {name}", lambda name=name: _is_ready(name), timeout=120)


def join(name: str, *options: str) -> None:
    """Register a cluster as the data centre of its name."""
    local = ("--local",) if name == HUB else ()
    member = () if local else ("--context", f"kind-{name}", "--server", server(name))
    run(
        str(Path(sys.executable).with_name("geotrain")), "join", name,
        "--hub-context", f"kind-{HUB}", "--gpu-resource", GPU_RESOURCE, *member, *local, *options,
    )  # fmt: skip


def server(name: str) -> str:
    """The address of a member's API server as the pods of the other clusters reach it."""
    node = Cluster(name).list("nodes")[0]
    address = next(a["address"] for a in node["status"]["addresses"] if a["type"] == "InternalIP")
    return f"https://{address}:6443"


def _helm(cluster: Cluster) -> None:
    _unlock(cluster)
    cluster.helm(
        "upgrade", "--install", "geotrain", str(CHART), "--namespace", SYSTEM, "--create-namespace",
        *values(cluster.name), "--wait", "--timeout", "4m",
    )  # fmt: skip


def _unlock(cluster: Cluster) -> None:
    """Drop the record of an installation that was cut off: Helm waits for such a one for ever."""
    pending = json.loads(cluster.helm("list", "--pending", "--namespace", SYSTEM, "-o", "json"))
    for release in pending:
        record = f"sh.helm.release.v1.{release['name']}.v{release['revision']}"
        cluster.kubectl("delete", "secret", record, "--namespace", SYSTEM)


def values(name: str) -> tuple[str, ...]:
    """What the chart is told in a cluster, as options of Helm."""
    role = ("--set", "hub.enabled=true") if name == HUB else ()
    # The tag is always the same: a new build rolls the pods, an old one changes nothing.
    return *role, *IMAGE, "--set-string", f"{BUILD}={docker.image_id(images.OPERATOR)}"


def _is_ready(name: str) -> bool:
    found = hub().get("datacenter", name)
    conditions = {
        c["type"]: c["status"] for c in (found or {}).get("status", {}).get("conditions", [])
    }
    return conditions.get("Reachable") == "True" and conditions.get("AgentsReady") == "True"
