"""``timeline``'s sweep over a program as a kernel: the same times, some fifty times faster.

``Fast(engine, ready)`` turns a program's steps into arrays once; its ``sweep`` is then what
``timeline.replay`` takes in place of its own. Arrays are flat, ``[action * lanes + lane]``.
"""

from collections.abc import Sequence
from typing import Any

from geotrain.planning.schedule.compiled import Engine
from geotrain.planning.schedule.costs import Costs
from geotrain.planning.schedule.timeline import (
    Program,
    Sweep,
    Timeline,
    after_last,
    delays,
    replay,
    seconds_by_code,
)
from geotrain.units import Seconds


class Fast:
    """A program as arrays."""

    def __init__(self, engine: Engine, ready: Program) -> None:
        self.ready = ready
        self._engine = engine
        self._steps = tuple(engine.integers(column) for column in zip(*ready.steps, strict=True))
        self._links = engine.integers(ready.links)

    def replay(self, costs: Costs, replicas: int, *, representative: bool = False) -> Timeline:
        """As ``timeline.replay``."""
        return replay(self.ready, costs, replicas, representative=representative, sweep=self.sweep)

    def sweep(self, ready: Program, costs: Costs, lanes: int, start: Sequence[Seconds]) -> Sweep:
        """One iteration of the program that this was made from."""
        assert ready is self.ready, "the arrays are those of one program"
        engine, count = self._engine, len(ready.steps) * lanes
        ends, sent, arrivals = (engine.zeros(count) for _ in range(3))
        free = engine.floats([at for at in start for _ in range(lanes)])
        engine.kernel(run_one if lanes == 1 else run_all)(
            *self._steps,
            self._links,
            *_tables(engine, costs, lanes),
            engine.zeros(len(ready.links) * lanes),
            free,
            ends,
            sent,
            arrivals,
            *(() if lanes == 1 else (lanes,)),
        )
        last = [max(map(float, free[d * lanes : (d + 1) * lanes])) for d in range(ready.devices)]
        after = after_last(ready, costs)
        steps = [(begin, begin + rest) for begin, rest in zip(last, after, strict=True)]
        return ends, sent, steps


def _tables(engine: Engine, costs: Costs, lanes: int) -> tuple[Any, ...]:
    hops = costs.hops
    return (
        engine.floats(seconds_by_code(costs)),
        engine.floats([hop.spacing for hop in hops] if lanes == 1 else []),
        engine.floats([hop.occupancy for hop in hops]),
        engine.floats(list(delays(costs))),
        engine.integers([int(hop.shared) for hop in hops]),
    )


def run_one(
    devices: Any, codes: Any, needs: Any, hops: Any, link_of: Any,
    seconds: Any, spacing: Any, occupancy: Any, delay: Any, shared: Any,
    links: Any, free: Any, ends: Any, sent: Any, arrivals: Any,
) -> None:  # fmt: skip
    """One lane, as ``timeline`` does it."""
    for i in range(len(devices)):
        now = free[devices[i]]
        if needs[i] >= 0 and arrivals[needs[i]] > now:
            now = arrivals[needs[i]]
        now += seconds[codes[i]]
        free[devices[i]] = now
        ends[i] = now
        hop = hops[i]
        if hop >= 0:
            link = link_of[hop]
            if links[link] > now:
                now = links[link]
            links[link] = now + spacing[hop]
            now += occupancy[hop]
            sent[i] = now
            arrivals[i] = now + delay[hop]
        else:
            sent[i] = now
            arrivals[i] = now


def run_all(
    devices: Any, codes: Any, needs: Any, hops: Any, link_of: Any,
    seconds: Any, spacing: Any, occupancy: Any, delay: Any, shared: Any,
    links: Any, free: Any, ends: Any, sent: Any, arrivals: Any, lanes: int,
) -> None:  # fmt: skip
    """All replicas side by side: a hop in turns has one link, the others one a lane."""
    for i in range(len(devices)):
        mine, rank, cost, hop = i * lanes, devices[i] * lanes, seconds[codes[i]], hops[i]
        theirs = needs[i] * lanes
        for lane in range(lanes):
            now = free[rank + lane]
            if theirs >= 0 and arrivals[theirs + lane] > now:
                now = arrivals[theirs + lane]
            now += cost
            free[rank + lane] = now
            ends[mine + lane] = now
            sent[mine + lane] = now
            arrivals[mine + lane] = now
        if hop >= 0:
            link, step = link_of[hop] * lanes, 1 - shared[hop]
            for lane in range(lanes):
                now = sent[mine + lane]
                if links[link] > now:
                    now = links[link]
                now += occupancy[hop]
                links[link] = now
                link += step
                sent[mine + lane] = now
                arrivals[mine + lane] = now + delay[hop]
