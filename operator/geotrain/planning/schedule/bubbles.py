"""When GPUs wait: the gaps between what a rank does, within one period of the steady state.

A rank is busy in its actions and in the all-reduce and optimizer step that end its iteration. A
wait that spans the period's end is reported as two bubbles, one at each end.
"""

from collections.abc import Iterable, Iterator
from math import fsum

from geotrain.model.plan import Bubble, Kind
from geotrain.planning.schedule.timeline import Timeline
from geotrain.units import Seconds

_LEAST = 1e-9
_ANSWERS = (Kind.BACKWARD, Kind.INPUT_GRADIENT)


def bubbles(timeline: Timeline) -> tuple[Bubble, ...]:
    """The bubbles of every rank, by rank and time."""
    found: list[Bubble] = []
    for device in range(timeline.program.devices):
        lanes = [
            tuple(_gaps(_busy(timeline, device, lane), timeline.period))
            for lane in range(timeline.lanes)
        ]
        for replica in range(timeline.replicas):
            rank = device * timeline.replicas + replica
            found += (Bubble(rank, *gap) for gap in lanes[timeline.lane(replica)])
    return tuple(found)


def busy_seconds(timeline: Timeline) -> Seconds:
    """What all ranks compute in one iteration: actions and optimizer steps, no all-reduce."""
    costs = timeline.costs
    actions = fsum(costs.seconds(a.kind, a.stage) for a in timeline.program.actions)
    return timeline.replicas * (actions + fsum(stage.step for stage in costs.stages))


def _busy(timeline: Timeline, device: int, replica: int) -> Iterator[tuple[Seconds, Seconds]]:
    free = 0.0
    for action, begin, end in timeline.runs(device, replica):
        early = timeline.costs.stages[action.stage].early if action.kind in _ANSWERS else 0.0
        if early and begin > free:  # what needs no message runs before the wait
            yield free, free + early
            begin += early
        yield begin, end
        free = end
    yield timeline.steps[device]


def _gaps(
    busy: Iterable[tuple[Seconds, Seconds]], period: Seconds
) -> Iterator[tuple[Seconds, Seconds]]:
    """What is left of [0, period] when ``busy`` repeats with it."""
    if not period:
        return
    pieces = []
    for begin, end in busy:
        whole = begin // period * period
        pieces.append((begin - whole, end - whole))
        pieces.append((begin - whole - period, end - whole - period))
    yield from _between(sorted(pieces), period)


def spans(timeline: Timeline) -> tuple[Seconds, ...]:
    """From each device's first start to its last end (replica 0), all-reduce and step left out."""
    found = []
    for row in timeline.program.rows:
        first, last = row[0] * timeline.lanes, row[-1] * timeline.lanes
        action = timeline.program.actions[row[0]]
        begin = timeline.ends[first] - timeline.costs.seconds(action.kind, action.stage)
        found.append(timeline.ends[last] - begin)
    return tuple(found)


def longest_span(timeline: Timeline) -> Seconds:
    """The span of the device that takes longest."""
    return max(spans(timeline))


def bubble_ratio(timeline: Timeline) -> float:
    """What the longest span has of bubbles: 1 - m (F + I + W) / span, as the zero-bubble papers.

    Where devices differ, the busiest one's work counts. 0 where nothing takes any time.
    """
    work = [0.0] * timeline.program.devices
    for action in timeline.program.actions:
        device = timeline.program.layout[action.stage]
        work[device] += timeline.costs.seconds(action.kind, action.stage)
    span = longest_span(timeline)
    return max(0.0, 1 - max(work) / span) if span else 0.0


def waits(timeline: Timeline) -> tuple[tuple[tuple[Seconds, Seconds], ...], ...]:
    """By device, when it waits between the start of one iteration and the end of its last action.

    The iteration is taken alone: replica 0, from time 0 until no device has an action left.
    """
    end = makespan(timeline)
    found = []
    for device in range(timeline.program.devices):
        busy = ((begin, end) for _, begin, end in timeline.runs(device, 0))
        found.append(tuple(_between(busy, end)))
    return tuple(found)


def makespan(timeline: Timeline) -> Seconds:
    """When the last action of the iteration ends."""
    return max(timeline.ends)


def _between(
    busy: Iterable[tuple[Seconds, Seconds]], end: Seconds
) -> Iterator[tuple[Seconds, Seconds]]:
    free = 0.0
    for begin, until in [*busy, (end, end)]:
        if begin - free > _LEAST:
            yield free, begin
        free = max(free, until)
