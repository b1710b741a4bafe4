"""Redirects the pod's outgoing cross-DC TCP to the sidecar, by nftables.

The sidecar's own sockets carry ``MARK`` and pass. What goes to other data centres without a class
of its own (UDP, ICMP, answers on connections that came in directly) is put into the shaper's class
for other traffic, so that the pod's rate holds for all of it.
"""

import shutil
import subprocess
from collections.abc import Sequence

from geotrain.api.labels import PORT_REDIRECT
from geotrain.errors import KernelError
from geotrain.shaping.tree import OTHER

MARK = 0x67
TABLE = "geotrain"
_TIMEOUT = 10.0


def ruleset(cidrs: Sequence[str], port: int = PORT_REDIRECT) -> str:
    """The nftables script; it takes the place of what an earlier run left, in one transaction."""
    script = f"table ip {TABLE}\ndelete table ip {TABLE}\n"
    if not cidrs:
        return script
    far = ", ".join(sorted(cidrs))
    return script + (
        f"table ip {TABLE} {{\n"
        "  chain outgoing {\n"
        "    type nat hook output priority -100; policy accept;\n"
        f"    meta mark {MARK:#x} return\n"
        f"    meta l4proto tcp ip daddr {{ {far} }} redirect to :{port}\n"
        "  }\n"
        "  chain unclassed {\n"
        "    type filter hook postrouting priority 0; policy accept;\n"
        f"    ip daddr {{ {far} }} meta priority 0:0 meta priority set 1:{OTHER:x}\n"
        "  }\n"
        "}\n"
    )


def apply(cidrs: Sequence[str], port: int = PORT_REDIRECT) -> None:
    """Redirect connections to ``cidrs``, and to nothing else. Doing it twice changes nothing.

    Raises KernelError where nft is missing, not permitted, or the kernel lacks what it needs.
    """
    _run(ruleset(cidrs, port))


def remove() -> None:
    """Take the redirection away. Raises KernelError as ``apply`` does."""
    _run(ruleset(()))


def _run(script: str) -> None:
    program = shutil.which("nft") or shutil.which("nft", path="/usr/sbin:/sbin")
    if program is None:
        raise KernelError("the program nft is missing from the image: install nftables")
    try:
        done = subprocess.run(  # noqa: S603 - a fixed program, the script is ours
            [program, "-f", "-"],
            input=script,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise KernelError(f"nft did not answer within {_TIMEOUT:g} s") from error
    if done.returncode:
        why = done.stderr.strip().splitlines()[:1]
        raise KernelError(f"nft refused the rules: {why[0] if why else 'no reason given'}")
