"""Beam search for short iterations: many schedules grow side by side, and the best few go on.

A schedule grows by one action at a time. Of all actions that could be next the one that would end
first names a device, and whatever else that device could start before that end is tried as well:
the schedules that can be reached so hold an optimum where memory does not bind (Giffler and
Thompson, Algorithms for Solving Production-Scheduling Problems, Operations Research 8, 1960). Of
those that have run the same actions only one is kept, and of the others the ``width`` best, by
what each can become at best: a device has all its work left to do, and an action the rest of its
micro-batch's way (Ow and Morton, Filtered Beam Search in Scheduling, 1988).

As in ``lists`` the same goes backwards in time, where W takes memory and F gives it back.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from math import fsum
from operator import attrgetter, le

from geotrain.planning.schedule.shop import BACKWARD, FORWARD, KINDS, NONE, WEIGHT, Rows, Shop
from geotrain.units import Seconds

_ALIKE = 8
"""States that have run the same actions and are kept side by side."""

_MEAN = 0.95
"""How much the mean of the devices' bounds counts in a state's rank, beside the bound on all."""

_NO_TIMES: tuple[Seconds, ...] = ()

_Output = tuple[int, int, Seconds, Seconds]
"""(queue, link, spacing, time on the way)"""


@dataclass(frozen=True, slots=True)
class Graph:
    """What waits for what, in one direction of time. Lists are by code.

    ``inputs[c]`` are the queues from which c takes one entry each, and ``outputs[c]`` those to
    which it adds one: (queue, link, spacing, time on the way). ``takes`` and ``gives`` are the
    kinds that take memory and give it back. ``rest[c]`` is the least time from c's end to its
    micro-batch's. ``stages[d]`` are those of device d.
    """

    codes: tuple[int, ...]
    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[_Output, ...], ...]
    takes: int
    gives: int
    rest: tuple[Seconds, ...]
    stages: tuple[tuple[int, ...], ...]
    kinds: int
    """How many kinds, from F on, a device has to do before its last message."""
    home: tuple[Seconds, ...]
    """By device, the least time that is left after its last message was made."""
    hold: tuple[Seconds, ...]
    """The least time for which a micro-batch holds memory of each stage."""
    tail: tuple[Seconds, ...]
    """By stage, the least time that is left after it has given back memory."""
    first: tuple[Seconds, ...]
    """When each device starts at the earliest: backwards in time what follows its last action."""


@dataclass(frozen=True, slots=True)
class State:
    """A part of a schedule: how far it is, and when devices, links and queues are what.

    ``bounds[d]`` is when device d ends at best, and ``bound`` when all have. The less ``rank`` is,
    the better. ``before`` is the state one action ago.
    """

    bound: Seconds
    rank: Seconds
    done: tuple[int, ...]
    free: tuple[Seconds, ...]
    bounds: tuple[Seconds, ...]
    room: tuple[int, ...]
    busy: tuple[Seconds, ...]
    queues: tuple[tuple[Seconds, ...], ...]
    code: int
    before: "State | None"


def graph_of(shop: Shop, mirrored: bool) -> Graph:
    """The graph of a shop."""
    release = WEIGHT if shop.split else BACKWARD
    codes = tuple(c for c in range(len(shop.seconds)) if shop.split or c % KINDS != WEIGHT)
    arcs = [
        (code, target, shop.links[code], *shop.hops[code])
        for code, target in enumerate(shop.targets)
        if target >= 0
    ]
    if shop.split:
        arcs += [(c - 1, c, c, 0.0, 0.0) for c in codes if c % KINDS == WEIGHT]
    inputs: list[list[int]] = [[] for _ in shop.seconds]
    outputs: list[list[_Output]] = [[] for _ in shop.seconds]
    for queue, (source, target, link, spacing, takes) in enumerate(arcs):
        one, other = (target, source) if mirrored else (source, target)
        outputs[one].append((queue, link, spacing, takes))
        inputs[other].append(queue)
    rest = _rest(shop, outputs, [one if mirrored else other for one, other, *_ in arcs])
    last = FORWARD if mirrored else BACKWARD
    return Graph(
        codes=codes,
        inputs=tuple(map(tuple, inputs)),
        outputs=tuple(map(tuple, outputs)),
        takes=release if mirrored else FORWARD,
        gives=FORWARD if mirrored else release,
        rest=rest,
        stages=shop.members,
        kinds=release + 1 if mirrored else BACKWARD + 1,
        home=tuple(min(rest[KINDS * s + last] for s in stages) for stages in shop.members),
        hold=_hold(shop),
        tail=tuple(
            rest[code + last] - (0.0 if mirrored or not shop.split else shop.seconds[code + WEIGHT])
            for code in range(0, len(shop.seconds), KINDS)
        ),
        first=shop.after if mirrored else (0.0,) * len(shop.caps),
    )


def _hold(shop: Shop) -> tuple[Seconds, ...]:
    release = WEIGHT if shop.split else BACKWARD
    held, beyond = [0.0] * shop.stages, 0.0
    for stage in reversed(range(shop.stages)):
        code = KINDS * stage
        beyond += shop.seconds[code] + shop.seconds[code + BACKWARD]
        held[stage] = beyond + (shop.seconds[code + WEIGHT] if release == WEIGHT else 0.0)
        if stage:
            beyond += shop.hops[code - KINDS][1] + shop.hops[code + BACKWARD][1]
    return tuple(held)


def _rest(shop: Shop, outputs: list[list[_Output]], targets: list[int]) -> tuple[Seconds, ...]:
    """The longest chain of a micro-batch from the end of each code on."""
    rest: dict[int, Seconds] = {}

    def longest(code: int) -> Seconds:
        if code not in rest:
            rest[code] = max(
                (
                    takes + shop.seconds[targets[queue]] + longest(targets[queue])
                    for queue, _, _, takes in outputs[code]
                ),
                default=0.0,
            )
        return rest[code]

    return tuple(longest(code) for code in range(len(shop.seconds)))


def beam(
    shop: Shop, width: int, *, mirrored: bool = False, limit: Seconds = float("inf")
) -> list[Rows]:
    """Rows of the schedules found that may be shorter than ``limit``, the best first."""
    graph = graph_of(shop, mirrored)
    level = [nothing_yet(shop, graph)]
    for _ in range(shop.actions):
        children = [child for state in level for child in _children(shop, graph, state)]
        level = _best([each for each in children if each.bound < limit], width)
    return [_rows(shop, state, mirrored) for state in level]


def _best(children: list[State], width: int) -> list[State]:
    """The best few; of those that have run the same actions none that another is ahead of."""
    children.sort(key=attrgetter("rank", "done", "free"))
    kept: list[State] = []
    alike: dict[tuple[int, ...], list[tuple[Seconds, ...]]] = {}
    for child in children:
        others = alike.setdefault(child.done, [])
        times = (*child.free, *child.busy, *chain.from_iterable(child.queues))
        if len(others) < _ALIKE and not any(_is_ahead(other, times) for other in others):
            others.append(times)
            kept.append(child)
            if len(kept) == width:
                break
    return kept


def _is_ahead(one: tuple[Seconds, ...], other: tuple[Seconds, ...]) -> bool:
    return all(map(le, one, other))


def nothing_yet(shop: Shop, graph: Graph) -> State:
    """Where every schedule begins."""
    work = list(graph.first)
    for code in graph.codes:
        work[shop.devices[code]] += shop.micro_batches * shop.seconds[code]
    return State(
        bound=0.0,
        rank=0.0,
        done=(0,) * len(shop.seconds),
        free=graph.first,
        bounds=tuple(work),
        room=shop.caps,
        busy=(0.0,) * len(shop.seconds),
        queues=(_NO_TIMES,) * sum(map(len, graph.outputs)),
        code=NONE,
        before=None,
    )


def _children(shop: Shop, graph: Graph, state: State) -> Iterator[State]:
    starts = dict(startable(shop, graph, state))
    chosen: set[int] = set()
    left = dict(starts)
    while left:
        first = _first(shop, left)
        chosen |= _conflict(shop, left, first)
        is_alone = len(graph.stages[shop.devices[first]]) == 1
        if is_alone or first % KINDS != graph.takes:
            break
        # What takes memory that a later stage of the device may need is also left for later.
        del left[first]
    for code in sorted(chosen):
        yield after(shop, graph, state, code, starts[code])


def _first(shop: Shop, starts: dict[int, Seconds]) -> int:
    """The code that would end first."""
    return min(starts, key=lambda code: (starts[code] + shop.seconds[code], code))


def _conflict(shop: Shop, starts: dict[int, Seconds], first: int) -> set[int]:
    """A code, and what else its device could start before that would end."""
    end, device = starts[first] + shop.seconds[first], shop.devices[first]
    return {first} | {
        code
        for code, start in starts.items()
        if shop.devices[code] == device and start < end - shop.rounding
    }


def startable(shop: Shop, graph: Graph, state: State) -> Iterator[tuple[int, Seconds]]:
    """The codes that may run next on their device, and when."""
    queues, done, most = state.queues, state.done, shop.micro_batches
    for code in graph.codes:
        if done[code] >= most:
            continue
        device = shop.devices[code]
        start = state.free[device]
        for queue in graph.inputs[code]:
            waiting = queues[queue]
            if not waiting:
                break
            if waiting[0] > start:
                start = waiting[0]
        else:
            if code % KINDS != graph.takes or _has_room(graph, state, device, code // KINDS):
                yield code, start


def _has_room(graph: Graph, state: State, device: int, stage: int) -> bool:
    """The rule of ``lists``: the oldest micro-batch of the device can still go on."""
    stages, done = graph.stages[device], state.done
    oldest = min(done[KINDS * each + graph.gives] for each in stages)
    missing = sum(done[KINDS * each + graph.takes] <= oldest for each in stages if each != stage)
    return state.room[device] > missing


def after(shop: Shop, graph: Graph, state: State, code: int, start: Seconds) -> State:
    """The state once ``code`` runs from ``start`` on."""
    device, end = shop.devices[code], start + shop.seconds[code]
    done, free, bounds = list(state.done), list(state.free), list(state.bounds)
    queues, busy, room = list(state.queues), list(state.busy), list(state.room)
    done[code] += 1
    bounds[device] += start - free[device]
    free[device] = end
    if code % KINDS == graph.takes:
        room[device] -= 1
    elif code % KINDS == graph.gives:
        room[device] += 1
    for queue in graph.inputs[code]:
        queues[queue] = queues[queue][1:]
    for queue, link, spacing, way in graph.outputs[code]:
        begin = max(end, busy[link])
        busy[link] = begin + spacing
        queues[queue] = (*queues[queue], begin + way)
    bound = max(state.bound, bounds[device], end + graph.rest[code])
    left = _work_left(shop, graph, done, device)
    if left or code % KINDS < graph.kinds:
        bound = max(bound, end + left + graph.home[device])
    if code % KINDS == graph.takes:
        bound = max(bound, start + _held(shop, graph, done, device, code))
    rank = _MEAN * fsum(bounds) / len(bounds) + (1 - _MEAN) * bound
    return State(
        bound, rank, tuple(done), tuple(free), tuple(bounds), tuple(room), tuple(busy),
        tuple(queues), code, state,
    )  # fmt: skip


def _work_left(shop: Shop, graph: Graph, done: list[int], device: int) -> Seconds:
    """What a device has to do before its last message can go on."""
    return fsum(
        (shop.micro_batches - done[code]) * shop.seconds[code]
        for stage in graph.stages[device]
        for code in range(KINDS * stage, KINDS * stage + graph.kinds)
    )


def _held(shop: Shop, graph: Graph, done: list[int], device: int, code: int) -> Seconds:
    """What memory still takes at least, once a code takes some: no more than the cap at a time."""
    stage, cap, left = code // KINDS, shop.caps[device], shop.micro_batches + 1 - done[code]
    hold = graph.hold
    if len(graph.stages[device]) == 1:
        return hold[stage] * -(-left // cap) + graph.tail[stage]
    others = fsum(
        hold[each] * (shop.micro_batches - done[KINDS * each + graph.takes])
        for each in graph.stages[device]
        if each != stage
    )
    return max(hold[stage], (hold[stage] * left + others) / cap)


def _rows(shop: Shop, state: State, mirrored: bool) -> Rows:
    rows: Rows = [[] for _ in shop.caps]
    while state.before is not None:
        rows[shop.devices[state.code]].append(state.code)
        state = state.before
    return rows if mirrored else [row[::-1] for row in rows]
