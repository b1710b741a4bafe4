"""The docker daemon and its images: started where none runs, and asked what it has."""

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

from e2e.testbed import places
from e2e.testbed.shell import TestbedError, absent, await_until, run, step, succeeds
from geotrain.units import Bytes

NEEDED = ("docker", "dockerd", "runc", "iptables")
RUNTIME = "runc-without-sys-resource"
CAP_SYS_RESOURCE = 1 << 24
CPU_WEIGHTS = {  # 16 times what a process has
    Path("/sys/fs/cgroup/cpu/docker/cpu.shares"): 16384,
    Path("/sys/fs/cgroup/docker/cpu.weight"): 1600,
}
REGISTRY_PROBE = "hello-world"  # an official image of 13 kB
REGISTRY_PATIENCE = 12.0  # seconds
REGISTRY_MEMORY = 86400.0  # seconds for which the answer is remembered


def is_running() -> bool:
    """Whether a docker daemon answers."""
    return succeeds("docker", "info", timeout=20)


def start() -> None:
    """Starts the docker daemon unless one runs.

    Raises:
        TestbedError: programs are missing, or this user may not start a daemon.
    """
    if is_running():
        return
    missing = absent(NEEDED)
    if missing:
        raise TestbedError(f"{', '.join(missing)} not found: `make preflight` says what to install")
    if os.geteuid() != 0:
        raise TestbedError(
            "no docker daemon answers, and only root may start one:"
            " start it (for example `sudo systemctl start docker`) and join the group docker"
        )
    with step("start dockerd", "10 s"):
        _launch()


def _launch() -> None:
    places.DOCKER.mkdir(parents=True, exist_ok=True)
    Path("/var/run/docker.pid").unlink(missing_ok=True)
    log = places.DOCKER / "dockerd.log"
    with log.open("ab") as output:
        daemon = subprocess.Popen(
            ["dockerd", *_runtime_options()],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )

    def up() -> bool:
        if daemon.poll() is not None:
            raise TestbedError(f"dockerd ended: {log.read_text(errors='replace')[-1500:]}")
        return is_running()

    await_until(f"dockerd answers (see {log})", up, timeout=60)


def _runtime_options() -> list[str]:
    """Which runtime containers need: our own where root lacks CAP_SYS_RESOURCE."""
    status = Path("/proc/self/status").read_text()
    effective = re.search(r"^CapEff:\s+([0-9a-f]+)", status, re.MULTILINE)
    if effective and int(effective.group(1), 16) & CAP_SYS_RESOURCE:
        return []
    # A copy, since containers must also start when this checkout is gone.
    runtime = places.DOCKER / RUNTIME
    shutil.copy2(places.HERE / RUNTIME, runtime)
    return [f"--add-runtime={RUNTIME}={runtime}", f"--default-runtime={RUNTIME}"]


def favour() -> None:
    """Lets containers outweigh what else runs on the machine, where docker keeps its own group.

    In a group of processes (cgroup v1, or v2 without systemd) all containers together would weigh
    as much as one other process: a test run beside the bed would then be what the bed measures.
    """
    for knob, weight in CPU_WEIGHTS.items():
        if knob.exists() and os.access(knob, os.W_OK):
            knob.write_text(str(weight))


def registry_answers() -> bool:
    """Whether public images can be pulled here; found out once a day, remembered in the cache."""
    forced = os.environ.get("GEOTRAIN_REGISTRY")
    if forced:
        return forced == "yes"
    memory = places.RUN / "registry.json"
    if memory.exists():
        known = json.loads(memory.read_text())
        if time.time() - known["at"] < REGISTRY_MEMORY:
            return bool(known["answers"])
    answers = succeeds("docker", "pull", "-q", REGISTRY_PROBE, timeout=REGISTRY_PATIENCE)
    memory.parent.mkdir(parents=True, exist_ok=True)
    memory.write_text(json.dumps({"at": time.time(), "answers": answers}))
    return answers


def image_id(name: str) -> str | None:
    """An image's id, or None where docker has no such image."""
    return run("docker", "image", "inspect", "-f", "{{.Id}}", name, check=False).strip() or None


def image_label(name: str, label: str) -> str | None:
    """A label of an image, or None."""
    template = f'{{{{index .Config.Labels "{label}"}}}}'
    return run("docker", "image", "inspect", "-f", template, name, check=False).strip() or None


def container_state(name: str) -> str | None:
    """``running``, ``exited`` …, or None where there is no such container."""
    return run("docker", "inspect", "-f", "{{.State.Status}}", name, check=False).strip() or None


def remove_container(name: str) -> None:
    """Removes a container if it exists."""
    run("docker", "rm", "-f", name, check=False)


def ensure_network(name: str, mtu: Bytes) -> None:
    """Makes a bridge of this MTU unless there is one; of another MTU, it is made anew."""
    option = "com.docker.network.driver.mtu"
    template = f'{{{{index .Options "{option}"}}}}'
    found = run("docker", "network", "inspect", "-f", template, name, check=False).strip()
    if found != str(mtu):
        remove_network(name)
        run("docker", "network", "create", "--opt", f"{option}={mtu}", name)


def remove_network(name: str) -> None:
    """Removes a network if it exists. Raises TestbedError while something is attached to it."""
    if succeeds("docker", "network", "inspect", name):
        run("docker", "network", "rm", name)
