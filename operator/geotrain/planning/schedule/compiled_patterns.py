"""The iteration of a pattern of depths, swept without making its order.

GPipe, 1F1B and Atlas are one pattern (see ``orders``): with depths d that never grow along the
pipeline, stage s runs B(m - d_s) just before F(m). So one loop over m meets everything after its
causes: first the backwards, from the last stage to the first, then the forwards, from the first
to the last. No action is ever made, and the times are those of ``timeline.replay``, to the last
bit: the same additions and maxima in the same sequence.

The state of the sweep after a step (when each rank and link is free, and the gradients on their
way) decides all that follows, and adding a constant to it adds the constant to all that follows.
Once a state repeats an earlier one plus a constant Δ, c micro-batches later, the pipeline is in
its steady state: k cycles of c micro-batches are left out, and k Δ is added to the end. Which
earlier state to compare with is chosen as in Brent's cycle search (doi:10.1007/BF01933190): it
is renewed each time that the steps since the start have grown by half. States are compared up to
rounding, so a skipped sweep agrees with the full one to some nine digits; ``skip=False`` is the
full one. Periods with c > 1 are common.

Units: seconds. Arrays are flat: ``[stage * lanes + lane]``; a hop's gradients on their way lie in
a ring of d_0 + 1 micro-batches.
"""

from collections.abc import Sequence
from typing import Any

from geotrain.planning.schedule.compiled import Engine
from geotrain.planning.schedule.costs import Costs
from geotrain.planning.schedule.timeline import Iteration, cycle, delays
from geotrain.units import Seconds


class Patterns:
    """The patterns of one pipeline's costs, ready to sweep.

    One lane is a replica for itself, or one that stands for all of a cell, with the others' turns
    as gaps; more lanes are replicas side by side.
    """

    def __init__(self, engine: Engine, costs: Costs, lanes: int) -> None:
        stages, hops = costs.stages, costs.hops
        self._engine, self._lanes, self._stages = engine, lanes, len(stages)
        self._after = [stage.all_reduce + stage.step for stage in stages]
        self._forward = [stage.forward for stage in stages]
        self._tables = (
            engine.floats(self._forward),
            engine.floats([stage.backward for stage in stages]),
            engine.floats([hop.spacing if lanes == 1 else hop.occupancy for hop in hops]),
            engine.floats([hop.occupancy for hop in hops]),
            engine.floats(list(delays(costs))),
        )
        self._own_link = engine.integers([int(not hop.shared) for hop in hops])

    def period(self, depths: Sequence[int], micro_batches: int, *, skip: bool = True) -> Seconds:
        """As that of ``timeline.replay``. Raises ValueError where depths grow."""
        held = _held(depths, micro_batches)
        return cycle(
            self._stages, lambda start: self._sweep(held, micro_batches, start, skip)
        ).period

    def end(self, depths: Sequence[int], micro_batches: int) -> Seconds:
        """When the last device of an iteration alone is ready. Raises ValueError as ``period``."""
        held = _held(depths, micro_batches)
        return max(self._sweep(held, micro_batches, [0.0] * self._stages, True).ends)

    def _sweep(
        self, held: list[int], micro_batches: int, start: list[Seconds], skip: bool
    ) -> Iteration:
        engine, lanes, stages = self._engine, self._lanes, self._stages
        free = engine.floats(start if lanes == 1 else [at for at in start for _ in range(lanes)])
        first = engine.zeros(stages)
        links = engine.zeros(2 * (stages - 1) * lanes)
        gradients = engine.zeros((held[0] + 1) * stages * lanes)
        numbers = (self._own_link, engine.integers(held))
        shift = engine.kernel(drive, back, ahead, repeats)(
            (free, links, gradients), first, engine.zeros(lanes), self._tables, numbers,
            micro_batches, lanes, skip,
        )  # fmt: skip
        ended = list(map(float, free))
        if lanes > 1:
            ended = [max(ended[s : s + lanes]) for s in range(0, stages * lanes, lanes)]
        return Iteration(
            [end + shift + after for end, after in zip(ended, self._after, strict=True)],
            [end - forward for end, forward in zip(map(float, first), self._forward, strict=True)],
        )


def _held(depths: Sequence[int], micro_batches: int) -> list[int]:
    held = list(depths)
    if max(held) > micro_batches:
        held = [min(depth, micro_batches) for depth in depths]
    if sorted(held, reverse=True) != held:
        raise ValueError(f"the depths {held} grow along the pipeline; they may only fall")
    return held


State = Any
"""(free, links, gradients): when ranks and links are free, and arrivals in a ring."""


def drive(
    state: State, first: Any, message: Any, tables: Any, numbers: Any,
    count: int, lanes: int, skip: bool,
) -> float:  # fmt: skip
    """All steps; returns what the cycles that were left out add to every end."""
    free, links, gradients = state
    depth, shift, step, at = numbers[1][0], 0.0, 0, -1
    renew = depth
    old = (free.copy(), links.copy(), gradients.copy())
    while step < count + depth:
        back(step, count, lanes, state, tables, numbers)
        if step < count:
            ahead(step, lanes, state, first, message, tables, numbers)
        if skip and step < count:
            if at >= 0 and repeats(step, at, lanes, state, old, numbers):
                left_out = (count - 1 - step) // (step - at)
                shift = left_out * (free[0] - old[0][0])
                count -= left_out * (step - at)
                skip = False
            elif step >= renew:
                old = (free.copy(), links.copy(), gradients.copy())
                at, renew = step, step + max(4, step // 2)
        step += 1
    return shift


def repeats(step: int, at: int, lanes: int, state: State, old: State, numbers: Any) -> bool:
    """Whether the state after ``step`` is the one after ``at``, moved on by one constant."""
    free, links, gradients = state
    free_then, links_then, gradients_then = old
    depths, moved, off = numbers[1], free[0] - free_then[0], 1e-12 * free[0]
    for now, then in ((free, free_then), (links, links_then)):
        for i in range(len(now)):
            if abs(now[i] - then[i] - moved) > off:
                return False
    ring = depths[0] + 1
    for s in range(len(depths) - 1):
        for m in range(step - depths[s] + 1, step - depths[s + 1] + 1):
            here, there = (s * ring + m % ring) * lanes, (s * ring + (m - step + at) % ring) * lanes
            for lane in range(lanes):
                if abs(gradients[here + lane] - gradients_then[there + lane] - moved) > off:
                    return False
    return True


def back(step: int, count: int, lanes: int, state: State, tables: Any, numbers: Any) -> None:
    """The backwards of a step, from the last stage to the first."""
    free, links, gradients = state
    _, backward, spacing, occupancy, delay = tables
    own, depths = numbers
    last, ring = len(depths) - 1, depths[0] + 1
    for s in range(last, -1, -1):
        m = step - depths[s]
        if m < 0 or m >= count:
            continue
        rank, slot, cost = s * lanes, (s * ring + m % ring) * lanes, backward[s]
        for lane in range(lanes):
            now = free[rank + lane]
            if s < last and gradients[slot + lane] > now:
                now = gradients[slot + lane]
            free[rank + lane] = now + cost
        if s > 0:
            hop, to = last + s - 1, slot - ring * lanes
            space, taken, way = spacing[hop], occupancy[hop], delay[hop]
            for lane in range(lanes):
                now, link = free[rank + lane], hop * lanes + lane * own[hop]
                if links[link] > now:
                    now = links[link]
                links[link] = now + space
                gradients[to + lane] = now + taken + way


def ahead(
    step: int, lanes: int, state: State, first: Any, message: Any, tables: Any, numbers: Any
) -> None:
    """The forwards of a step, from the first stage to the last."""
    free, links, _ = state
    forward, _, spacing, occupancy, delay = tables
    own, last = numbers[0], len(numbers[1]) - 1
    for s in range(last + 1):
        rank, cost = s * lanes, forward[s]
        for lane in range(lanes):
            now = free[rank + lane]
            if s > 0 and message[lane] > now:
                now = message[lane]
            free[rank + lane] = now + cost
        if step == 0:
            first[s] = min(free[rank : rank + lanes])
        if s < last:
            space, taken, way = spacing[s], occupancy[s], delay[s]
            for lane in range(lanes):
                now, link = free[rank + lane], s * lanes + lane * own[s]
                if links[link] > now:
                    now = links[link]
                links[link] = now + space
                message[lane] = now + taken + way
