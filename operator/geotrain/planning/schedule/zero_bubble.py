"""Zero-bubble schedules: the backward is split, and weight gradients fill what would be bubbles.

=======  =========================  =====================================================
order    activations of a device    idea
=======  =========================  =====================================================
zb_1p    p                          1F1B's warm-up; weight gradients wait for a gap
zb_2p    2p                         a warm-up that lasts until the first gradient returns
zb_v     p (2p half stages)         two chunks a device in a V (``zero_bubble_v``)
=======  =========================  =====================================================

The first two are the best, by exact replay, of a few variants of a list scheduler, which differ in
the warm-up and in how ready they are to delay a message by a weight gradient, and of orders built
in rounds (``zero_bubble_rounds``). ZB-1P holds an
activation whole until its weight gradient. ZB-2P counts as its paper does: an input gradient frees
what the weight gradient does not need (``FREED``), so that weight gradients may be put off further.

Source: Qi et al., Zero Bubble Pipeline Parallelism (arXiv 2401.10241), sections 2, 3 and 6.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from heapq import nsmallest

from geotrain.model.plan import Order
from geotrain.planning.schedule.costs import Costs
from geotrain.planning.schedule.lists import Listed, Rule, list_schedule
from geotrain.planning.schedule.shop import Shop, order_of, shop, sweep
from geotrain.planning.schedule.zero_bubble_rounds import VARIANTS, built_in_rounds
from geotrain.units import Seconds

FREED = 5
"""Eighths of an activation that a weight gradient does not need.

For hidden size h, a heads and sequence length s a layer holds 34 h + 5 a s values a token and its
weight gradients need 32 h of them (arXiv 2401.10241, table 1): 37 % at h = 2304, a = 24, s = 1024.
"""

_REPLAYED = 3

LISTED = 300_000
"""Actions that all lists of one order together may schedule: some two seconds."""

LISTED_WHOLE = 10_000
"""Actions up to which all variants are made; of longer iterations only the best two of so many."""

_LISTED_LONG = 2
_FEWEST_MICRO_BATCHES = 4
_NEVER = float("inf")

Maker = Callable[[Shop], Sequence[Listed]]
"""Lists a shop in a way of its own, or in several; an empty list where it cannot."""

_VARIANTS = (
    (1, 0, 0.0, False),
    (1, 1, 0.0, False),
    (1, 1, 0.5, True),
    (2, 0, 0.5, True),
    (2, 0, 1.0, True),
    (2, 1, 0.5, True),
    (2, 1, 1.0, True),
    (2, 2, 1.0, True),
    (2, 3, 0.5, False),
)
"""Slope and extra of the depths, patience, and whether a forward follows each input gradient.

Of 72 such variants these nine hold the best of 21 settings, profiled and random ones.
"""


def zb_1p(costs: Costs, micro_batches: int) -> Order:
    """At most p micro-batches in flight on each of p devices, from F to the end of W."""
    devices = len(costs.stages)
    return zero_bubble(costs, (devices,) * devices, micro_batches)


def zb_2p(costs: Costs, micro_batches: int) -> Order:
    """At most 2p activations, of which an input gradient frees ``FREED`` eighths of one."""
    devices = len(costs.stages)
    return _best_of(shop(costs, micro_batches, (2 * devices,) * devices, split=True), FREED)


def zero_bubble(
    costs: Costs,
    caps: Sequence[int],
    micro_batches: int,
    depths: Iterable[tuple[int, ...]] = (),
) -> Order:
    """At most ``caps[d]`` micro-batches in flight on device d, from F to the end of W.

    ``depths`` are further warm-ups to try: by stage, forwards ahead of its gradients.
    """
    return _best_of(shop(costs, micro_batches, caps, split=True), 0, depths)


def best(place: Shop, makers: Iterable[Maker]) -> Order:
    """The order whose longest span of a device, from its first start to its last end, is least.

    Among equals the shorter iteration. Of what the makers list the best few by their own clocks,
    which may leave out that messages wait for each other, are replayed exactly. Of a long iteration
    only what is best for a shorter one is made at all.
    """
    if place.actions > LISTED_WHOLE:
        fewer = LISTED_WHOLE * place.micro_batches // place.actions
        short = replace(place, micro_batches=max(_FEWEST_MICRO_BATCHES, fewer))
        makers = nsmallest(_LISTED_LONG, makers, key=lambda make: _clock(make(short)))
    candidates = (listed for make in makers for listed in make(place))
    few = [sweep(place, listed.rows) for listed in nsmallest(_REPLAYED, candidates)]
    found = min((each for each in few if each), key=lambda each: each.score[::-1])
    return order_of(place, found.rows)


def _clock(listed: Sequence[Listed]) -> tuple[Seconds, Seconds]:
    return min(((each.span, each.end) for each in listed), default=(_NEVER, _NEVER))


def _best_of(place: Shop, freed: int, more: Iterable[tuple[int, ...]] = ()) -> Order:
    count = LISTED // min(place.actions, LISTED_WHOLE)
    listed = variants(place.stages, place.caps, freed, more)[:count]
    makers: list[Maker] = [partial(_list, rule=variant) for variant in listed]
    return best(place, makers + [partial(_rounds, freed=freed, variant=v) for v in VARIANTS])


def _list(place: Shop, rule: Rule) -> list[Listed]:
    return [list_schedule(place, rule)]


def _rounds(place: Shop, freed: int, variant: tuple[bool, bool, bool]) -> list[Listed]:
    return [built_in_rounds(place, freed, variant)]


def variants(
    stages: int, room: tuple[int, ...], freed: int, more: Iterable[tuple[int, ...]] = ()
) -> list[Rule]:
    """What is asked for, all that memory holds, and depths with a slope; never above memory.

    Where memory is tight many are the same one, which is there once.
    """
    return list(dict.fromkeys(_variants(stages, room, freed, more)))


def _variants(
    stages: int, room: tuple[int, ...], freed: int, more: Iterable[tuple[int, ...]]
) -> Iterator[Rule]:
    def variant(wanted: Iterable[int], alternate: bool, patience: float = 0.0) -> Rule:
        depths = tuple(map(min, wanted, room))
        return Rule(filler=patience, relieve=False, alternate=alternate, depths=depths, freed=freed)

    for wanted in more:
        yield variant(wanted, True)
    for patience in (0.0, 1.0):
        yield variant(room, True, patience)
    for slope, extra, patience, alternate in _VARIANTS:
        sloping = (slope * (stages - s) - (slope - 1) + extra for s in range(stages))
        yield variant(sloping, alternate, patience)
