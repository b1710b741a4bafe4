"""The bed's own programs, each in a container beside a node, in the node's name spaces.

So they work the same with kind's node image, which has no Python, and with ours. ``ensure`` makes
them anew when what they run changed, when their node was restarted, or when they ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from e2e.testbed import docker, places
from e2e.testbed.config import Bed, DataCenter
from e2e.testbed.images import digest
from e2e.testbed.render import wan_arguments
from e2e.testbed.shell import run

FINGERPRINT = "io.geotrain.fingerprint"
KINDS = ("wan", "accelerator", "policy")


@dataclass(frozen=True)
class Helper:
    """A container beside a node: what it may do, and what it runs."""

    name: str
    node: str
    image: str
    options: Sequence[str]
    command: Sequence[str]
    files: Sequence[str] = ()  # of the test bed, that the command reads

    def fingerprint(self, node_id: str) -> str:
        """Changes with the node, the image, the command and the files."""
        files = [places.HERE / file for file in self.files]
        return digest([node_id, self.image, *self.options, *self.command, *files])


def name_of(kind: str, dc: DataCenter) -> str:
    """The name of a helper's container."""
    return f"{dc.name}-{kind}"


def helpers(bed: Bed, dc: DataCenter, python_image: str, policy_image: str) -> list[Helper]:
    """What runs beside a node: its end of the WAN, its accelerators, its network policies."""
    scripts = f"--volume={places.HERE}:/testbed:ro"
    in_node = f"container:{dc.node}"
    return [
        Helper(
            name_of("wan", dc),
            dc.node,
            python_image,
            [f"--network={in_node}", "--cap-add=NET_ADMIN", "--device=/dev/net/tun", scripts],
            ["python3", "-u", "/testbed/wan.py", *wan_arguments(bed, dc.name)],
            ["wan.py"],
        ),
        Helper(
            name_of("accelerator", dc),
            dc.node,
            python_image,
            # The socket lies in the node's own /run, which only its process 1 shows.
            [f"--pid={in_node}", "--network=none", "--privileged", scripts],
            [
                "python3",
                "-u",
                "/testbed/accelerator.py",
                "/proc/1/root/run/geotrain/accelerator.sock",
            ],
            ["accelerator.py"],
        ),
        Helper(
            name_of("policy", dc),
            dc.node,
            policy_image,
            [
                f"--network={in_node}",
                f"--pid={in_node}",
                "--privileged",
                "--restart=on-failure",
                f"--volume={places.PROGRAMS / 'kube-router'}:/opt/kube-router:ro",
                "--entrypoint=/opt/kube-router",
            ],
            [
                "--run-router=false",
                "--run-firewall=true",
                "--run-service-proxy=false",
                "--kubeconfig=/proc/1/root/etc/kubernetes/admin.conf",
                f"--hostname-override={dc.node}",
                "--health-port=0",
            ],
        ),
    ]


def ensure(helper: Helper, node_id: str) -> bool:
    """Makes sure that a helper runs as it should; whether it had to be made anew."""
    wanted = helper.fingerprint(node_id)
    template = f'{{{{.State.Running}}}} {{{{index .Config.Labels "{FINGERPRINT}"}}}}'
    if (
        run("docker", "inspect", "-f", template, helper.name, check=False).strip()
        == f"true {wanted}"
    ):
        return False
    docker.remove_container(helper.name)
    run(
        *("docker", "run", "--detach", f"--name={helper.name}", "--log-opt=max-size=1m"),
        f"--label={FINGERPRINT}={wanted}",
        *(*helper.options, helper.image, *helper.command),
    )
    return True


def remove(dc: DataCenter) -> None:
    """Removes what runs beside a node."""
    run("docker", "rm", "-f", *(name_of(kind, dc) for kind in KINDS), check=False)
