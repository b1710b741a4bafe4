"""An exact replay of an order under costs: one sweep, no event queue.

Every resource serves a list that is fixed in advance, so every time is a maximum and a sum:

* a rank runs its actions in order: ``begin = max(end of the one before, arrival of its message)``;
  the part of an action that needs no message (``StageCosts.early``) may run before that arrival;
* a link carries its messages in the order in which they were produced (FIFO):
  ``sent = max(sent of the one before, producer's end) + occupancy``; ``arrival = sent + delay``;
  all hops from one device to one other share their link; on one device there is no message;
* on a hop that replicas share in turns, the turn goes from replica to replica for each message:
  (message 0, replica 0), (message 0, replica 1), …, whoever is late is waited for. Backwards and
  forwards leave in opposite directions and the links are full duplex, so within a direction the
  order of production is the order of urgency.

``dependencies.walk`` lists the actions of one replica so that each comes after what it needs;
replaying that list with all replicas side by side therefore meets everything after its causes.

An iteration ends for a device with the data-parallel all-reduce of its stages (when its last
replica is ready) and their optimizer steps; there is no global barrier. The period is measured
between two starts of device 0 in iterations that follow each other: iterations are replayed one
after another, each starting from the state that the last one left, until no rank is held up by its
previous iteration, or until the state repeats. A longer cycle (stages whose steps outlast the
iteration can make one of two) counts with its mean period, and its slowest iteration is the one
returned.

All times are seconds; those of a ``Timeline`` count from when device 0, which runs stage 0, is
free to start.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import fsum
from typing import Any

from geotrain.model.plan import Action, Interval, Kind, Order
from geotrain.planning.schedule.actions import COMPUTE
from geotrain.planning.schedule.checks import deadlock
from geotrain.planning.schedule.compiled import PLAIN, Engine
from geotrain.planning.schedule.costs import Costs
from geotrain.planning.schedule.dependencies import Message, makes, walk
from geotrain.planning.schedule.kernel import NOTHING, replay_lanes, replay_one
from geotrain.planning.schedule.layouts import Layout, layout_of
from geotrain.units import Seconds

_SAME = 1e-9
_DIGITS = 9

Steps = tuple[Sequence[int], Sequence[int], Sequence[int]]
"""Of every action: the one before on its device, the one whose message it needs, and its code."""


@dataclass(frozen=True, slots=True)
class Program:
    """An order made ready to replay, for any costs and any number of replicas.

    ``steps`` says the same as ``actions`` in the three numbers of ``kernel``: the index of the
    device's action before, or a slot behind the actions; that of the action whose message is
    needed, or the last slot; and the code. ``hops[c]`` is the hop that code c feeds, or -1: ``s``
    for the forward hop behind stage s, ``stages - 1 + s`` for the backward hop into stage s.
    ``links[h]`` is the link that carries hop h, named by the first hop between the same devices.
    ``rows[d]`` lists the indices of the actions of device d.
    """

    layout: Layout
    actions: tuple[Action, ...]
    hops: tuple[int, ...]
    steps: Steps
    rows: tuple[tuple[int, ...], ...]
    links: tuple[int, ...]

    @property
    def stages(self) -> int:
        """How many stages the model is cut into."""
        return len(self.layout)

    @property
    def devices(self) -> int:
        """How many devices run them."""
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class Timeline:
    """When everything happened in a steady iteration.

    ``ends[i * lanes + lane]`` is the end of ``program.actions[i]`` and ``sent`` that of its
    message's last byte on the wire. ``lanes`` is ``replicas``, or 1 where no hop is shared and
    all replicas are alike. ``steps[d]`` is when device d begins and ends what follows its
    last action: the all-reduce and the optimizer step.
    """

    program: Program
    costs: Costs
    replicas: int
    lanes: int
    ends: Sequence[Seconds]
    sent: Sequence[Seconds]
    steps: tuple[tuple[Seconds, Seconds], ...]
    period: Seconds

    def lane(self, replica: int) -> int:
        """A replica's own lane, or that of the replayed one that stands for it."""
        return min(replica, self.lanes - 1)

    def compute(self, device: int, replica: int) -> tuple[Interval, ...]:
        """The actions of one rank, in order."""
        return tuple(Interval(str(action), *when) for action, *when in self.runs(device, replica))

    def runs(self, device: int, replica: int) -> Iterator[tuple[Action, Seconds, Seconds]]:
        """The actions of one rank with their begin and end."""
        for i in self.program.rows[device]:
            action, end = self.program.actions[i], self._at(self.ends, i, replica)
            yield action, end - self.costs.seconds(action.kind, action.stage), end

    def computes(self) -> tuple[tuple[Interval, ...], ...]:
        """The actions of every rank; ranks that are alike share theirs."""
        lanes = [
            [self.compute(device, lane) for lane in range(self.lanes)]
            for device in range(self.program.devices)
        ]
        return tuple(row[self.lane(replica)] for row in lanes for replica in range(self.replicas))

    def transfers(self, hop: int, replica: int) -> tuple[Interval, ...]:
        """The messages of one replica over one hop: when their bytes are on the wire."""
        stages, found = self.program.stages, []
        sender = self.program.layout[hop if hop < stages - 1 else hop - stages + 2]
        for i in self.program.rows[sender]:
            if self.program.hops[self.program.steps[2][i]] == hop:
                action, end = self.program.actions[i], self._at(self.sent, i, replica)
                send = Action(action.stage, _SENDS[action.kind], action.micro_batch)
                found.append(Interval(str(send), end - self.costs.hops[hop].occupancy, end))
        return tuple(found)

    def _at(self, times: Sequence[Seconds], action: int, replica: int) -> Seconds:
        return float(times[action * self.lanes + self.lane(replica)])


_SENDS = {
    Kind.FORWARD: Kind.SEND_FORWARD,
    Kind.BACKWARD: Kind.SEND_BACKWARD,
    Kind.INPUT_GRADIENT: Kind.SEND_BACKWARD,
}


def program(order: Order) -> Program:
    """Make a compute order ready. Raises InputError, with the grid, where it deadlocks."""
    walked = walk(order)
    layout = layout_of(order)
    if not walked.complete:
        raise deadlock(order, walked.stopped).refusal
    count = len(walked.actions)
    rows: list[list[int]] = [[] for _ in order]
    last = list(range(count, count + len(order)))
    befores, codes = [], []
    for i, action in enumerate(walked.actions):
        device = layout[action.stage]
        rows[device].append(i)
        befores.append(last[device])
        last[device] = i
        codes.append(_code(action))
    needs = tuple(count + len(order) if need < 0 else need for need in walked.needs)
    return Program(
        layout,
        walked.actions,
        tuple(_hops(layout)),
        (tuple(befores), needs, tuple(codes)),
        tuple(map(tuple, rows)),
        tuple(_links(layout)),
    )


def _hops(layout: Layout) -> Iterator[int]:
    """For each code the hop that it feeds, or -1."""
    for stage in range(len(layout)):
        for kind in COMPUTE:
            message = makes(Action(stage, kind, 0), len(layout))
            yield -1 if message is None else _hop(message, layout)


def _hop(message: Message, layout: Layout) -> int:
    stage, forward, _ = message
    if layout[stage] == layout[stage + 1 if forward else stage - 1]:
        return -1
    return stage if forward else len(layout) - 2 + stage


def _links(layout: Layout) -> Iterator[int]:
    """For each hop the first hop between the same devices."""
    ends = [*pairwise(layout), *((target, source) for source, target in pairwise(layout))]
    first: dict[tuple[int, int], int] = {}
    return (first.setdefault(end, hop) for hop, end in enumerate(ends))


def replay(
    ready: Program,
    costs: Costs,
    replicas: int,
    *,
    representative: bool = False,
    iterations: int = 16,
    sweep: "Sweeper | None" = None,
) -> Timeline:
    """Replay iterations until they repeat, at most so many, and return the last.

    ``sweep`` replays one iteration; None: in plain Python.

    ``representative`` replays replica 0 alone, with the turns of the others as gaps in which the
    hop is taken: D times faster, and never slower than the exact replay, because it keeps a part
    of the same constraints. A search may therefore use it as a bound.
    """
    shared = any(hop.shared for hop in costs.hops)
    lanes = replicas if shared and not representative else 1
    run = plain if sweep is None else sweep
    sweeps: list[Sweep] = []

    def once(start: list[Seconds]) -> Iteration:
        sweeps.append(run(ready, costs, lanes, start))
        ends, _, steps = sweeps[-1]
        return Iteration([end for _, end in steps], _first_starts(ready, costs, ends))

    found = cycle(ready.devices, once, iterations)
    ends, sent, steps = sweeps[found.slowest]
    return Timeline(ready, costs, replicas, lanes, ends, sent, tuple(steps), found.period)


def _first_starts(ready: Program, costs: Costs, ends: Sequence[Seconds]) -> list[Seconds]:
    """When each device's first action starts, on the replica where it does so first."""
    lanes, starts = len(ends) // len(ready.actions), []
    for row in ready.rows:
        first = ready.actions[row[0]]
        end = min(ends[row[0] * lanes : (row[0] + 1) * lanes])
        starts.append(float(end) - costs.seconds(first.kind, first.stage))
    return starts


@dataclass(frozen=True, slots=True)
class Iteration:
    """By device: when it is ready for the next iteration, and when its first action starts."""

    ends: list[Seconds]
    starts: list[Seconds]


@dataclass(frozen=True, slots=True)
class Cycle:
    """The mean period of iterations that repeat, and which of all was the slowest of them."""

    period: Seconds
    slowest: int


def cycle(devices: int, once: Callable[[list[Seconds]], Iteration], iterations: int = 16) -> Cycle:
    """Replay iterations until they repeat, or so many; ``once`` replays one from given times on.

    Where every device, free at the end of the first iteration, would still wait for its message,
    the next one is the same as the first, in which all were free from the start.
    """
    start = [0.0] * devices
    state = tuple(start)
    seen: dict[tuple[Seconds, ...], int] = {}
    periods: list[Seconds] = []
    while len(periods) < iterations and state not in seen:
        seen[state] = len(periods)
        found = once(start)
        periods.append(found.ends[0])
        after = [end - found.ends[0] for end in found.ends]
        if not any(start) and all(map(_not_later, after, found.starts)):
            break
        start = after
        state = tuple(round(at, _DIGITS) for at in start)
    begin = seen.get(state, len(periods) - 1)
    repeated = range(begin, len(periods))
    return Cycle(fsum(periods[begin:]) / len(repeated), max(repeated, key=lambda i: periods[i]))


def _not_later(at: Seconds, start: Seconds) -> bool:
    return at <= start + _SAME


Sweep = tuple[Sequence[Seconds], Sequence[Seconds], list[tuple[Seconds, Seconds]]]
"""Ends of the actions, last bytes of their messages, begin and end of each device's step."""

Sweeper = Callable[[Program, Costs, int, list[Seconds]], Sweep]
"""Replays one iteration of so many lanes, whose devices are free from the given times on."""


def plain(ready: Program, costs: Costs, lanes: int, start: list[Seconds]) -> Sweep:
    """One iteration in plain Python."""
    return swept(PLAIN, ready.steps, ready, costs, lanes=lanes, start=start)


def swept(
    engine: Engine, steps: Any, ready: Program, costs: Costs, *, lanes: int, start: list[Seconds]
) -> Sweep:
    """One iteration on an engine, for which ``steps`` are ``ready.steps`` in its own arrays.

    A hop without turns has a link for each replica.
    """
    count, devices = len(ready.actions) * lanes, ready.devices
    ends = engine.zeros(count + devices * lanes)
    ends[count:] = engine.floats([at for at in start for _ in range(lanes)])
    sent = engine.zeros(count + (devices + 1) * lanes)
    sent[-lanes:] = engine.floats([NOTHING] * lanes)
    busy = engine.zeros(len(ready.links) * lanes)
    tables = _tables(engine, ready, costs)
    if lanes == 1:
        engine.kernel(replay_one)(steps, tables, (ends, sent, busy))
    else:
        shared = [hop.shared for hop in costs.hops]
        own = engine.integers([int(hop < 0 or not shared[hop]) for hop in ready.hops])
        engine.kernel(replay_lanes)(steps, tables, own, lanes, (ends, sent, busy))
    ends, sent = ends[:count], sent[:count]
    last = [float(max(ends[row[-1] * lanes : (row[-1] + 1) * lanes])) for row in ready.rows]
    after = after_last(ready, costs)
    return ends, sent, [(begin, begin + rest) for begin, rest in zip(last, after, strict=True)]


def after_last(ready: Program, costs: Costs) -> list[Seconds]:
    """What follows each device's last action: all-reduce and step of all its stages."""
    after = [0.0] * ready.devices
    for device, stage in zip(ready.layout, costs.stages, strict=True):
        after[device] += stage.all_reduce + stage.step
    return after


def _tables(engine: Engine, ready: Program, costs: Costs) -> tuple[Any, ...]:
    """By code: seconds, what its message is on its way, its link, spacing and occupancy."""
    # A search calls this for every replay of a few milliseconds, so each hop is asked but once.
    hops = costs.hops
    spacing = [*(hop.spacing for hop in hops), 0.0]
    occupancy = [*(hop.occupancy for hop in hops), 0.0]
    links = (*ready.links, -1)
    seconds: list[Seconds] = []
    for stage in costs.stages:
        seconds += (stage.forward, stage.backward, stage.input_gradient, stage.weight_gradient)
    return (
        engine.floats(seconds),
        engine.floats(_waits(ready, costs)),
        engine.integers([links[hop] for hop in ready.hops]),
        engine.floats([spacing[hop] for hop in ready.hops]),
        engine.floats([occupancy[hop] for hop in ready.hops]),
    )


def _waits(ready: Program, costs: Costs) -> list[Seconds]:
    """By code, from its message's last byte to its own start; 0 where none comes over a hop."""
    kinds, layout, crossed = len(COMPUTE), ready.layout, ready.stages - 1
    waits, delay = [0.0] * len(ready.hops), list(delays(costs))
    for stage in range(crossed):
        if layout[stage] != layout[stage + 1]:
            waits[kinds * (stage + 1) + _FORWARD] = delay[stage]
            waits[kinds * stage + _BACKWARD] = delay[crossed + stage]
            waits[kinds * stage + _INPUT_GRADIENT] = delay[crossed + stage]
    return waits


_FORWARD, _BACKWARD, _INPUT_GRADIENT = (
    COMPUTE.index(kind) for kind in (Kind.FORWARD, Kind.BACKWARD, Kind.INPUT_GRADIENT)
)


def delays(costs: Costs) -> Iterator[Seconds]:
    """From a message's last byte to the latest start of what needs it that does not delay it."""
    yield from (hop.delay for hop in costs.forward)
    yield from (
        hop.delay - stage.early
        for hop, stage in zip(costs.backward, costs.stages[:-1], strict=True)
    )


def _code(action: Action) -> int:
    return action.stage * len(COMPUTE) + COMPUTE.index(action.kind)
