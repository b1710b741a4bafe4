"""The three clusters: brought up, repaired, described and taken down."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.testbed import cpuwatch, docker, helpers, images, places, rights
from e2e.testbed.config import Bed, DataCenter
from e2e.testbed.render import AUDIT_POLICY, kind_config, node_script
from e2e.testbed.shell import TestbedError, await_until, console, each, run, step, succeeds
from geotrain.api.labels import DATA_CENTER

STATE = places.RUN / "bed.json"
KIND = places.PROGRAMS / "kind"
KUBECTL = places.PROGRAMS / "kubectl"
ADMIN_CONF = "/etc/kubernetes/admin.conf"
NETWORK = "geotrain-testbed"  # the nodes' own, since kind's has no jumbo frames
API_PORT = 6443  # the API server's on its node
CREATE_TIMEOUT = 400.0  # seconds
READY_TIMEOUT = 120.0
ANSWER_TIMEOUT = 30.0


@dataclass(frozen=True)
class Node:
    """A data centre's node as docker sees it."""

    identity: str  # changes when it is made anew or restarted
    running: bool
    address: str


def inspect(dc: DataCenter) -> Node | None:
    """The node's container, or None where there is none."""
    template = (
        "{{.Id}} {{.State.StartedAt}} {{.State.Running}}"
        " {{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
    )
    words = run("docker", "inspect", "-f", template, dc.node, check=False).split()
    if len(words) < 3:
        return None
    return Node(" ".join(words[:2]), words[2] == "true", words[3] if len(words) > 3 else "")


def kubectl(dc: DataCenter, *arguments: str, stdin: str | None = None) -> str:
    """Runs kubectl as the cluster's admin."""
    return run(KUBECTL, f"--kubeconfig={places.kubeconfig(dc.name)}", *arguments, stdin=stdin)


def up(bed: Bed) -> None:
    """Brings the bed into its wanted state, whatever it is in; at once where it is in it."""
    begin = time.monotonic()
    docker.start()
    images.require_programs(["kind", "kubectl", "kube-router"])
    node_image = images.node()
    python_image = images.base()
    places.RUN.mkdir(parents=True, exist_ok=True)
    cpuwatch.ensure_running(bed.sample_every)
    if _is_as_it_was_left(bed, node_image, python_image):
        console.print(f"[green]✓[/] the bed is up [dim]{time.monotonic() - begin:.1f} s[/]")
        return
    STATE.unlink(missing_ok=True)
    missing = [dc for dc in bed.data_centers if not _is_usable(dc, node_image)]
    if missing:
        names = ", ".join(dc.name for dc in missing)
        docker.ensure_network(NETWORK, bed.wan.mtu)
        with step(f"make the clusters {names}", "30 s for one, 75 s for three"):
            _create_all(missing, node_image)
    with step("join their pod networks by the WAN, start policies and accelerators", "25 s"):
        _furnish(bed, python_image, images.policy(node_image))
    docker.favour()
    _export(bed)
    _remember(bed, node_image, python_image)
    console.print(f"[green]✓[/] the bed is up [dim]{time.monotonic() - begin:.1f} s[/]")


def down(bed: Bed) -> None:
    """Removes the clusters and what runs beside them. The cache stays."""
    STATE.unlink(missing_ok=True)
    cpuwatch.stop()
    if not docker.is_running():
        console.print("no docker daemon answers, so there is no bed")
        return
    with step("remove the clusters", "5 s"):
        each(bed.data_centers, _delete)
    docker.remove_network(NETWORK)
    for dc in bed.data_centers:
        run(KIND, "delete", "cluster", f"--name={dc.name}")  # its entries in the user's kubeconfig
        places.kubeconfig(dc.name).unlink(missing_ok=True)
        places.internal_kubeconfig(dc.name).unlink(missing_ok=True)


def _is_usable(dc: DataCenter, node_image: str | None) -> bool:
    """Whether a cluster is there, made as it would be now, and has run without a break since.

    One that was cut off and started again is made anew: what its programs wrote last may be lost
    (etcd does not wait for the disk here), and 75 s buy a bed that is known to be good.
    """
    node = inspect(dc)
    if node is None or not node.running:
        return False
    if not _made(dc).exists() or _made(dc).read_text() != _birth(dc, node, node_image):
        return False  # half made, restarted, or of another image or configuration
    try:
        await_until(f"{dc.name} answers", lambda: _answers(dc), ANSWER_TIMEOUT)
    except TestbedError:
        console.print(f"[yellow]![/] {dc.name} does not answer: it is made anew")
        return False
    return True


def _made(dc: DataCenter) -> Path:
    """Written when a cluster is whole: what `_birth` says of it."""
    return places.RUN / f"made-{dc.name}"


def _birth(dc: DataCenter, node: Node, node_image: str | None) -> str:
    """Which container a cluster is, since when, at which address, and what it was made from."""
    audit = rights.audit_policy()
    origin = images.digest([node_image or "", kind_config(dc, places.audit()), audit, NETWORK])
    return f"{node.identity} {node.address} {origin}"


def _answers(dc: DataCenter) -> bool:
    return succeeds(
        *("docker", "exec", dc.node, "kubectl", f"--kubeconfig={ADMIN_CONF}"),
        *("get", "--raw", "/readyz"),
        timeout=10,
    )


def _create_all(wanted: list[DataCenter], node_image: str | None) -> None:
    """Makes clusters side by side. On a machine that is too busy for that some may miss kubeadm's
    deadlines: those are made once more, one after another.
    """

    def attempt(dc: DataCenter) -> str:
        try:
            _create(dc, node_image)
        except TestbedError as error:
            return str(error)
        return ""

    for dc, why in zip(wanted, each(wanted, attempt), strict=True):
        if why:
            said = why.strip().splitlines()[-1][:200]
            console.print(f"[yellow]![/] {dc.name} is made once more, alone; it failed: {said}")
            _create(dc, node_image)


def _create(dc: DataCenter, node_image: str | None) -> None:
    _delete(dc)
    config = places.RUN / f"kind-{dc.name}.yaml"
    config.write_text(kind_config(dc, places.audit()))
    places.audit().mkdir(exist_ok=True)
    (places.audit() / AUDIT_POLICY).write_text(rights.audit_policy())
    image = [f"--image={node_image}"] if node_image else []
    run(
        *("env", f"KIND_EXPERIMENTAL_DOCKER_NETWORK={NETWORK}"),
        *(KIND, "create", "cluster", f"--name={dc.name}", f"--config={config}", *image),
        f"--kubeconfig={places.kubeconfig(dc.name)}",
        timeout=CREATE_TIMEOUT,
    )
    node = inspect(dc)
    if node is None:
        raise TestbedError(f"kind made {dc.name}, but its node has gone")
    _made(dc).write_text(_birth(dc, node, node_image))


def _delete(dc: DataCenter) -> None:
    helpers.remove(dc)
    _made(dc).unlink(missing_ok=True)
    # Not in the user's kubeconfig: three write at a time, and kind does not wait for its lock.
    kubeconfig = places.kubeconfig(dc.name)
    kubeconfig.with_name(f"{kubeconfig.name}.lock").unlink(missing_ok=True)  # of one killed
    run(KIND, "delete", "cluster", f"--name={dc.name}", f"--kubeconfig={kubeconfig}")
    docker.remove_container(dc.node)


def _nodes(bed: Bed) -> dict[str, Node]:
    found = {dc.name: inspect(dc) for dc in bed.data_centers}
    gone = [name for name, node in found.items() if node is None or not node.running]
    if gone:
        raise TestbedError(f"the nodes of {', '.join(gone)} do not run")
    return {name: node for name, node in found.items() if node}


def _furnish(bed: Bed, python_image: str, policy_image: str) -> None:
    """Gives each node its networks, helpers, GPUs and labels; leaves right ones alone."""
    nodes = _nodes(bed)
    addresses = {name: node.address for name, node in nodes.items()}

    def furnish(dc: DataCenter) -> None:
        for helper in helpers.helpers(bed, dc, python_image, policy_image):
            helpers.ensure(helper, nodes[dc.name].identity)
        _set_up_network(bed, dc, addresses)
        _describe_node(bed, dc)
        _await_ready(dc)

    each(bed.data_centers, furnish)


def _set_up_network(bed: Bed, dc: DataCenter, addresses: dict[str, str]) -> None:
    def pod_cidr() -> str:
        return kubectl(dc, "get", "node", dc.node, "-o", "jsonpath={.spec.podCIDR}")

    await_until(f"{dc.node} has a pod subnet", lambda: bool(pod_cidr()), READY_TIMEOUT)
    script = node_script(bed, dc.name, pod_cidr(), addresses)
    run("docker", "exec", "-i", dc.node, "bash", "-s", stdin=script)


def _describe_node(bed: Bed, dc: DataCenter) -> None:
    """Labels the node, offers GPUs on it, and lets one CoreDNS serve it."""
    kubectl(dc, "label", "--overwrite", "node", dc.node, f"{DATA_CENTER}={dc.name}")
    patch = [
        {
            "op": "add",
            "path": f"/status/{amount}/{bed.gpu_resource.replace('/', '~1')}",
            "value": str(bed.gpus),
        }
        for amount in ("capacity", "allocatable")
    ]
    kubectl(
        *(dc, "patch", "node", dc.node, "--subresource=status", "--type=json"),
        f"--patch={json.dumps(patch)}",
    )
    kubectl(dc, "--namespace=kube-system", "scale", "deployment/coredns", "--replicas=1")


def _await_ready(dc: DataCenter) -> None:
    wait = f"--timeout={READY_TIMEOUT:.0f}s"
    kubectl(dc, "wait", "node", dc.node, "--for=condition=Ready", wait)
    kubectl(dc, "--namespace=kube-system", "rollout", "status", "deployment/coredns", wait)


def _export(bed: Bed) -> None:
    """Writes the kubeconfigs: the user's own, one a cluster, and one for pods elsewhere."""
    for dc in bed.data_centers:
        run(KIND, "export", "kubeconfig", f"--name={dc.name}")
        run(
            *(KIND, "export", "kubeconfig", f"--name={dc.name}"),
            f"--kubeconfig={places.kubeconfig(dc.name)}",
        )
        node = inspect(dc)
        document = yaml.safe_load(places.kubeconfig(dc.name).read_text())
        document["clusters"][0]["cluster"]["server"] = f"https://{node.address}:{API_PORT}"  # type: ignore[union-attr]
        places.internal_kubeconfig(dc.name).write_text(yaml.safe_dump(document))
        places.internal_kubeconfig(dc.name).chmod(0o600)
    run(KUBECTL, "config", "use-context", f"kind-{bed.hub.name}")


def _description(bed: Bed, node_image: str | None, python_image: str) -> dict[str, Any]:
    """What the bed is made from and runs now; equal descriptions mean nothing to do."""
    nodes = {dc.name: inspect(dc) for dc in bed.data_centers}
    addresses = {name: node.address for name, node in nodes.items() if node}
    if len(addresses) < len(nodes):
        return {}
    policy_image = images.policy(node_image)
    return {
        "nodes": {name: [node.identity, node.running] for name, node in nodes.items() if node},
        "helpers": {
            helper.name: helper.fingerprint("")
            for dc in bed.data_centers
            for helper in helpers.helpers(bed, dc, python_image, policy_image)
        },
        "scripts": images.digest(
            text
            for dc in bed.data_centers
            for text in (
                kind_config(dc, places.audit()),
                node_script(bed, dc.name, dc.pod_subnet, addresses),
            )
        ),
        "gpus": [bed.gpu_resource, bed.gpus],
    }


def _remember(bed: Bed, node_image: str | None, python_image: str) -> None:
    STATE.write_text(json.dumps(_description(bed, node_image, python_image), indent=1))


def _is_as_it_was_left(bed: Bed, node_image: str | None, python_image: str) -> bool:
    if not STATE.exists():
        return False
    if json.loads(STATE.read_text()) != _description(bed, node_image, python_image):
        return False
    return all(each(bed.data_centers, _works))


def _works(dc: DataCenter) -> bool:
    states = [docker.container_state(helpers.name_of(kind, dc)) for kind in helpers.KINDS]
    return states == ["running"] * len(states) and _answers(dc)


def status(bed: Bed) -> dict[str, dict[str, str]]:
    """For each data centre: its node, its helpers, its GPUs, its round-trip times."""
    return {dc.name: _status_of(bed, dc) for dc in bed.data_centers}


def _status_of(bed: Bed, dc: DataCenter) -> dict[str, str]:
    node = inspect(dc)
    state = {
        "region": dc.region,
        "node": "absent" if node is None else "running" if node.running else "stopped",
        "address": node.address if node else "",
        "api": "answers" if node and node.running and _answers(dc) else "no answer",
    }
    for far in bed.data_centers:
        times = "" if far == dc else f"{bed.wan.round_trip(dc.name, far.name) * 1e3:.1f} ms"
        state[f"RTT to {far.name}"] = times
    for kind in helpers.KINDS:
        state[kind] = docker.container_state(helpers.name_of(kind, dc)) or "absent"
    return state


def window_note(bed: Bed) -> str:
    """One line on what binds the WAN of this bed."""
    wan = bed.wan
    return (
        f"a pod {wan.pod_rate / 1e6:.0f} Mbit/s, a pair {wan.pair_rate / 1e6:.0f} Mbit/s, a"
        f" connection {wan.window} B in flight"
    )
