"""How many TCP connections a path gets, and how many it may have.

A path needs ``path rate x RTT / window`` connections to be filled, and gets twice as many: exactly
what fills it leaves each isolated message waiting for its last window. There is an end to that::

    the trainer's NCCL    64 between two ranks: NCCL_SOCKET_NTHREADS (at most 16) times
                          NCCL_NSOCKS_PERTHREAD (NCCL's user guide, environment variables)
    our sidecar           512: a connection is a file descriptor and some 20 KiB of buffers at
                          both ends, and a pod has as many for each neighbour in the pipeline and
                          each mate; they share the 28,000 ports that Linux gives to connections
                          between two addresses

What a window of some bytes would need beyond is not opened, and the plan counts with the rate that
the rest carries.
"""

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from geotrain.model.plan import Placement
from geotrain.model.topology import Topology, WanLink
from geotrain.model.workload import Workload
from geotrain.units import format_duration, format_rate, window_rate

MOST_CONNECTIONS: Final = 512
"""Connections of one path that the sidecar carries at most."""
NCCL_SOCKETS: Final = 64
"""Sockets that NCCL opens at most between two ranks."""
NCCL_THREADS: Final = 16
"""Threads among which NCCL can divide them."""

_ROUNDING: Final = 1e-9


def connections(link: WanLink, wanted: int | None, most: int = MOST_CONNECTIONS) -> int:
    """TCP connections of one path: ``wanted``, or twice what fills it; never more than ``most``."""
    return min(most, wished(link, wanted))


def wished(link: WanLink, wanted: int | None) -> int:
    """What a path would get if there were no end to it."""
    if wanted is not None:
        return wanted
    if link.window is None:
        return 1
    filling = link.pod_rate / window_rate(link.window, link.round_trip)
    return max(1, 2 * math.ceil(filling - _ROUNDING))


def cut(link: WanLink, wanted: int | None, most: int) -> str:
    """What a path lacks because of ``most``, as a sentence; '' where it gets what it should."""
    wish = wished(link, wanted)
    if wish <= most:
        return ""
    why = "NCCL's most between two ranks" if most == NCCL_SOCKETS else "the sidecar's most"
    said = f"{link.source} to {link.target}: {most} connections a path ({why}) instead of {wish}"
    if link.window is None:
        return said
    carried = most * window_rate(link.window, link.round_trip)
    if carried >= link.pod_rate:
        return said
    window = f"a window of {link.window} bytes over {format_duration(link.round_trip)}"
    return (
        f"{said}: with {window} they carry {format_rate(carried)} of {format_rate(link.pod_rate)};"
        " raise the hosts' TCP buffers, and tcpWindow with them"
    )


def cuts(topology: Topology, workload: Workload, placement: Placement) -> Iterator[str]:
    """What each direction of each link of a placement lacks, a sentence each."""
    for ends in pairwise(name for name, _ in placement.segments):
        for link in (topology.link(*ends), topology.link(*ends[::-1])):
            if link is not None:
                said = cut(link, workload.connections, workload.most_connections)
                yield from (said,) if said else ()


def nccl_variables(planned: int) -> dict[str, int]:
    """NCCL's own settings for at least ``planned`` sockets and at most 64; {} for a single one."""
    sockets = min(planned, NCCL_SOCKETS)
    if sockets <= 1:
        return {}
    threads = min(_USUAL_THREADS, sockets)
    return {"NCCL_SOCKET_NTHREADS": threads, "NCCL_NSOCKS_PERTHREAD": -(-sockets // threads)}


_USUAL_THREADS: Final = 4
"""Threads that are busy with few sockets each: NCCL advises both to be small."""
