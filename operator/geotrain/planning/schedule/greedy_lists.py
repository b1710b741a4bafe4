"""List scheduling in both directions of time: whoever is free runs the best of what is ready.

Forwards in time a device that is free takes a backward that has arrived, or a forward if memory
has room, or a weight gradient as filler: where it fits before the next message that is on its way,
where it makes room for a forward that waits, or where too many are put off.

Backwards in time the same pipeline runs from its last weight gradient to its first forward. There
W takes memory and F gives it back, so a schedule that is built backwards holds activations for as
short as can be where memory is tight: it starts from the end, where nothing else is in flight.
Read in reverse, its rows are an order like any other. Without latency and memory the two
directions are equal; the nearer memory is to what the round trip holds, the more they differ.

No list deadlocks: an action of a device's j-th stage that takes memory leaves room for one of each
later stage there, so the oldest micro-batch can always go on (the banker's rule; Dijkstra, EWD108).

Sources: list schedules, Kohler and Steiglitz in Coffman (ed.), Computer and Job-Shop Scheduling
Theory (1976); W as filler, Qi et al., Zero Bubble Pipeline Parallelism (arXiv 2401.10241).
"""

import heapq
from dataclasses import dataclass

from geotrain.planning.schedule.greedy_shop import (
    BACKWARD,
    FORWARD,
    KINDS,
    NONE,
    WEIGHT,
    Rows,
    Shop,
)
from geotrain.units import Seconds

_NEVER = float("inf")

UNBOUNDED = 1_000_000


@dataclass(frozen=True, slots=True)
class Policy:
    """What a free device prefers. The defaults are backward first and W where it delays nothing.

    ``filler`` is the share of a W by which it may delay a message that is on its way. At most
    ``pending`` weight gradients are put off (backwards in time: done ahead). ``eager`` takes
    forwards before backwards (backwards in time: backwards before forwards). ``relieve`` lets a W
    make room for a forward that waits.
    """

    mirrored: bool = False
    filler: float = 0.0
    pending: int = UNBOUNDED
    eager: bool = False
    relieve: bool = True


def list_schedule(shop: Shop, policy: Policy) -> Rows:
    """The rows that a policy makes. Every device needs room for one micro-batch of each stage."""
    lists = _Mirrored(shop, policy) if policy.mirrored else _Lists(shop, policy)
    lists.run()
    return lists.rows


class _Lists:
    """The state of a list schedule that is under way."""

    def __init__(self, shop: Shop, policy: Policy) -> None:
        self.shop, self.policy = shop, policy
        self.eps = shop.rounding
        self.targets, self.links, self.hops = self._routes()
        self.arrived: list[list[Seconds]] = [[] for _ in shop.seconds]
        self.taken = [0] * len(shop.seconds)
        self.busy = [0.0] * len(shop.seconds)
        self.free = [0.0] * len(shop.caps)
        self.room = list(shop.caps)
        self.weights = [0] * shop.stages
        self.rows: Rows = [[] for _ in shop.caps]
        self.events: list[tuple[Seconds, int]] = []
        self.stages = [shop.stages_of(device)[::-1] for device in range(len(shop.caps))]
        self.spare = [0] * shop.stages
        for stages in self.stages:
            for later, stage in enumerate(stages):
                self.spare[stage] = later
        self.begin()

    def _routes(
        self,
    ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[Seconds, Seconds], ...]]:
        return self.shop.targets, self.shop.links, self.shop.hops

    def begin(self) -> None:
        self.arrived[FORWARD] = [0.0] * self.shop.micro_batches
        self.events = [(0.0, 0)]

    def run(self) -> None:
        """Each event is a moment at which a device may have something to do."""
        events = self.events
        while events:
            now, device = heapq.heappop(events)
            if self.free[device] <= now + self.eps:
                code = self.choose(device, now)
                if code >= 0:
                    self.start(device, code, now)

    def start(self, device: int, code: int, now: Seconds) -> None:
        end = now + self.shop.seconds[code]
        self.rows[device].append(code)
        self.free[device] = end
        self.account(device, code)
        target = self.targets[code]
        if target >= 0:
            link, (spacing, takes) = self.links[code], self.hops[code]
            begin = max(end, self.busy[link])
            self.busy[link] = begin + spacing
            self.arrived[target].append(begin + takes)
            self.announce(target, begin + takes, now)
        heapq.heappush(self.events, (end, device))

    def announce(self, code: int, arrival: Seconds, now: Seconds) -> None:
        device = self.shop.devices[code]
        if arrival >= self.free[device]:
            heapq.heappush(self.events, (arrival, device))

    def arrival(self, code: int) -> Seconds:
        """When the next message for ``code`` is there, if it is on its way."""
        queue, head = self.arrived[code], self.taken[code]
        return queue[head] if head < len(queue) else _NEVER

    def account(self, device: int, code: int) -> None:
        stage, kind = divmod(code, KINDS)
        if kind == FORWARD:
            self.taken[code] += 1
            self.room[device] -= 1
        elif kind == BACKWARD:
            self.taken[code] += 1
            if self.shop.split:
                self.weights[stage] += 1
            else:
                self.room[device] += 1
        else:
            self.weights[stage] -= 1
            self.room[device] += 1

    def choose(self, device: int, now: Seconds) -> int:
        """The best code that is ready, or NONE."""
        soon = now + self.eps
        backward, next_backward = self._backward(device, soon)
        forward, next_forward, starved = self._forward(device, soon)
        best = forward if forward >= 0 and (self.policy.eager or backward < 0) else backward
        weight = self._weight(device)
        if weight < 0 or (best >= 0 and self.weights[weight // KINDS] < self.policy.pending):
            return best
        if best >= 0 or (starved and self.policy.relieve):
            return weight
        least = self.shop.seconds[weight] * (1 - self.policy.filler) - self.eps
        return weight if min(next_backward, next_forward) - now >= least else NONE

    def _backward(self, device: int, soon: Seconds) -> tuple[int, Seconds]:
        """A backward that has arrived, or when one will."""
        later = _NEVER
        for stage in self.stages[device]:
            at = self.arrival(KINDS * stage + BACKWARD)
            if at <= soon:
                return KINDS * stage + BACKWARD, at
            later = min(later, at)
        return NONE, later

    def _forward(self, device: int, soon: Seconds) -> tuple[int, Seconds, bool]:
        """A forward that may run, or when one will, and whether one waits for memory."""
        later, starved = _NEVER, False
        for stage in self.stages[device]:
            at = self.arrival(KINDS * stage)
            if self.room[device] <= self.spare[stage]:
                starved = starved or at <= soon
            elif at <= soon:
                return KINDS * stage, at, False
            else:
                later = min(later, at)
        return NONE, later, starved

    def _weight(self, device: int) -> int:
        """A weight gradient that was put off, of the first stage that has one."""
        for stage in reversed(self.stages[device]):
            if self.weights[stage]:
                return KINDS * stage + WEIGHT
        return NONE


class _Mirrored(_Lists):
    """The same backwards in time: I passes on to the next stage, then F comes back.

    ``weights`` counts the weight gradients that are done and whose I is not.
    """

    def _routes(
        self,
    ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[Seconds, Seconds], ...]]:
        targets, links = [NONE] * len(self.shop.seconds), list(self.shop.links)
        hops = list(self.shop.hops)
        for code, target in enumerate(self.shop.targets):
            if target >= 0:
                targets[target] = code
                links[target], hops[target] = self.shop.links[code], self.shop.hops[code]
        return tuple(targets), tuple(links), tuple(hops)

    def begin(self) -> None:
        self.arrived[BACKWARD] = [0.0] * self.shop.micro_batches
        self.left = [self.shop.micro_batches] * self.shop.stages
        self.events = [(0.0, device) for device in range(len(self.shop.caps))]

    def run(self) -> None:
        super().run()
        for row in self.rows:
            row.reverse()

    def announce(self, code: int, arrival: Seconds, now: Seconds) -> None:
        """A backward needs its weight gradient first, which should be done when it arrives."""
        super().announce(code, arrival, now)
        if self.shop.split and code % KINDS == BACKWARD:
            super().announce(code, max(now, arrival - self.shop.seconds[code + 1]), now)

    def account(self, device: int, code: int) -> None:
        stage, kind = divmod(code, KINDS)
        if kind == FORWARD:
            self.taken[code] += 1
            self.room[device] += 1
        elif kind == BACKWARD:
            self.taken[code] += 1
            if self.shop.split:
                self.weights[stage] -= 1
            else:
                self.room[device] -= 1
        else:
            self.left[stage] -= 1
            self.weights[stage] += 1
            self.room[device] -= 1

    def choose(self, device: int, now: Seconds) -> int:
        """The best code that is ready, or NONE."""
        soon = now + self.eps
        forward, next_forward = self._forward_back(device, soon)
        backward, next_backward = self._backward_back(device, soon)
        best = backward if backward >= 0 and (self.policy.eager or forward < 0) else forward
        if best >= 0:
            return best
        soonest = min(next_forward, next_backward)
        ahead = self._ahead(device, soonest - now)
        if ahead < 0 and soonest < _NEVER:
            heapq.heappush(self.events, (soonest, device))
        return ahead

    def _forward_back(self, device: int, soon: Seconds) -> tuple[int, Seconds]:
        later = _NEVER
        for stage in self.stages[device]:
            at = self.arrival(KINDS * stage)
            if at <= soon:
                return KINDS * stage, at
            later = min(later, at)
        return NONE, later

    def _backward_back(self, device: int, soon: Seconds) -> tuple[int, Seconds]:
        """A backward, or the weight gradient that must come before it, or when one will do."""
        later = _NEVER
        for stage in self.stages[device]:
            code = KINDS * stage + BACKWARD
            at = self.arrival(code)
            if self.shop.split and not self.weights[stage]:
                code += 1
                at -= self.shop.seconds[code]
            if (code % KINDS == WEIGHT or not self.shop.split) and (
                self.room[device] <= self.spare[stage]
            ):
                continue
            if at <= soon:
                return code, at
            later = min(later, at)
        return NONE, later

    def _ahead(self, device: int, gap: Seconds) -> int:
        """A weight gradient done before its backward arrives, where it fits and memory has room.

        With several stages on the device it leaves room for one micro-batch of each.
        """
        stages = self.stages[device]
        if not self.shop.split or self.room[device] <= (len(stages) if len(stages) > 1 else 0):
            return NONE
        for stage in reversed(stages):
            code = KINDS * stage + WEIGHT
            if (
                self.left[stage]
                and self.weights[stage] < self.policy.pending
                and gap >= self.shop.seconds[code] * (1 - self.policy.filler) - self.eps
            ):
                return code
        return NONE
