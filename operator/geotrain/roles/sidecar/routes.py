"""Which lanes carry a connection between two ranks. Pure.

A connection that belongs to a flow, in whichever direction, goes over ``connections`` lanes
straight to the peer's sidecar, and over as many through each mate: by the local network to the
mate, over the mate's wide-area path to its counterpart (the same replica of the target's stage),
and from there by the local network to the peer.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from geotrain.roles.sidecar.network import Flow, Network


@dataclass(frozen=True, slots=True)
class Route:
    """``paths`` are the ranks to pass on the way, the target being the last of each.

    Lane n takes path n modulo ``distinct``. ``flow`` is the flow whose bytes leave the opener,
    ``reverse`` that of the other direction (0: none).
    """

    target: int
    flow: int
    reverse: int
    paths: tuple[tuple[int, ...], ...]
    distinct: int = 1

    @property
    def lanes(self) -> int:
        """Connections in all."""
        return len(self.paths)


def route(network: Network, own: int, target: int) -> Route | None:
    """How a connection from ``own`` to ``target`` is carried; None when it is no flow's."""
    forward, reverse = network.flow(own, target), network.flow(target, own)
    flow = forward or reverse
    if flow is None:
        return None
    connections = max(f.connections for f in (forward, reverse) if f is not None)
    detours = _detours(network, own, target, flow)
    # Direct and lent paths take turns in the order of opening, so the first lanes use them all.
    paths = tuple(p for _ in range(connections) for p in ((target,), *detours))
    return Route(target, _id(forward), _id(reverse), paths, 1 + len(detours))


def addresses(path: tuple[int, ...], known: Mapping[int, str]) -> tuple[str, ...] | None:
    """The addresses of a path's ranks; None while one of them is not known."""
    found = tuple(known[r] for r in path if r in known)
    return found if len(found) == len(path) else None


def _detours(network: Network, own: int, target: int, flow: Flow) -> tuple[tuple[int, ...], ...]:
    detours = []
    for mate in flow.mates:
        # The mates of a flow towards us are on the far side; ours are their counterparts.
        other = target if flow.source == own else own
        counterpart = _counterpart(network, mate, other)
        near, far = (mate, counterpart) if flow.source == own else (counterpart, mate)
        if near is None or far is None or near == own:
            continue
        detours.append((near, target) if far == target else (near, far, target))
    return tuple(detours)


def _counterpart(network: Network, mate: int, rank: int) -> int | None:
    """The rank of ``rank``'s stage that belongs to the mate's replica."""
    if mate not in network.ranks or rank not in network.ranks:
        return None
    wanted = network.ranks[rank].stage, network.ranks[mate].replica
    return next((r for r, p in network.ranks.items() if (p.stage, p.replica) == wanted), None)


def _id(flow: Flow | None) -> int:
    return 0 if flow is None else flow.id
