"""The Atlas order for given costs: a list scheduler that runs what has arrived, backwards first.

Whenever a stage is free it runs a backward whose gradient has arrived; else a forward that has
arrived, if memory has room for one more micro-batch; else it waits. Among equals the lowest
micro-batch goes first. One replica stands for all: a hop that is shared in turns is taken for the
others' turns between two of its messages. Source: ATLAS (arXiv 2411.14458), section 4.

Unlike the patterns of ``orders`` the result follows the messages: several backwards may come in a
row after a burst. It is a compute order like any other, and what it takes is for the replay to say.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from geotrain.errors import InputError
from geotrain.model.plan import Action, Kind, Order
from geotrain.planning.schedule.costs import Costs, Hop
from geotrain.units import Seconds

_SAME_INSTANT = 1e-12

_Event = tuple[Seconds, int, Kind, int]
"""(time, stage, kind, micro-batch): what arrives at the stage, or that it is free."""

_FREE = Kind.WEIGHT_GRADIENT


@dataclass(slots=True)
class _Stage:
    room: int
    busy: bool = False
    forwards: deque[int] = field(default_factory=deque)
    backwards: deque[int] = field(default_factory=deque)
    row: list[Action] = field(default_factory=list)

    def choose(self) -> tuple[Kind, int] | None:
        if self.busy:
            return None
        if self.backwards:
            return Kind.BACKWARD, self.backwards.popleft()
        if self.forwards and self.room:
            return Kind.FORWARD, self.forwards.popleft()
        return None


def backward_first(costs: Costs, caps: Sequence[int], micro_batches: int) -> Order:
    """The order of every stage; ``caps[s]`` micro-batches at most are in flight at stage s."""
    if micro_batches < 1 or min(caps) < 1:
        raise InputError("backward-first needs a micro-batch, and room for one on each stage")
    scheduler = _Scheduler(costs, [_Stage(cap) for cap in caps])
    scheduler.run(micro_batches)
    return tuple(tuple(stage.row) for stage in scheduler.stages)


@dataclass(slots=True)
class _Scheduler:
    costs: Costs
    stages: list[_Stage]
    events: list[_Event] = field(default_factory=list)
    links: dict[tuple[Kind, int], Seconds] = field(default_factory=dict)

    def run(self, micro_batches: int) -> None:
        """Take all events of an instant together, then let the stages that they touch choose."""
        self.stages[0].forwards.extend(range(micro_batches))
        self.events.append((0.0, 0, _FREE, 0))
        while self.events:
            now = self.events[0][0]
            touched = set()
            while self.events and self.events[0][0] <= now + _SAME_INSTANT:
                _, number, kind, micro_batch = heapq.heappop(self.events)
                self._take(self.stages[number], kind, micro_batch)
                touched.add(number)
            for number in sorted(touched):
                chosen = self.stages[number].choose()
                if chosen is not None:
                    self._start(now, number, *chosen)

    def _take(self, stage: _Stage, kind: Kind, micro_batch: int) -> None:
        if kind == _FREE:
            stage.busy = False
        elif kind == Kind.FORWARD:
            stage.forwards.append(micro_batch)
        else:
            stage.backwards.append(micro_batch)

    def _start(self, now: Seconds, number: int, kind: Kind, micro_batch: int) -> None:
        stage = self.stages[number]
        stage.busy = True
        stage.row.append(Action(number, kind, micro_batch))
        end = now + self.costs.seconds(kind, number)
        if kind == Kind.FORWARD:
            stage.room -= 1
            self._pass_on(end, number, micro_batch)
        else:
            stage.room += 1
            if number:
                arrival = self._send(end, kind, number, self.costs.backward[number - 1])
                heapq.heappush(self.events, (arrival, number - 1, kind, micro_batch))
        heapq.heappush(self.events, (end, number, _FREE, micro_batch))

    def _pass_on(self, end: Seconds, number: int, micro_batch: int) -> None:
        """A forward's result: to the next stage, or into the last stage's own backward."""
        if number == len(self.stages) - 1:
            heapq.heappush(self.events, (end, number, Kind.BACKWARD, micro_batch))
            return
        arrival = self._send(end, Kind.FORWARD, number, self.costs.forward[number])
        heapq.heappush(self.events, (arrival, number + 1, Kind.FORWARD, micro_batch))

    def _send(self, end: Seconds, kind: Kind, number: int, hop: Hop) -> Seconds:
        """When a message that is ready at ``end`` arrives."""
        begin = max(end, self.links.get((kind, number), 0.0))
        self.links[kind, number] = begin + hop.spacing
        return begin + hop.occupancy + hop.delay
