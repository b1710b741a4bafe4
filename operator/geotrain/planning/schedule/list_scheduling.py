"""A list scheduler over devices: what is free takes what has arrived, and fills waits with W.

Times come from the costs, so an order follows the messages. A message is known from the moment its
producer starts, so a free device can tell whether a weight gradient still fits before the next
arrival. Rules say what it prefers; a generator tries several and keeps the best. A forward takes an
activation of memory; an input gradient frees a part of it, if any (``Memory``), and the weight
gradient the rest; a whole backward frees all.

Where a device runs several stages, all but its last may take memory only while one more
micro-batch would fit: the oldest micro-batch can then always go on, and nothing deadlocks.
"""

import heapq
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from geotrain.errors import InputError
from geotrain.model.plan import Action, Kind, Order
from geotrain.planning.schedule.costs import Costs
from geotrain.planning.schedule.layouts import one_stage_each
from geotrain.units import Seconds

_SAME_INSTANT = 1e-12
_NEVER = float("inf")
WHOLE = 8
"""An activation, in the eighths in which memory is counted."""

_Queue = deque[tuple[Seconds, int]]
"""(when it can start, micro-batch), in the order of arrival."""


@dataclass(frozen=True, slots=True)
class Memory:
    """``caps[d]`` stage activations fit on device d; an input gradient frees ``freed`` eighths."""

    caps: tuple[int, ...]
    freed: int = 0

    @property
    def eighths(self) -> list[int]:
        """What fits on each device."""
        return [WHOLE * cap for cap in self.caps]


@dataclass(frozen=True, slots=True)
class Rules:
    """What a free device prefers.

    ``depths[s]``: forwards of stage s that may be ahead of its backwards. ``alternate``: after an
    input gradient a forward goes first. ``patience``: the share of a weight gradient's time that
    the next arrival may come before its end; 0 starts none that would delay anything. ``split``:
    backwards are cut into input and weight gradients.
    """

    depths: tuple[int, ...]
    alternate: bool = False
    patience: float = 0.0
    split: bool = True


@dataclass(frozen=True, slots=True, order=True)
class Candidate:
    """An order and what its generator's clock says: the longest span of a device, and the end."""

    span: Seconds
    end: Seconds
    order: Order


@dataclass(slots=True)
class _Device:
    room: int
    forwards: list[tuple[int, _Queue]] = field(default_factory=list)
    backwards: list[tuple[int, _Queue]] = field(default_factory=list)
    weights: deque[tuple[int, int]] = field(default_factory=deque)
    begin: Seconds = 0.0
    free: Seconds = 0.0
    after_backward: bool = False
    row: list[Action] = field(default_factory=list)


def list_schedule(costs: Costs, memory: Memory, micro_batches: int, rules: Rules) -> Candidate:
    """An order under ``rules``.

    Raises InputError where a device has no room for one micro-batch on each of its stages.
    """
    layout = costs.layout or one_stage_each(len(costs.stages))
    devices = [_Device(room) for room in memory.eighths]
    for stage in reversed(range(len(layout))):
        devices[layout[stage]].forwards.append((stage, deque()))
        devices[layout[stage]].backwards.append((stage, deque()))
    if micro_batches < 1:
        raise InputError("a schedule needs at least one micro-batch")
    for number, device in enumerate(devices):
        if device.room < WHOLE * len(device.forwards):
            raise InputError(
                f"rank {number} has room for {device.room // WHOLE} micro-batches in flight and "
                f"runs {len(device.forwards)} stages; give room for one each"
            )
    _Scheduler(costs, layout, devices, rules, memory.freed).run(micro_batches)
    rows = tuple(tuple(device.row) for device in devices)
    span = max(device.free - device.begin for device in devices)
    return Candidate(span, max(device.free for device in devices), rows)


@dataclass(slots=True)
class _Scheduler:
    costs: Costs
    layout: tuple[int, ...]
    devices: list[_Device]
    rules: Rules
    freed: int
    ahead: list[int] = field(default_factory=list)
    forwards: list[_Queue] = field(default_factory=list)
    backwards: list[_Queue] = field(default_factory=list)
    links: dict[tuple[int, int], Seconds] = field(default_factory=dict)
    events: list[tuple[Seconds, int]] = field(default_factory=list)

    def run(self, micro_batches: int) -> None:
        self.ahead = [0] * len(self.layout)
        queues = [(dict(d.forwards), dict(d.backwards)) for d in self.devices]
        self.forwards = [queues[device][0][s] for s, device in enumerate(self.layout)]
        self.backwards = [queues[device][1][s] for s, device in enumerate(self.layout)]
        self.forwards[0].extend((0.0, micro_batch) for micro_batch in range(micro_batches))
        self.events = [(0.0, number) for number in range(len(self.devices))]
        while self.events:
            now, number = heapq.heappop(self.events)
            device = self.devices[number]
            if device.free <= now + _SAME_INSTANT:
                self._serve(now, number, device)

    def _serve(self, now: Seconds, number: int, device: _Device) -> None:
        """Start what the rules prefer, or come back at the next arrival that is known."""
        backward, later_backward = _first(device.backwards, now)
        admitted = [(s, q) for s, q in device.forwards if q and self._admits(device, s)]
        forward, later_forward = _first(admitted, now)
        following = min(later_backward, later_forward)
        if forward >= 0 and (backward < 0 or (self.rules.alternate and device.after_backward)):
            self._forward(now, number, device, forward)
        elif backward >= 0:
            self._backward(now, number, device, backward)
        elif device.weights and self._fits(device, following - now):
            self._weight_gradient(now, number, device)
        elif following < _NEVER:
            heapq.heappush(self.events, (following, number))

    def _admits(self, device: _Device, stage: int) -> bool:
        reserved = 0 if stage == device.forwards[0][0] else WHOLE
        return device.room >= WHOLE + reserved and self.ahead[stage] < self.rules.depths[stage]

    def _fits(self, device: _Device, gap: Seconds) -> bool:
        stage, _ = device.weights[0]
        length = self.costs.stages[stage].weight_gradient
        return gap >= length * (1 - self.rules.patience) - _SAME_INSTANT

    def _forward(self, now: Seconds, number: int, device: _Device, stage: int) -> None:
        _, micro_batch = self.forwards[stage].popleft()
        device.room -= WHOLE
        device.after_backward = False
        self.ahead[stage] += 1
        end = self._run(now, number, device, Action(stage, Kind.FORWARD, micro_batch))
        if stage == len(self.layout) - 1:
            self.backwards[stage].append((end, micro_batch))
        else:
            arrival = self._send(end, stage, stage + 1)
            self._deliver(self.forwards[stage + 1], arrival, stage + 1, micro_batch)

    def _backward(self, now: Seconds, number: int, device: _Device, stage: int) -> None:
        _, micro_batch = self.backwards[stage].popleft()
        device.after_backward = True
        self.ahead[stage] -= 1
        if self.rules.split:
            device.weights.append((stage, micro_batch))
            device.room += self.freed
            kind = Kind.INPUT_GRADIENT
        else:
            device.room += WHOLE
            kind = Kind.BACKWARD
        end = self._run(now, number, device, Action(stage, kind, micro_batch))
        if stage:
            arrival = self._send(end, stage, stage - 1) - self.costs.stages[stage - 1].early
            self._deliver(self.backwards[stage - 1], arrival, stage - 1, micro_batch)

    def _weight_gradient(self, now: Seconds, number: int, device: _Device) -> None:
        stage, micro_batch = device.weights.popleft()
        device.room += WHOLE - self.freed
        self._run(now, number, device, Action(stage, Kind.WEIGHT_GRADIENT, micro_batch))

    def _run(self, now: Seconds, number: int, device: _Device, action: Action) -> Seconds:
        if not device.row:
            device.begin = now
        device.row.append(action)
        device.free = now + self.costs.seconds(action.kind, action.stage)
        heapq.heappush(self.events, (device.free, number))
        return device.free

    def _send(self, end: Seconds, source: int, target: int) -> Seconds:
        """When a message that is ready at ``end`` arrives."""
        ends = self.layout[source], self.layout[target]
        if ends[0] == ends[1]:
            return end
        hop = self.costs.forward[source] if target > source else self.costs.backward[target]
        begin = max(end, self.links.get(ends, 0.0))
        self.links[ends] = begin + hop.spacing
        return begin + hop.occupancy + hop.delay

    def _deliver(self, queue: _Queue, arrival: Seconds, stage: int, micro_batch: int) -> None:
        queue.append((arrival, micro_batch))
        number = self.layout[stage]
        if self.devices[number].free <= arrival:
            heapq.heappush(self.events, (arrival, number))


def _first(queues: Iterable[tuple[int, _Queue]], now: Seconds) -> tuple[int, Seconds]:
    """The last stage whose head can start, or -1; and when the next head of another can."""
    ready, following = -1, _NEVER
    for stage, queue in queues:
        if queue:
            at = queue[0][0]
            if at > now + _SAME_INSTANT:
                following = min(following, at)
            elif ready < 0:
                ready = stage
    return ready, following
