"""A schedule as a job shop of small integers, which a search can replay thousands of times.

Micro-batches are alike, so they may keep their order everywhere: if each of a set of jobs is
ready before another set's, so is the k-th of the one before the k-th of the other. A row is
therefore a word over codes, ``3 x stage + kind`` with kind 0 for F, 1 for I (or B where the
backward is whole) and 2 for W, and the k-th time that a code appears is micro-batch k. Two rules
make a word good: I of a micro-batch before its W, and F within memory. Both are about one row; what
rows ask of each other the replay shows, and it returns None where they wait in a circle.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from math import fsum

from geotrain.model.plan import Action, Kind, Order
from geotrain.planning.schedule.costs import Costs
from geotrain.planning.schedule.layouts import Layout, one_stage_each
from geotrain.units import Seconds

Rows = list[list[int]]
"""The codes of every device, in execution order."""

Place = tuple[int, int]
"""(device, index in its row)"""

FORWARD, BACKWARD, WEIGHT = range(3)
KINDS = 3
"""Codes of one stage."""

NONE = -1

_FEMTOSECOND = 1e-15


@dataclass(frozen=True, slots=True)
class Shop:
    """What a search needs to know. ``devices``, ``seconds`` and ``targets`` are by code.

    ``targets[c]`` is the code that waits for what c makes, ``links[c]`` the link that brings it
    there and ``hops[c]`` its (spacing, occupancy + delay); a code that makes no message for
    another device has a link of its own that takes no time. ``after[d]`` follows device d's last
    action. ``rounding`` is far less than any time that matters.
    """

    layout: Layout
    micro_batches: int
    caps: tuple[int, ...]
    split: bool
    devices: tuple[int, ...]
    seconds: tuple[Seconds, ...]
    targets: tuple[int, ...]
    links: tuple[int, ...]
    hops: tuple[tuple[Seconds, Seconds], ...]
    after: tuple[Seconds, ...]
    rounding: Seconds

    @property
    def stages(self) -> int:
        """How many stages the model is cut into."""
        return len(self.layout)

    @property
    def actions(self) -> int:
        """How many actions one iteration has."""
        return self.stages * self.micro_batches * (3 if self.split else 2)

    def stages_of(self, device: int) -> list[int]:
        """The stages of a device, first to last."""
        return [stage for stage, where in enumerate(self.layout) if where == device]


def shop(costs: Costs, micro_batches: int, caps: Sequence[int], *, split: bool) -> Shop:
    """The job shop of a pipeline; ``caps[d]`` micro-batches at most are held on device d."""
    stages = len(costs.stages)
    layout = costs.layout or one_stage_each(stages)
    codes = range(KINDS * stages)
    seconds = []
    for stage in costs.stages:
        backward = stage.input_gradient if split else stage.backward
        seconds += [stage.forward, backward, stage.weight_gradient]
    targets = [_target(code, stages) for code in codes]
    links, hops = _links(costs, layout, targets)
    after = [0.0] * len(caps)
    for device, stage in zip(layout, costs.stages, strict=True):
        after[device] += stage.all_reduce + stage.step
    return Shop(
        layout=layout,
        micro_batches=micro_batches,
        caps=tuple(caps),
        split=split,
        devices=tuple(layout[code // KINDS] for code in codes),
        seconds=tuple(seconds),
        targets=tuple(targets),
        links=tuple(links),
        hops=tuple(hops),
        after=tuple(after),
        rounding=max(_FEMTOSECOND, 1e-9 * max(seconds)),
    )


def _target(code: int, stages: int) -> int:
    stage, kind = divmod(code, KINDS)
    if kind == FORWARD:
        return code + (KINDS if stage < stages - 1 else BACKWARD)
    return code - KINDS if kind == BACKWARD and stage else NONE


def _links(
    costs: Costs, layout: Layout, targets: Sequence[int]
) -> tuple[list[int], list[tuple[Seconds, Seconds]]]:
    """By code: its link, named by the first code that uses it, and what its messages take."""
    first: dict[Place, int] = {}
    links, hops = [], []
    for code, target in enumerate(targets):
        stage, kind = divmod(code, KINDS)
        ends = (layout[stage], layout[target // KINDS])
        if target == NONE or ends[0] == ends[1]:
            links.append(code)
            hops.append((0.0, 0.0))
            continue
        links.append(first.setdefault(ends, code))
        hop = costs.forward[stage] if kind == FORWARD else costs.backward[stage - 1]
        early = 0.0 if kind == FORWARD else costs.stages[stage - 1].early
        hops.append((hop.spacing, hop.occupancy + hop.delay - early))
    return links, hops


@dataclass(frozen=True, slots=True)
class Sweep:
    """An exact replay: the end of every action, and the action that it waited for last.

    ``causes[d][i]`` is that action's number, or NONE; numbers run through row 0, then row 1, ….
    ``arrived[c][k]`` is when the k-th action of code c may start. ``runs`` are stretches of rows,
    (device, first index, index after the last), so that each action comes after what it needs.
    """

    shop: Shop
    rows: Rows
    ends: list[list[Seconds]]
    causes: list[list[int]]
    arrived: list[list[Seconds]]
    runs: list[tuple[int, int, int]]

    @property
    def makespan(self) -> Seconds:
        """From the first action's start to the last one's end, on all devices."""
        return max(self._end(device) for device in range(len(self.rows)))

    @property
    def span(self) -> Seconds:
        """The longest that one device takes, from its first action to its last."""
        return max(self._span(device) for device in range(len(self.rows)))

    @property
    def score(self) -> tuple[Seconds, Seconds]:
        """Makespan and span."""
        return self.makespan, self.span

    def _end(self, device: int) -> Seconds:
        return self.ends[device][-1] + self.shop.after[device]

    def begin(self, device: int) -> Seconds:
        """When a device starts its first action."""
        return self.ends[device][0] - self.shop.seconds[self.rows[device][0]]

    def _span(self, device: int) -> Seconds:
        return self._end(device) - self.begin(device)

    def critical(self, by_span: bool) -> list[Place]:
        """The chain of actions, first to last, that makes the makespan or the span so long."""
        last = max(range(len(self.rows)), key=self._span if by_span else self._end)
        first = _first_numbers(self.rows)
        number = first[last] + len(self.rows[last]) - 1
        path = []
        while number != NONE:
            device = bisect_right(first, number) - 1
            path.append((device, number - first[device]))
            number = self.causes[device][number - first[device]]
        return path[::-1]


def _first_numbers(rows: Rows) -> list[int]:
    """The number of the first action of each row."""
    return list(accumulate(map(len, rows[:-1]), initial=0))


def sweep(shop: Shop, rows: Rows) -> Sweep | None:
    """Run each device until it waits for a message, then whoever can make that message.

    The same sums and maxima as ``timeline``'s, on words. None where the rows deadlock.
    """
    seconds, targets, links, hops = shop.seconds, shop.targets, shop.links, shop.hops
    devices, numbers = shop.devices, _first_numbers(rows)
    # What no message starts has "arrived" at 0: the first stage's input, and W, which follows I.
    inputs = [0.0] * shop.micro_batches
    arrived: list[list[Seconds]] = [
        [] if code % KINDS < WEIGHT else inputs for code in range(len(seconds))
    ]
    arrived[FORWARD] = inputs
    senders: list[list[int]] = [[NONE] * shop.micro_batches if queue else [] for queue in arrived]
    taken, busy, sender = [0] * len(seconds), [0.0] * len(seconds), [NONE] * len(seconds)
    ends: list[list[Seconds]] = [[] for _ in rows]
    causes: list[list[int]] = [[] for _ in rows]
    runs = []
    waiting = [NONE] * len(rows)
    ready = list(range(len(rows)))
    while ready:
        device = ready.pop()
        row, row_ends, row_causes = rows[device], ends[device], causes[device]
        at, number = len(row_ends), numbers[device] + len(row_ends)
        now, cause = (row_ends[-1], number - 1) if at else (0.0, NONE)
        for code in islice(row, at, None):
            head = taken[code]
            if head >= len(arrived[code]):
                waiting[device] = code
                break
            if arrived[code][head] > now:
                now, cause = arrived[code][head], senders[code][head]
            taken[code] = head + 1
            now += seconds[code]
            row_ends.append(now)
            row_causes.append(cause)
            cause = number
            number += 1
            target = targets[code]
            if target >= 0:
                link, (spacing, takes) = links[code], hops[code]
                if now >= busy[link]:
                    busy[link], sender[link] = now, cause
                arrived[target].append(busy[link] + takes)
                senders[target].append(sender[link])
                busy[link] += spacing
                if waiting[devices[target]] == target:
                    waiting[devices[target]] = NONE
                    ready.append(devices[target])
        runs.append((device, at, len(row_ends)))
    if any(len(row) > len(done) for row, done in zip(rows, ends, strict=True)):
        return None
    return Sweep(shop, rows, ends, causes, arrived, runs)


def bounds(shop: Shop) -> tuple[Seconds, Seconds]:
    """Least makespan and span: each device has all its work to do, and no memory ever lacks.

    The makespan adds what must come before a device's first forward and after its last backward.
    """
    first = list(accumulate(_path(shop, FORWARD), initial=0.0))
    last = list(accumulate(_path(shop, BACKWARD), initial=0.0))
    per_micro_batch = [
        fsum(shop.seconds[KINDS * stage + kind] for kind in range(3 if shop.split else 2))
        for stage in range(shop.stages)
    ]
    makespan = span = 0.0
    for device, after in enumerate(shop.after):
        stages = shop.stages_of(device)
        work = shop.micro_batches * fsum(per_micro_batch[stage] for stage in stages) + after
        span = max(span, work)
        makespan = max(makespan, work + min(first[stage] for stage in stages))
        # What follows a device's last backward may run beside its own weight gradients.
        drain = shop.micro_batches * fsum(
            shop.seconds[KINDS * stage] + shop.seconds[KINDS * stage + BACKWARD] for stage in stages
        )
        ahead = min(first[stage] for stage in stages) + min(last[stage] for stage in stages)
        makespan = max(makespan, drain + ahead)
    return makespan, span


def _path(shop: Shop, kind: int) -> list[Seconds]:
    """By stage but the last: forward from it to the next, or backward from the next to it."""
    found = []
    for stage in range(shop.stages - 1):
        code = KINDS * (stage if kind == FORWARD else stage + 1) + kind
        into = KINDS * stage + BACKWARD
        found.append(shop.hops[code][1] + shop.seconds[code if kind == FORWARD else into])
    return found


def depth_rows(shop: Shop, depths: Sequence[int]) -> Rows:
    """The pattern of ``orders.with_depths``, one stage a device."""
    rows = []
    for stage, wanted in enumerate(depths):
        forward, backward = KINDS * stage, [KINDS * stage + BACKWARD]
        if shop.split:
            backward.append(KINDS * stage + WEIGHT)
        ahead = min(wanted, shop.micro_batches)
        steady = [*backward, forward] * (shop.micro_batches - ahead)
        rows.append([forward] * ahead + steady + backward * ahead)
    return rows


_CODES = {
    Kind.FORWARD: FORWARD,
    Kind.BACKWARD: BACKWARD,
    Kind.INPUT_GRADIENT: BACKWARD,
    Kind.WEIGHT_GRADIENT: WEIGHT,
}


def rows_of(order: Order, shop: Shop) -> Rows:
    """An order as words; where the shop splits the backward, B becomes I and then W at once."""
    rows = []
    for row in order:
        word = []
        for action in row:
            word.append(KINDS * action.stage + _CODES[action.kind])
            if shop.split and action.kind == Kind.BACKWARD:
                word.append(KINDS * action.stage + WEIGHT)
        rows.append(word)
    return rows


def order_of(shop: Shop, rows: Rows) -> Order:
    """Words as an order: the k-th time that a code appears is micro-batch k."""
    backward = Kind.INPUT_GRADIENT if shop.split else Kind.BACKWARD
    kinds = (Kind.FORWARD, backward, Kind.WEIGHT_GRADIENT)
    seen = [0] * len(shop.seconds)
    order = []
    for row in rows:
        actions = []
        for code in row:
            actions.append(Action(code // KINDS, kinds[code % KINDS], seen[code]))
            seen[code] += 1
        order.append(tuple(actions))
    return tuple(order)


def within_memory(shop: Shop, rows: Rows) -> bool:
    """Whether no device ever holds more than its cap."""
    release = WEIGHT if shop.split else BACKWARD
    change = {FORWARD: 1, release: -1}
    return all(
        max(accumulate(change.get(code % KINDS, 0) for code in row), default=0) <= cap
        for row, cap in zip(rows, shop.caps, strict=True)
    )
