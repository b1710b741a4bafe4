"""Redirects the pod's outgoing cross-DC TCP to the sidecar, by nftables.

The sidecar's own sockets carry ``MARK`` and pass. What goes to other data centres without a class
of its own (UDP, ICMP, answers on connections that came in directly) is put into the shaper's class
for other traffic, so that the pod's rate holds for all of it.

The data path is IPv4. Where pods have both families, TCP over IPv6 to other data centres would pass
by the windows unseen, so it is refused at once, and whoever dials falls back to IPv4.
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
    """The nftables script; it takes the place of what an earlier run left, in one transaction.

    The table for IPv6 is only touched where a network of that family is given, for a kernel may
    lack the family.
    """
    four = ", ".join(sorted(cidr for cidr in cidrs if ":" not in cidr))
    six = ", ".join(sorted(cidr for cidr in cidrs if ":" in cidr))
    script = _emptied("ip") + (_emptied("ip6") if six else "")
    if four:
        script += _table("ip", four, f"redirect to :{port}")
    if six:
        script += _table("ip6", six, "reject with tcp reset")
    return script


def _emptied(family: str) -> str:
    return f"table {family} {TABLE}\ndelete table {family} {TABLE}\n"


def _table(family: str, far: str, verdict: str) -> str:
    """Of one family: what becomes of TCP to ``far``, and the class of all else."""
    hook = "nat" if verdict.startswith("redirect") else "filter"
    return (
        f"table {family} {TABLE} {{\n"
        "  chain outgoing {\n"
        f"    type {hook} hook output priority -100; policy accept;\n"
        f"    meta mark {MARK:#x} return\n"
        f"    meta l4proto tcp {family} daddr {{ {far} }} {verdict}\n"
        "  }\n"
        "  chain unclassed {\n"
        "    type filter hook postrouting priority 0; policy accept;\n"
        f"    {family} daddr {{ {far} }} meta priority 0:0 meta priority set 1:{OTHER:x}\n"
        "  }\n"
        "}\n"
    )


def apply(cidrs: Sequence[str], port: int = PORT_REDIRECT) -> None:
    """Redirect connections to ``cidrs``, and to nothing else. Doing it twice changes nothing.

    Connections over IPv6 to them are reset.

    Raises KernelError where nft is missing, not permitted, or the kernel lacks what it needs.
    """
    _run(ruleset(cidrs, port))


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
