"""What orders that are built in rounds share: a clock for each device, and weight gradients.

In a round every device runs an input gradient and a forward, in an order that follows the
messages. A weight gradient is put

* into every wait that is as long as it is;
* into a shorter wait where the builder says so: always, or where the wait is more than the device
  may still lose (``slack``): the largest bubble of any device, in this build or the one before,
  less its own;
* before a forward that memory has no room for.

The clock lets no message wait for another; a replay does.

Source: Qi et al., Zero Bubble Pipeline Parallelism (arXiv 2401.10241), section 3.1.
"""

from collections import deque
from collections.abc import Sequence

from geotrain.planning.schedule.lists import WHOLE, Listed
from geotrain.planning.schedule.shop import BACKWARD, KINDS, WEIGHT, Rows, Shop
from geotrain.units import Seconds


class Stuck(Exception):
    """The rounds would need more memory, or a message that nobody has made."""


class Rounds:
    """Rows that grow within the shop's memory, of which an input gradient frees ``freed`` eighths.

    ``allowed`` are bubbles that the devices may have.
    """

    def __init__(self, shop: Shop, freed: int, allowed: Sequence[Seconds] = ()) -> None:
        self.shop, self.freed = shop, freed
        self.devices = range(len(shop.caps))
        self.allowed = list(allowed) or [0.0 for _ in self.devices]
        self.room = [WHOLE * cap for cap in shop.caps]
        self.rows: Rows = [[] for _ in self.devices]
        self.begin = [0.0 for _ in self.devices]
        self.clock = [0.0 for _ in self.devices]
        self.bubbles = [0.0 for _ in self.devices]
        self.most = max(self.allowed)
        self.largest = 0.0
        self.weights: list[deque[int]] = [deque() for _ in self.devices]
        self.arrived: list[list[Seconds]] = [[] for _ in shop.seconds]
        self.arrived[0] = [0.0] * shop.micro_batches
        self.listed = [0 for _ in shop.seconds]

    @property
    def candidate(self) -> Listed:
        """What has been listed."""
        span = max(end - begin for begin, end in zip(self.begin, self.clock, strict=True))
        return Listed(span, max(self.clock), self.rows)

    def forward(self, stage: int) -> None:
        """List the stage's next forward. Raises Stuck where there is no room for it."""
        device = self.shop.layout[stage]
        if self.room[device] < WHOLE:
            raise Stuck
        self._run(device, KINDS * stage, self.forward_arrival(stage))
        self.room[device] -= WHOLE

    def backward(self, stage: int) -> None:
        """List the stage's next input gradient; its weight gradient waits."""
        device, code = self.shop.layout[stage], KINDS * stage + BACKWARD
        self._run(device, code, self.backward_arrival(stage))
        self.room[device] += self.freed
        self.weights[device].append(KINDS * stage + WEIGHT)

    def weight_gradient(self, device: int) -> None:
        """List the oldest weight gradient that waits. Raises Stuck where none does."""
        if not self.weights[device]:
            raise Stuck
        self._run(device, self.weights[device].popleft(), 0.0)
        self.room[device] += WHOLE - self.freed

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
        weights, seconds = self.weights[device], self.shop.seconds
        while weights and arrival - self.clock[device] >= seconds[weights[0]]:
            self.weight_gradient(device)
        if weights and arrival - self.clock[device] > above:
            self.weight_gradient(device)

    def slack(self, device: int) -> Seconds:
        """What the device may still lose without being the one that loses most."""
        return max(self.largest, self.most - self.allowed[device]) - self.bubbles[device]

    def forward_arrival(self, stage: int) -> Seconds:
        """When the stage's next forward can start. Raises Stuck where nothing is on its way."""
        return self._arrival(KINDS * stage)

    def backward_arrival(self, stage: int) -> Seconds:
        """When the stage's next input gradient can start."""
        return self._arrival(KINDS * stage + BACKWARD)

    def _arrival(self, code: int) -> Seconds:
        if len(self.arrived[code]) <= self.listed[code]:
            raise Stuck
        return self.arrived[code][self.listed[code]]

    def _run(self, device: int, code: int, arrival: Seconds) -> None:
        begin = max(self.clock[device], arrival)
        if self.rows[device]:
            self.bubbles[device] += begin - self.clock[device]
            self.largest = max(self.largest, self.bubbles[device])
        else:
            self.begin[device] = begin
        self.rows[device].append(code)
        self.listed[code] += 1
        end = self.clock[device] = begin + self.shop.seconds[code]
        target = self.shop.targets[code]
        if target >= 0:
            self.arrived[target].append(end + self.shop.hops[code][1])
