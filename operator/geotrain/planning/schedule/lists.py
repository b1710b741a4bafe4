"""The list scheduler: whoever is free runs the best of what is ready, by a rule of priority.

Forwards in time a device that is free takes a backward that has arrived, or a forward if memory
has room, or a weight gradient as filler: where it fits before the next message that is on its way,
where it makes room for a forward that waits, or where too many are put off. A message is known
from the moment its producer starts, so a free device can tell what still fits before it.

Backwards in time the same pipeline runs from its last weight gradient to its first forward. There
W takes memory and F gives it back, so a schedule that is built backwards holds activations for as
short as can be where memory is tight: it starts from the end, where nothing else is in flight.
Read in reverse, its rows are an order like any other. Without latency and memory the two
directions are equal; the nearer memory is to what the round trip holds, the more they differ.

No list deadlocks: an action that takes memory leaves room for those stages of its device that the
oldest micro-batch there has still to take memory for, so that one can always go on (the banker's
rule; Dijkstra, EWD108).

Sources: list schedules, Kohler and Steiglitz in Coffman (ed.), Computer and Job-Shop Scheduling
Theory (1976); W as filler, Qi et al., Zero Bubble Pipeline Parallelism (arXiv 2401.10241); a whole
backward as soon as its gradient has arrived, ATLAS (arXiv 2411.14458), section 4, and with its
recompute before that, Varuna (Athlur et al., EuroSys 2022, doi:10.1145/3492321.3519584).
"""

from dataclasses import dataclass
from heapq import heappop, heappush

from geotrain.planning.schedule.shop import BACKWARD, FORWARD, KINDS, NONE, WEIGHT, Rows, Shop
from geotrain.units import Seconds

_NEVER = float("inf")

_Routes = tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[Seconds, Seconds], ...]]
"""By code: for which code it makes a message, over which link, and what that takes."""

UNBOUNDED = 1_000_000_000

WHOLE = 8
"""An activation, in the eighths in which memory is counted."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a free device prefers. The defaults are backward first and W where it delays nothing.

    ``filler`` is the share of a W by which it may delay a message that is on its way. At most
    ``pending`` weight gradients are put off (backwards in time: done ahead). ``eager`` takes
    forwards before backwards (backwards in time: backwards before forwards); ``alternate`` does
    after each backward. ``relieve`` lets a W make room for a forward that waits. At most
    ``depths[s]`` forwards of stage s are ahead of its backwards (empty: no bound), and an input
    gradient frees so many eighths of an activation (``freed``). ``alternate``, ``relieve``,
    ``depths`` and ``freed`` are for lists forwards in time. ``strict`` leaves room for all later
    stages of the device, and not only for those that its oldest micro-batch needs.
    """

    mirrored: bool = False
    filler: float = 0.0
    pending: int = UNBOUNDED
    eager: bool = False
    alternate: bool = False
    relieve: bool = True
    depths: tuple[int, ...] = ()
    freed: int = 0
    strict: bool = False


@dataclass(frozen=True, slots=True, order=True)
class Listed:
    """Rows, and what the clock that made them says: a device's longest span, and the end."""

    span: Seconds
    end: Seconds
    rows: Rows


def list_schedule(shop: Shop, rule: Rule) -> Listed:
    """The rows that a rule makes. Every device needs room for one micro-batch of each stage."""
    lists = _Mirrored(shop, rule) if rule.mirrored else _Lists(shop, rule)
    lists.run()
    spans = [end - begin for begin, end in zip(lists.begins, lists.free, strict=True)]
    return Listed(max(spans), max(lists.free), lists.rows)


class _Lists:
    """The state of a list schedule that is under way.

    ``arrived[c]`` says when the messages for code c arrive that are known, ``taken[c]`` how many of
    them are used, and ``heads[c]`` when the next one arrives. ``ahead[s]`` counts the forwards that
    stage s may still run before its next backward, and ``turned[d]`` says that device d's last
    forward or backward was a backward.
    """

    first = FORWARD

    def __init__(self, shop: Shop, rule: Rule) -> None:
        self.shop, self.rule = shop, rule
        self.eps = shop.rounding
        self.targets, self.links, self.hops = self._routes()
        self.arrived: list[list[Seconds]] = [[] for _ in shop.seconds]
        self.taken = [0] * len(shop.seconds)
        self.heads = [_NEVER] * len(shop.seconds)
        self.busy = [0.0] * len(shop.seconds)
        self.free = [0.0] * len(shop.caps)
        self.begins = [0.0] * len(shop.caps)
        self.room = [WHOLE * cap for cap in shop.caps]
        self.weights = [0] * shop.stages
        self.ahead = list(rule.depths) or [UNBOUNDED] * shop.stages
        self.turned = [False] * len(shop.caps)
        self.rows: Rows = [[] for _ in shop.caps]
        self.events = [(0.0, device) for device in range(len(shop.caps))]
        self.stages = [stages[::-1] for stages in shop.members]
        self.takes = FORWARD
        self.gives = WEIGHT if shop.split else BACKWARD
        if rule.mirrored:
            self.takes, self.gives = self.gives, self.takes
        self.arrived[self.first] = [0.0] * shop.micro_batches
        self.heads[self.first] = 0.0

    def _routes(self) -> _Routes:
        return self.shop.targets, self.shop.links, self.shop.hops

    def run(self) -> None:
        """Each event is a moment at which a device may have something to do."""
        events, free, choose, start, eps = (
            self.events, self.free, self.choose, self.start, self.eps
        )  # fmt: skip
        while events:
            now, device = heappop(events)
            if free[device] <= now + eps:
                code = choose(device, now)
                if code >= 0:
                    start(device, code, now)

    def start(self, device: int, code: int, now: Seconds) -> None:
        """Run a code, and send what it makes."""
        end = now + self.shop.seconds[code]
        row = self.rows[device]
        if not row:
            self.begins[device] = now
        row.append(code)
        self.free[device] = end
        self.account(device, code)
        target = self.targets[code]
        if target >= 0:
            link, (spacing, takes) = self.links[code], self.hops[code]
            begin = self.busy[link]
            if begin < end:
                begin = end
            self.busy[link] = begin + spacing
            self.announce(target, begin + takes, now)
        heappush(self.events, (end, device))

    def announce(self, code: int, arrival: Seconds, now: Seconds) -> None:
        """Say that a message for ``code`` will arrive."""
        self.arrived[code].append(arrival)
        if len(self.arrived[code]) == self.taken[code] + 1:
            self.heads[code] = arrival
        self.wake(self.shop.devices[code], arrival)

    def wake(self, device: int, at: Seconds) -> None:
        """Ask again then, if the device is free; when it becomes free it is asked anyway."""
        if at >= self.free[device]:
            heappush(self.events, (at, device))

    def take(self, code: int) -> None:
        """The next message for ``code`` is used."""
        head = self.taken[code] = self.taken[code] + 1
        queue = self.arrived[code]
        self.heads[code] = queue[head] if head < len(queue) else _NEVER

    def account(self, device: int, code: int) -> None:
        """Memory, and what is put off, once a code has started."""
        stage, kind = divmod(code, KINDS)
        if kind == FORWARD:
            self.take(code)
            self.room[device] -= WHOLE
            self.ahead[stage] -= 1
            self.turned[device] = False
        elif kind == BACKWARD:
            self.take(code)
            self.ahead[stage] += 1
            self.turned[device] = True
            if self.shop.split:
                self.weights[stage] += 1
                self.room[device] += self.rule.freed
            else:
                self.room[device] += WHOLE
        else:
            self.taken[code] += 1
            self.weights[stage] -= 1
            self.room[device] += WHOLE - self.rule.freed

    def has_room(self, device: int, stage: int) -> bool:
        """Whether a stage may take memory: its device's oldest micro-batch can still go on."""
        stages, room = self.stages[device], self.room[device]
        if len(stages) == 1:
            return room >= WHOLE
        if self.rule.strict:
            return room >= WHOLE * (1 + stages.index(stage))
        taken = self.taken
        oldest = min(taken[KINDS * each + self.gives] for each in stages)
        missing = sum(
            taken[KINDS * each + self.takes] <= oldest for each in stages if each != stage
        )
        return room >= WHOLE * (1 + missing)

    def choose(self, device: int, now: Seconds) -> int:
        """The best code that is ready, or NONE."""
        soon, rule = now + self.eps, self.rule
        weight = self._weight(device)
        is_due = weight >= 0 and self.weights[weight // KINDS] >= rule.pending
        best, next_backward = self._next(device, BACKWARD, soon)
        turns = rule.eager or (rule.alternate and self.turned[device])
        if best >= 0 and not turns:
            return weight if is_due else best
        forward, next_forward, starved = self._forward(device, soon)
        if forward >= 0:
            best = forward
        if best >= 0:
            return weight if is_due else best
        if weight < 0 or (starved and rule.relieve):
            return weight
        least = self.shop.seconds[weight] * (1 - rule.filler) - self.eps
        return weight if min(next_backward, next_forward) - now >= least else NONE

    def _next(self, device: int, kind: int, soon: Seconds) -> tuple[int, Seconds]:
        """What has arrived of a kind, of the last stage that has any; or NONE, and when it will."""
        later, heads = _NEVER, self.heads
        for stage in self.stages[device]:
            code = KINDS * stage + kind
            at = heads[code]
            if at <= soon:
                return code, at
            if at < later:
                later = at
        return NONE, later

    def _forward(self, device: int, soon: Seconds) -> tuple[int, Seconds, bool]:
        """A forward that may run, or when one will, and whether one waits for memory."""
        later, starved = _NEVER, False
        for stage in self.stages[device]:
            at = self.heads[KINDS * stage]
            if at == _NEVER or self.ahead[stage] <= 0:
                continue
            if not self.has_room(device, stage):
                starved = starved or at <= soon
            elif at <= soon:
                return KINDS * stage, at, False
            elif at < later:
                later = at
        return NONE, later, starved

    def _weight(self, device: int) -> int:
        """A weight gradient that was put off, of the first stage that has one."""
        found, weights = NONE, self.weights
        for stage in self.stages[device]:
            if weights[stage]:
                found = KINDS * stage + WEIGHT
        return found


class _Mirrored(_Lists):
    """The same backwards in time: I passes on to the next stage, then F comes back.

    ``weights`` counts the weight gradients that are done and whose I is not.
    """

    first = BACKWARD

    def _routes(self) -> _Routes:
        targets, links = [NONE] * len(self.shop.seconds), list(self.shop.links)
        hops = list(self.shop.hops)
        for code, target in enumerate(self.shop.targets):
            if target >= 0:
                targets[target] = code
                links[target], hops[target] = self.shop.links[code], self.shop.hops[code]
        return tuple(targets), tuple(links), tuple(hops)

    def run(self) -> None:
        super().run()
        for row in self.rows:
            row.reverse()

    def announce(self, code: int, arrival: Seconds, now: Seconds) -> None:
        """A backward needs its weight gradient first, which should be done when it arrives."""
        super().announce(code, arrival, now)
        if self.shop.split and code % KINDS == BACKWARD:
            early = max(now, arrival - self.shop.seconds[code + 1])
            self.wake(self.shop.devices[code], early)

    def account(self, device: int, code: int) -> None:
        stage, kind = divmod(code, KINDS)
        if kind == FORWARD:
            self.take(code)
            self.room[device] += WHOLE
        elif kind == BACKWARD:
            self.take(code)
            if self.shop.split:
                self.weights[stage] -= 1
            else:
                self.room[device] -= WHOLE
        else:
            self.taken[code] += 1
            self.weights[stage] += 1
            self.room[device] -= WHOLE

    def choose(self, device: int, now: Seconds) -> int:
        """The best code that is ready, or NONE."""
        soon = now + self.eps
        forward, next_forward = self._next(device, FORWARD, soon)
        if forward >= 0 and not self.rule.eager:
            return forward
        backward, next_backward = self._backward(device, soon)
        if max(forward, backward) >= 0:
            return backward if backward >= 0 else forward
        soonest = min(next_forward, next_backward)
        ahead = self._ahead(device, soonest - now)
        if ahead < 0 and soonest < _NEVER:
            heappush(self.events, (soonest, device))
        return ahead

    def _backward(self, device: int, soon: Seconds) -> tuple[int, Seconds]:
        """A backward, or the weight gradient that must come before it, or when one will do."""
        later, split = _NEVER, self.shop.split
        for stage in self.stages[device]:
            code = KINDS * stage + BACKWARD
            at = self.heads[code]
            if at == _NEVER:
                continue
            takes_memory = not split or not self.weights[stage]
            if split and takes_memory:
                code += 1
                at -= self.shop.seconds[code]
            if takes_memory and not self.has_room(device, stage):
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
        kept = WHOLE * len(stages) if len(stages) > 1 else 0
        if not self.shop.split or self.room[device] <= kept:
            return NONE
        for stage in reversed(stages):
            code = KINDS * stage + WEIGHT
            if (
                self.taken[code] < self.shop.micro_batches
                and self.weights[stage] < self.rule.pending
                and gap >= self.shop.seconds[code] * (1 - self.rule.filler) - self.eps
            ):
                return code
        return NONE
