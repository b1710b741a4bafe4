"""When GPUs wait: the gaps between what a rank does, within one period of the steady state.

A rank is busy in its actions and in the all-reduce and optimizer step that end its iteration. A
wait that spans the period's end is reported as two bubbles, one at each end.
"""

from collections.abc import Iterable, Iterator

from geotrain.model.plan import Bubble
from geotrain.planning.schedule.timeline import Timeline
from geotrain.units import Seconds

_LEAST = 1e-9


def bubbles(timeline: Timeline) -> tuple[Bubble, ...]:
    """The bubbles of every rank, by rank and time."""
    return tuple(
        Bubble(device * timeline.replicas + replica, begin, end)
        for device in range(timeline.program.devices)
        for replica in range(timeline.replicas)
        for begin, end in _gaps(_busy(timeline, device, replica), timeline.period)
    )


def busy_seconds(timeline: Timeline) -> Seconds:
    """What all ranks compute in one iteration: actions and optimizer steps, no all-reduce."""
    costs = timeline.costs
    actions = sum(costs.seconds(a.kind, a.stage) for a in timeline.program.actions)
    return timeline.replicas * (actions + sum(stage.step for stage in costs.stages))


def _busy(timeline: Timeline, device: int, replica: int) -> Iterator[tuple[Seconds, Seconds]]:
    for interval in timeline.compute(device, replica):
        yield interval.begin, interval.end
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
    free = 0.0
    for begin, end in [*sorted(pieces), (period, period)]:
        if begin - free > _LEAST:
            yield free, begin
        free = max(free, end)
