"""What the gate's page should say: the rank's state and the bubbles that come next. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from geotrain.gate import MAX_BUBBLES, GateState, State
from geotrain.roles.sidecar.alignment import Alignment
from geotrain.units import Seconds

Interval = tuple[Seconds, Seconds]
_ITERATIONS_AHEAD = 2


@dataclass(frozen=True, slots=True)
class Activity:
    """What the trainer last said about its GPU. ``until`` of None: it did not say until when."""

    state: State = State.UNKNOWN
    until: Seconds | None = None


DONE = Activity(State.IDLE, math.inf)


def page(
    activity: Activity, alignment: Alignment, planned: Sequence[Interval], now: Seconds
) -> GateState:
    """The state to publish at ``now``.

    ``planned`` are the rank's bubbles, from an iteration's start. Where the trainer waits without
    saying until when, the end of the planned bubble around ``now`` is the best guess there is;
    outside of any, the end is unknown and the gate stays closed.
    """
    coming = upcoming(alignment, planned, now)
    until = activity.until
    if activity.state is State.IDLE and until is None:
        until = next((end for begin, end in coming if begin <= now < end), None)
    return GateState(
        state=activity.state,
        idle_until=until if activity.state is State.IDLE else None,
        iteration=alignment.iteration,
        period=alignment.seconds or alignment.period,
        bubbles=tuple(b for b in coming if b[1] > now)[:MAX_BUBBLES],
    )


def upcoming(
    alignment: Alignment, planned: Sequence[Interval], now: Seconds
) -> tuple[Interval, ...]:
    """The bubbles of this iteration and the next, as times; none while nothing is aligned."""
    if not alignment.is_aligned(now) or alignment.base is None or alignment.period <= 0:
        return ()
    stretch = alignment.stretch
    period = alignment.period * stretch
    first = math.floor((now - alignment.base) / period)
    return tuple(
        (start + begin * stretch, start + end * stretch)
        for count in range(first, first + _ITERATIONS_AHEAD)
        for start in (alignment.base + count * period,)
        for begin, end in planned
        if start + end * stretch > now
    )
