"""Schedules by name: what ``geotrain schedule`` offers.

A policy makes an order from costs, the in-flight cap of each device (None: what the schedule
itself asks for) and the number of micro-batches. It also says how its stages are laid out, so that
the costs can be made for that layout. To add one, add it to ``POLICIES``.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from geotrain.errors import InputError
from geotrain.model.plan import Order
from geotrain.planning.schedule import checks, orders
from geotrain.planning.schedule.backward_first import backward_first
from geotrain.planning.schedule.costs import Costs
from geotrain.planning.schedule.dual_pipe_v import dual_pipe_v
from geotrain.planning.schedule.geopipe import geopipe, geopipe_split
from geotrain.planning.schedule.greedy import greedy
from geotrain.planning.schedule.interleaved import interleaved_1f1b
from geotrain.planning.schedule.layouts import Layout, interleaved, one_stage_each, v_shape
from geotrain.planning.schedule.optimal import Optimum, optimal
from geotrain.planning.schedule.zero_bubble import zb_1p, zb_2p, zero_bubble
from geotrain.planning.schedule.zero_bubble_v import zb_v, zero_bubble_v
from geotrain.units import Seconds

Caps = Sequence[int] | None
Generate = Callable[[Costs, Caps, int], Order]
Prove = Callable[[Costs, Caps, int], Optimum]

_KEPT = 4
"""Orders, which may be of a hundred thousand actions."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An order, the makespan that no order is below, where that is known, and what it lacks."""

    order: Order
    bound: Seconds | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Policy:
    """A schedule that can be asked for by name.

    ``chunks`` is how many stages a device runs: a number, or None where the user may choose.
    ``prove`` is there where the policy knows how far it may be from the least makespan. ``note``
    says what it leaves out for so many micro-batches.
    """

    about: str
    generate: Generate
    layout: Callable[[int, int], Layout] = lambda devices, _: one_stage_each(devices)
    chunks: int | None = 1
    prove: Prove | None = None
    note: Callable[[Costs, int], str] = lambda *_: ""

    def answer(self, costs: Costs, caps: Caps, micro_batches: int) -> Answer:
        """The order, and the bound where the policy has one. Raises InputError as ``order``."""
        if self.prove is None:
            order = self.order(costs, caps, micro_batches)
            return Answer(order, note=self.note(costs, micro_batches))
        found = self.prove(costs, caps, micro_batches)
        checks.require_sound(found.order, caps)
        return Answer(found.order, found.bound)

    def order(self, costs: Costs, caps: Caps, micro_batches: int) -> Order:
        """An order that is sound and within the caps. Raises InputError where there is none."""
        order = self.generate(costs, caps, micro_batches)
        checks.require_sound(order, caps)
        return order


def policy(name: str) -> Policy:
    """The policy of that name, in any case, with or without hyphens."""
    plain = {key.replace("-", ""): value for key, value in POLICIES.items()}
    found = plain.get(name.lower().replace("-", "").replace("_", ""))
    if found is None:
        raise InputError(f"there is no schedule {name!r}; known: {', '.join(POLICIES)}")
    return found


def _room(costs: Costs, caps: Caps, micro_batches: int) -> Sequence[int]:
    """The caps, or room for everything."""
    return caps if caps is not None else (micro_batches,) * costs.devices


def _gpipe(costs: Costs, _: Caps, micro_batches: int) -> Order:
    return orders.gpipe(costs.devices, micro_batches)


def _one_f_one_b(costs: Costs, caps: Caps, micro_batches: int) -> Order:
    room = _room(costs, caps, micro_batches)
    return orders.atlas(micro_batches, room, [0] * costs.devices)


def _interleaved(costs: Costs, _: Caps, micro_batches: int) -> Order:
    chunks = len(costs.stages) // costs.devices
    return interleaved_1f1b(costs.devices, chunks, micro_batches)


# The orders that take longest are often asked for twice: for themselves, and to set Greedy beside.
_zero_bubble = lru_cache(maxsize=_KEPT)(zero_bubble)
_split = lru_cache(maxsize=_KEPT)(geopipe_split)


def _geopipe_split(costs: Costs, caps: Caps, micro_batches: int) -> Order:
    return _split(costs, None if caps is None else tuple(caps), micro_batches)


def _zb_1p(costs: Costs, caps: Caps, micro_batches: int) -> Order:
    if caps is None:
        return zb_1p(costs, micro_batches)
    return _zero_bubble(costs, tuple(caps), micro_batches)


def _zb_2p(costs: Costs, caps: Caps, micro_batches: int) -> Order:
    if caps is None:
        return zb_2p(costs, micro_batches)
    return _zero_bubble(costs, tuple(caps), micro_batches)


def _zb_v(costs: Costs, caps: Caps, micro_batches: int) -> Order:
    if caps is None:
        return zb_v(costs, micro_batches)
    return zero_bubble_v(costs, caps, micro_batches)


def _within_room(generate: Callable[[Costs, Sequence[int], int], Order]) -> Generate:
    """A generator that has to know the caps, for whom no cap is room for everything."""

    def generated(costs: Costs, caps: Caps, micro_batches: int) -> Order:
        return generate(costs, _room(costs, caps, micro_batches), micro_batches)

    return generated


RIVALS = 100_000
"""Actions up to which ``greedy`` is set beside all others; beyond, beside those that are quick."""

_RIVALS_WITHOUT_CAPS = 8_000
"""Actions up to which it is also set beside what the others make of less memory."""

_QUICK = ("geopipe", "atlas", "dualpipe-v", "interleaved")
"""Patterns, and one list; GPipe and 1F1B are among what ``greedy`` itself begins with."""

_SAME = {"varuna"}
"""Policies that make what another makes."""

_OWN_MEMORY = {"gpipe", "interleaved", "dualpipe-v", "zb-2p"}
"""Policies that know no caps, or with caps make what another makes."""

_OWN_MEMORY_TOO = {"zb-v"}
"""Policies that count memory otherwise where no caps are given."""

_SEARCHES = {"greedy", "greedy-v", "optimal"}
"""Policies that look for the best of all, and are not among what they look through."""


def _greedy(costs: Costs, caps: Caps, micro_batches: int) -> Order:
    room = _room(costs, caps, micro_batches * len(costs.stages) // costs.devices)
    return greedy(costs, micro_batches, room, others=rivals(costs, caps, micro_batches))


def _optimum(costs: Costs, caps: Caps, micro_batches: int) -> Optimum:
    room = _room(costs, caps, micro_batches)
    return optimal(costs, micro_batches, room)


def _optimal(costs: Costs, caps: Caps, micro_batches: int) -> Order:
    return _optimum(costs, caps, micro_batches).order


def rivals(costs: Costs, caps: Caps, micro_batches: int) -> Iterator[Order]:
    """What the other policies make of the same layout, with these caps and with their own."""
    layout = costs.layout or one_stage_each(costs.devices)
    actions = 3 * len(layout) * micro_batches
    slow = [] if actions > RIVALS else sorted(set(POLICIES) - _SEARCHES - _SAME - set(_QUICK))
    for name in (*_QUICK, *slow):
        each = POLICIES[name]
        if each.layout(costs.devices, len(layout) // costs.devices) != layout:
            continue
        for tried in _memories(name, caps, actions):
            with suppress(InputError):
                yield each.generate(costs, tried, micro_batches)


def _memories(name: str, caps: Caps, actions: int) -> Iterator[Caps]:
    """The caps with which a policy is tried; None: those that it asks for itself."""
    if caps is not None and name not in _OWN_MEMORY:
        yield caps
    if caps is None or name in _OWN_MEMORY | _OWN_MEMORY_TOO or actions <= _RIVALS_WITHOUT_CAPS:
        yield None


def _compared(costs: Costs, micro_batches: int) -> str:
    """What ``greedy`` leaves out where an iteration is very long."""
    actions = 3 * len(costs.stages) * micro_batches
    if actions <= RIVALS:
        return ""
    return (
        f"the best so far: beyond {RIVALS:,} actions one list is made, and compared with patterns "
        f"(gpipe, 1f1b, geopipe) and atlas alone; this iteration has {actions:,}"
    )


POLICIES: dict[str, Policy] = {
    "gpipe": Policy("all forwards, then all backwards", _gpipe),
    "1f1b": Policy("a forward and a backward in turn, p in flight", _one_f_one_b),
    "interleaved": Policy("1F1B over --chunks stages a rank", _interleaved, interleaved, None),
    "zb-1p": Policy("split backward in the memory of 1F1B", _zb_1p),
    "zb-2p": Policy("split backward in twice that memory, next to no bubble", _zb_2p),
    "zb-v": Policy("split backward, two stages a rank in a V", _zb_v, lambda p, _: v_shape(p), 2),
    "dualpipe-v": Policy(
        "two stages a rank in a V, forwards and backwards overlapped",
        lambda costs, _, micro_batches: dual_pipe_v(costs.devices, micro_batches),
        lambda p, _: v_shape(p),
        2,
    ),
    "varuna": Policy("backward when it can, recompute while waiting", _within_room(backward_first)),
    "atlas": Policy("what has arrived, backwards first", _within_room(backward_first)),
    "geopipe": Policy(
        "1F1B with more warm-up before each wide-area boundary", _within_room(geopipe)
    ),
    "geopipe-split": Policy("GeoPipe's warm-up, split backward", _geopipe_split),
    "greedy": Policy(
        "the best that is found for these times and this memory", _greedy, note=_compared
    ),
    "greedy-v": Policy(
        "the same, two stages a rank in a V", _greedy, lambda p, _: v_shape(p), 2, note=_compared
    ),
    "optimal": Policy(
        "the least makespan, with its bound, of small cases", _optimal, prove=_optimum
    ),
}
