"""Feeds the example's prefill pool with the trace, from a pod on the hub."""

import json
from contextlib import AbstractContextManager
from typing import Any

from e2e.demo.training import EXAMPLE, NAMESPACE
from e2e.lab import ROOT, LabError, condition, hub, said, wait_for

POOL = "chat"
REPLAY = "replay"
REQUESTS = 200


def start(timeout: float = 300) -> None:
    """Apply the pool and its decode service; wait until all workers answer."""
    hub().apply_files(
        EXAMPLE / "decode.yaml", EXAMPLE / "prefill-profile.yaml", EXAMPLE / "pool.yaml"
    )
    wait_for(f"pool {POOL} with all its workers", _serves, timeout, every=2, seen=why)


def why() -> str:
    """What the pool's conditions and workers are."""
    found = hub().get("pfp", POOL, NAMESPACE)
    return f"workers {(found or {}).get('status', {}).get('workers')}; {said(found)}"


def replay(
    speed: float, during: AbstractContextManager[object], timeout: float = 300
) -> dict[str, Any]:
    """Send the trace's first requests ``speed`` times as fast as recorded; return the summary.

    ``during`` is entered when the pod that sends them runs, and left when it has ended.
    """
    hub().delete("job", REPLAY, NAMESPACE)
    hub().kubectl("delete", "configmap", REPLAY, "-n", NAMESPACE, "--ignore-not-found")
    hub().kubectl(
        "create", "configmap", REPLAY, "-n", NAMESPACE,
        f"--from-file={ROOT / 'examples/prefill/replay_trace.py'}",
        f"--from-file={ROOT / 'examples/data/azure_code_200.csv'}",
    )  # fmt: skip
    hub().apply(_job(speed))
    # Both wait on one open request: asking again and again would cost CPU while it is measured.
    sender = ("-n", NAMESPACE, f"job/{REPLAY}")
    hub().kubectl("wait", "--for=jsonpath={.status.ready}=1", "--timeout=60s", *sender)
    with during:
        hub().kubectl("logs", "--follow", *sender, timeout=timeout)
    wait_for("end of the replay", _is_over, timeout=60)
    text = hub().kubectl("logs", *sender)
    lines = [line for line in text.splitlines() if line.startswith("{")]
    if not lines:
        raise LabError(f"the replay printed no summary but: {text[-1000:]}")
    return dict(json.loads(lines[-1]))


def _job(speed: float) -> dict[str, Any]:
    command = [
        "python", "/trace/replay_trace.py", "--trace", "/trace/azure_code_200.csv",
        "--requests", str(REQUESTS), "--speed", str(speed), "--url", f"http://{POOL}-router:8080",
    ]  # fmt: skip
    container = {
        "name": "replay",
        "image": "geotrain:dev",
        "command": command,
        "resources": {"requests": {"cpu": "100m", "memory": "96Mi"}},
        "volumeMounts": [{"name": "trace", "mountPath": "/trace"}],
    }
    pod = {
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [{"name": "trace", "configMap": {"name": REPLAY}}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": REPLAY, "namespace": NAMESPACE},
        "spec": {"backoffLimit": 0, "template": {"spec": pod}},
    }


def _serves() -> bool:
    found = hub().get("pfp", POOL, NAMESPACE)
    workers = (found or {}).get("status", {}).get("workers") or []
    ready = bool(workers) and all(w["ready"] == w["desired"] for w in workers)
    return ready and condition(found, "Serving").get("status") == "True"


def _is_over() -> bool:
    status = (hub().get("job", REPLAY, NAMESPACE) or {}).get("status", {})
    if status.get("failed"):
        words = hub().kubectl("logs", "-n", NAMESPACE, f"job/{REPLAY}", check=False)
        raise RuntimeError(f"the replay failed: {words[-1500:]}")
    return bool(status.get("succeeded"))
