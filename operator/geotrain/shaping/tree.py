"""The classes that a pod's interface should have.

    1:    everything that no class claims goes to 1:2
    ├─ 1:1    the wide area: ``pod_rate`` for all flows together
    │  ├─ 1:3      cross-DC traffic that is no flow
    │  └─ 1:(256 + flow)   each flow that leaves through this pod, its own or a mate's
    └─ 1:2    the local network: the link's rate

HTB lets a class send at its ``rate`` even when its parent is exhausted, so the rates of the
children must never add up to more than the parent's: ``shares`` sees to that.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from geotrain.units import BitsPerSecond, Bytes

WIDE_AREA: Final = 1
LOCAL: Final = 2
OTHER: Final = 3
FIRST_FLOW: Final = 256
MAJOR: Final = 1 << 16

UNLIMITED: Final[BitsPerSecond] = 100e9
"""A link's rate where none is given."""
OTHER_SHARE: Final = 0.02
"""Of the pod's rate, what cross-DC traffic outside the flows is always given (heartbeats, stores,
meshes); it may borrow the rest."""
_LEAST_RATE: Final[BitsPerSecond] = 8_000
_QUANTUM: Final[Bytes] = 9_000
"""Bytes a class may send before its siblings' turn; six packets of 1,500. The kernel's own guess
from the rate is far off at both ends and says so in its log."""


@dataclass(frozen=True, slots=True, order=True)
class HtbClass:
    """One class: ``minor`` is the second half of its handle, parent 0 the qdisc itself."""

    minor: int
    parent: int
    rate: BitsPerSecond
    ceil: BitsPerSecond
    priority: int = 0
    quantum: Bytes = _QUANTUM


@dataclass(frozen=True, slots=True)
class Tree:
    """A root qdisc 1: whose unclaimed traffic goes to ``default``, and its classes by minor."""

    default: int
    classes: tuple[HtbClass, ...]


@dataclass(frozen=True, slots=True)
class Share:
    """What a flow should get: ``rate`` in its window, ``idle_rate`` outside."""

    flow: int
    rate: BitsPerSecond
    idle_rate: BitsPerSecond


def minor_of(flow: int) -> int:
    """The class of a flow."""
    return FIRST_FLOW + flow


def priority_of(minor: int) -> int:
    """The SO_PRIORITY that puts a socket's packets into a class, without any filter."""
    return MAJOR + minor


def tree(
    flows: Iterable[Share],
    pod_rate: BitsPerSecond | None,
    in_turn: Mapping[int, BitsPerSecond] | None = None,
) -> Tree:
    """The classes while the flows ``in_turn`` own their windows, at the rates given there.

    ``in_turn`` of None means that nobody takes turns: every flow gets its ``rate``, or the same
    fraction of it where all together exceed the pod's rate.
    """
    limit = whole(UNLIMITED if pod_rate is None else pod_rate)
    ordered = sorted(flows, key=lambda s: s.flow)
    other = whole(limit * OTHER_SHARE)
    rates = _rates(ordered, limit - other, in_turn)
    waiting = frozenset[int]() if in_turn is None else frozenset(rates) - frozenset(in_turn)
    return Tree(
        LOCAL,
        (
            HtbClass(WIDE_AREA, 0, limit, limit),
            HtbClass(LOCAL, 0, whole(UNLIMITED), whole(UNLIMITED)),
            HtbClass(OTHER, WIDE_AREA, other, limit, priority=0),
            *(
                HtbClass(minor_of(f), WIDE_AREA, whole(rate), limit, priority=int(f in waiting))
                for f, rate in rates.items()
            ),
        ),
    )


def whole(rate: BitsPerSecond) -> BitsPerSecond:
    """A rate that the kernel can hold exactly: whole bytes a second."""
    return max(8.0, rate // 8 * 8)


def _rates(
    flows: list[Share], limit: BitsPerSecond, in_turn: Mapping[int, BitsPerSecond] | None
) -> dict[int, BitsPerSecond]:
    """Guaranteed rates whose sum is at most ``limit``.

    In turn, the waiting flows keep their idle rate and the owners share the rest: an owner
    borrows what the others leave, first, because its priority is better.
    """
    if in_turn is None:
        return _scaled({s.flow: s.rate for s in flows}, limit)
    waiting = {s.flow: s.idle_rate for s in flows if s.flow not in in_turn}
    waiting = _scaled(waiting, limit / 2 if len(waiting) < len(flows) else limit)
    rest = limit - sum(waiting.values())
    owners = _scaled({s.flow: in_turn[s.flow] for s in flows if s.flow in in_turn}, rest)
    return {s.flow: owners.get(s.flow, waiting.get(s.flow, 0.0)) for s in flows}


def _scaled(wanted: dict[int, BitsPerSecond], limit: BitsPerSecond) -> dict[int, BitsPerSecond]:
    floored = {flow: max(_LEAST_RATE, rate) for flow, rate in wanted.items()}
    total = sum(floored.values())
    factor = limit / total if total > limit else 1.0
    return {flow: rate * factor for flow, rate in floored.items()}
