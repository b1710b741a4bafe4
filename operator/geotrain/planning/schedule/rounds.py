"""What orders that are built in rounds share: a clock for each device, and weight gradients.

In a round every device runs an input gradient and a forward, in an order that follows the
messages. A weight gradient is put

* into every wait that is as long as it is;
* into a shorter wait where the builder says so: always, or where the wait is more than the device
  may still lose (``slack``): the largest bubble of any device, in this build or the one before,
  less its own;
* before a forward that memory has no room for.

Source: Qi et al., Zero Bubble Pipeline Parallelism (arXiv 2401.10241), section 3.1.
"""

from collections import deque
from collections.abc import Sequence

from geotrain.model.plan import Action, Kind
from geotrain.planning.schedule.costs import Costs
from geotrain.planning.schedule.layouts import one_stage_each
from geotrain.planning.schedule.list_scheduling import WHOLE, Candidate, Memory
from geotrain.units import Seconds


class Stuck(Exception):
    """The rounds would need more memory, or a message that nobody has made."""


class Rounds:
    """Rows that grow within ``memory``.

    ``allowed`` are bubbles that the devices may have.
    """

    def __init__(
        self,
        costs: Costs,
        memory: Memory,
        *,
        allowed: Sequence[Seconds] | None = None,
    ) -> None:
        self.costs = costs
        self.layout = costs.layout or one_stage_each(len(costs.stages))
        self.freed = memory.freed
        self.allowed = [0.0] * costs.devices if allowed is None else list(allowed)
        self.room = memory.eighths
        self.rows: list[list[Action]] = [[] for _ in memory.caps]
        self.begin = [0.0 for _ in memory.caps]
        self.clock = [0.0 for _ in memory.caps]
        self.bubbles = [0.0 for _ in memory.caps]
        self.weights: list[deque[tuple[int, int]]] = [deque() for _ in memory.caps]
        self.forwards: list[list[Seconds]] = [[] for _ in self.layout]
        self.backwards: list[list[Seconds]] = [[] for _ in self.layout]

    @property
    def candidate(self) -> Candidate:
        """What has been listed. The clock lets no message wait for another; a replay does."""
        rows = tuple(tuple(row) for row in self.rows)
        span = max(end - begin for begin, end in zip(self.begin, self.clock, strict=True))
        return Candidate(span, max(self.clock), rows)

    def forward(self, stage: int) -> None:
        """List the stage's next forward. Raises Stuck where there is no room for it."""
        device = self.layout[stage]
        if self.room[device] < WHOLE:
            raise Stuck
        arrival, micro_batch = self.forward_arrival(stage), len(self.forwards[stage])
        self.room[device] -= WHOLE
        end = self._run(device, arrival, Action(stage, Kind.FORWARD, micro_batch))
        self.forwards[stage].append(end)

    def backward(self, stage: int) -> None:
        """List the stage's next input gradient; its weight gradient waits."""
        device = self.layout[stage]
        arrival, micro_batch = self.backward_arrival(stage), len(self.backwards[stage])
        self.room[device] += self.freed
        self.weights[device].append((stage, micro_batch))
        end = self._run(device, arrival, Action(stage, Kind.INPUT_GRADIENT, micro_batch))
        self.backwards[stage].append(end)

    def weight_gradient(self, device: int) -> None:
        """List the oldest weight gradient that waits. Raises Stuck where none does."""
        if not self.weights[device]:
            raise Stuck
        stage, micro_batch = self.weights[device].popleft()
        self.room[device] += WHOLE - self.freed
        self._run(device, 0.0, Action(stage, Kind.WEIGHT_GRADIENT, micro_batch))

    def make_room(self, device: int) -> None:
        """Weight gradients until a forward fits."""
        while self.room[device] < WHOLE:
            self.weight_gradient(device)

    def drain(self, device: int) -> None:
        """All weight gradients that wait."""
        while self.weights[device]:
            self.weight_gradient(device)

    def fill(self, device: int, arrival: Seconds, *, above: Seconds) -> None:
        """Weight gradients while the device waits for ``arrival``.

        One more, that delays it, where the rest of the wait is more than ``above``.
        """
        weights = self.weights[device]
        while weights and arrival - self.clock[device] >= self._length(weights[0]):
            self.weight_gradient(device)
        if weights and arrival - self.clock[device] > above:
            self.weight_gradient(device)

    def slack(self, device: int) -> Seconds:
        """What the device may still lose without being the one that loses most."""
        allowed = max(self.allowed) - self.allowed[device]
        return max(*self.bubbles, allowed) - self.bubbles[device]

    def forward_arrival(self, stage: int) -> Seconds:
        """When the stage's next forward can start."""
        if stage == 0:
            return 0.0
        return self._arrival(self.forwards, stage - 1, stage, len(self.forwards[stage]))

    def backward_arrival(self, stage: int) -> Seconds:
        """When the stage's next input gradient can start."""
        number = len(self.backwards[stage])
        if stage == len(self.layout) - 1:
            return self._arrival(self.forwards, stage, stage, number)
        return self._arrival(self.backwards, stage + 1, stage, number)

    def way(self, source: int, target: int) -> Seconds:
        """How long a message takes between neighbouring stages."""
        if self.layout[source] == self.layout[target]:
            return 0.0
        hop = self.costs.forward[source] if target > source else self.costs.backward[target]
        return hop.occupancy + hop.delay

    def _arrival(self, ends: list[list[Seconds]], source: int, target: int, number: int) -> Seconds:
        if len(ends[source]) <= number:
            raise Stuck
        return ends[source][number] + self.way(source, target)

    def _length(self, weight: tuple[int, int]) -> Seconds:
        return self.costs.stages[weight[0]].weight_gradient

    def _run(self, device: int, arrival: Seconds, action: Action) -> Seconds:
        begin = max(self.clock[device], arrival)
        if self.rows[device]:
            self.bubbles[device] += begin - self.clock[device]
        else:
            self.begin[device] = begin
        self.rows[device].append(action)
        self.clock[device] = begin + self.costs.seconds(action.kind, action.stage)
        return self.clock[device]
