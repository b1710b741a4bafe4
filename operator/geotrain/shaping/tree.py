"""The classes that a pod's interface should have.

    1:    everything that no class claims goes to 1:2
    ├─ 1:1    the wide area: ``pod_rate`` for all flows together
    │  ├─ 1:3      cross-DC traffic that is no flow
    │  └─ 1:(256 + flow)   each flow that leaves through this pod, its own or a mate's
    └─ 1:2    the local network: the link's rate

HTB lets a class send at its ``rate`` even when its parent is exhausted, so the rates of the
children must never add up to more than the parent's: ``_scaled`` sees to that.

A turn is a matter of quanta, not of rates. In turns every flow has its small idle rate and borrows
the rest; while several want more than there is, HTB serves them by turns, to each its quantum, and
the owner's is twenty times the others'. A new quantum counts at once. A new rate does not: a class
that has used up its own sleeps until its next packet by the *old* rate (a third of a second at 44
kbit/s), and a new priority waits until the class has been empty (net/sched/sch_htb.c).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import fsum
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
_OWNERS_QUANTUM: Final[Bytes] = 32_000
_WAITING_QUANTUM: Final[Bytes] = 1_600
"""A packet of 1,500. What an owner had left of its quantum it still sends when the turn passes on,
so it should not be much."""


@dataclass(frozen=True, slots=True, order=True)
class HtbClass:
    """One class: ``minor`` is the second half of its handle, parent 0 the qdisc itself."""

    minor: int
    parent: int
    rate: BitsPerSecond
    ceil: BitsPerSecond
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
    return Tree(
        LOCAL,
        (
            HtbClass(WIDE_AREA, 0, limit, limit),
            HtbClass(LOCAL, 0, whole(UNLIMITED), whole(UNLIMITED)),
            HtbClass(OTHER, WIDE_AREA, other, limit),
            *(
                HtbClass(minor_of(f), WIDE_AREA, whole(rate), limit, _quantum(f, in_turn))
                for f, rate in rates.items()
            ),
        ),
    )


def _quantum(flow: int, in_turn: Mapping[int, BitsPerSecond] | None) -> Bytes:
    """Owners of several turns at once share as the rates of their windows say."""
    if not in_turn:
        return _QUANTUM
    share = in_turn.get(flow, 0.0) / max(in_turn.values())
    return max(_WAITING_QUANTUM, round(share * _OWNERS_QUANTUM))


def whole(rate: BitsPerSecond) -> BitsPerSecond:
    """A rate that the kernel can hold exactly: whole bytes a second."""
    return max(8.0, rate // 8 * 8)


def _rates(
    flows: list[Share], limit: BitsPerSecond, in_turn: Mapping[int, BitsPerSecond] | None
) -> dict[int, BitsPerSecond]:
    """Guaranteed rates whose sum is at most ``limit``; in turns half of it is left to borrow."""
    if in_turn is None:
        return _scaled({s.flow: s.rate for s in flows}, limit)
    return _scaled({s.flow: s.idle_rate for s in flows}, limit / 2)


def _scaled(wanted: dict[int, BitsPerSecond], limit: BitsPerSecond) -> dict[int, BitsPerSecond]:
    floored = {flow: max(_LEAST_RATE, rate) for flow, rate in wanted.items()}
    total = fsum(floored.values())
    factor = limit / total if total > limit else 1.0
    return {flow: rate * factor for flow, rate in floored.items()}
