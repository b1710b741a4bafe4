"""A schedule as a job shop of small integers, which a search can replay thousands of times.

Micro-batches are alike, so they may keep their order everywhere: if each of a set of jobs is
ready before another set's, so is the k-th of the one before the k-th of the other. A row is
therefore a word over codes, ``3 x stage + kind`` with kind 0 for F, 1 for I (or B where the
backward is whole) and 2 for W, and the k-th time that a code appears is micro-batch k. Two rules
make a word good: I of a micro-batch before its W, and F within memory. Both are about one row; what
rows ask of each other the replay shows, and it returns None where they wait in a circle.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import fsum
from typing import Any

from geotrain.errors import InputError
from geotrain.model.plan import Action, Kind, Order
from geotrain.planning.schedule.costs import Costs
from geotrain.planning.schedule.kernel import NOTHING, replay_one
from geotrain.planning.schedule.layouts import Layout, one_stage_each
from geotrain.units import Seconds

Rows = list[list[int]]
"""The codes of every device, in execution order."""

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
    action. ``rounding`` is far less than any time that matters. ``tables`` are those of ``kernel``.
    ``members[d]`` are the stages of device d, first to last.
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
    tables: tuple[Sequence[Any], ...]
    members: tuple[tuple[int, ...], ...]

    @property
    def stages(self) -> int:
        """How many stages the model is cut into."""
        return len(self.layout)

    @property
    def actions(self) -> int:
        """How many actions one iteration has."""
        return self.stages * self.micro_batches * (3 if self.split else 2)


def shop(costs: Costs, micro_batches: int, caps: Sequence[int], *, split: bool) -> Shop:
    """The job shop of a pipeline; ``caps[d]`` micro-batches at most are held on device d.

    Raises InputError without a micro-batch, and where a device has no room for one of each stage.
    """
    stages = len(costs.stages)
    layout = costs.layout or one_stage_each(stages)
    members = _members(layout)
    _require_room(members, micro_batches, caps)
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
        members=tuple(map(tuple, members)),
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
        tables=(
            seconds,
            [0.0] * len(seconds),
            [_crossed(layout, code, targets[code], links[code]) for code in codes],
            [spacing for spacing, _ in hops],
            [takes for _, takes in hops],
        ),
    )


def _members(layout: Layout) -> list[list[int]]:
    """By device its stages, first to last."""
    members: list[list[int]] = [[] for _ in range(max(layout) + 1)]
    for stage, device in enumerate(layout):
        members[device].append(stage)
    return members


def _require_room(members: list[list[int]], micro_batches: int, caps: Sequence[int]) -> None:
    if micro_batches < 1:
        raise InputError(f"{micro_batches} micro-batches make no iteration; give at least one")
    if len(caps) != len(members):
        raise InputError(f"{len(caps)} caps for {len(members)} ranks; give each rank one")
    for device, (stages, cap) in enumerate(zip(members, caps, strict=True)):
        if cap < len(stages):
            raise InputError(
                f"rank {device} has room for {cap} micro-batches in flight and runs {len(stages)} "
                "stages; give room for one of each"
            )


def _crossed(layout: Layout, code: int, target: int, link: int) -> int:
    """The link that a message takes, or NONE where it stays on its device."""
    stays = target == NONE or layout[code // KINDS] == layout[target // KINDS]
    return NONE if stays else link


def _target(code: int, stages: int) -> int:
    stage, kind = divmod(code, KINDS)
    if kind == FORWARD:
        return code + (KINDS if stage < stages - 1 else BACKWARD)
    return code - KINDS if kind == BACKWARD and stage else NONE


def _links(
    costs: Costs, layout: Layout, targets: Sequence[int]
) -> tuple[list[int], list[tuple[Seconds, Seconds]]]:
    """By code: its link, named by the first code that uses it, and what its messages take."""
    first: dict[tuple[int, int], int] = {}
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
    """An exact replay. Its steps are in a sequence in which each comes after what it needs.

    ``steps`` are those of ``kernel``, ``at[d]`` the steps of device d's row in turn, and
    ``numbers[i]`` says that step i is the k-th of its code. ``sent[i]`` is when the message of step
    i arrives, and ``vias[i]`` the step whose message used the link before, or NONE.
    """

    shop: Shop
    rows: Rows
    steps: tuple[list[int], list[int], list[int]]
    at: list[list[int]]
    numbers: list[int]
    vias: list[int]
    ends: list[Seconds]
    sent: list[Seconds]

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
        return self.ends[self.at[device][-1]] + self.shop.after[device]

    def begin(self, device: int) -> Seconds:
        """When a device starts its first action."""
        return self.ends[self.at[device][0]] - self.shop.seconds[self.rows[device][0]]

    def _span(self, device: int) -> Seconds:
        return self._end(device) - self.begin(device)

    def critical(self, by_span: bool) -> list[int]:
        """The chain of steps, first to last, that makes the makespan or the span so long."""
        last = max(range(len(self.rows)), key=self._span if by_span else self._end)
        path, step = [], self.at[last][-1]
        while step != NONE:
            path.append(step)
            step = self._cause(step)
        return path[::-1]

    def _cause(self, step: int) -> int:
        """What a step waited for last: the one before it, or the maker of its message.

        Of messages that took the link without a break, it is the maker of the first.
        """
        befores, needs, codes = self.steps
        before, need, count = befores[step], needs[step], len(codes)
        free = self.ends[before] if before < count else 0.0
        if need >= count or self.sent[need] <= free:
            return before if before < count else NONE
        takes = self.shop.hops[codes[need]][1]
        while (via := self.vias[need]) != NONE and self.sent[need] > self.ends[need] + takes:
            need, takes = via, self.shop.hops[codes[via]][1]
        return need


def sweep(shop: Shop, rows: Rows) -> Sweep | None:
    """Replay rows. None where they deadlock."""
    steps, at, numbers, vias = _walk(shop, rows)
    count, devices = len(numbers), len(rows)
    if count < sum(map(len, rows)):
        return None
    nothing = count + devices
    ends = [0.0] * nothing
    sent = [0.0] * count + [NOTHING] * (devices + 1)
    replay_one(steps, shop.tables, (ends, sent, [0.0] * len(shop.seconds)))
    return Sweep(shop, rows, steps, at, numbers, vias, ends, sent)


def _walk(shop: Shop, rows: Rows) -> Any:
    """Run each device until it waits for a message, then whoever can make that message."""
    targets, devices, links = shop.targets, shop.devices, shop.links
    count = sum(map(len, rows))
    befores: list[int] = []
    needs: list[int] = []
    codes: list[int] = []
    numbers: list[int] = []
    vias: list[int] = []
    nothing = [count + len(rows)] * shop.micro_batches
    # What no message starts has arrived: the first stage's input, and W, which follows I.
    made: list[list[int]] = [
        [] if c % KINDS < WEIGHT and c else nothing for c in range(len(targets))
    ]
    taken, senders = [0] * len(targets), [NONE] * len(targets)
    at: list[list[int]] = [[] for _ in rows]
    waiting, ready = [NONE] * len(rows), list(range(len(rows)))
    step = 0
    while ready:
        device = ready.pop()
        done = at[device]
        before = done[-1] if done else count + device
        row = rows[device]
        for index in range(len(done), len(row)):
            code = row[index]
            number, makers = taken[code], made[code]
            if number >= len(makers):
                waiting[device] = code
                break
            befores.append(before)
            needs.append(makers[number])
            codes.append(code)
            numbers.append(number)
            taken[code] = number + 1
            done.append(step)
            target = targets[code]
            if target >= 0:
                made[target].append(step)
                vias.append(senders[links[code]])
                senders[links[code]] = step
                if waiting[devices[target]] == target:
                    waiting[devices[target]] = NONE
                    ready.append(devices[target])
            else:
                vias.append(NONE)
            before = step
            step += 1
    return (befores, needs, codes), at, numbers, vias


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
        stages = shop.members[device]
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
