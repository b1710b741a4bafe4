"""DualPipe-V: two chunks a device in a V, a forward of one overlapped with a backward of the other.

The overlapped pair hides the exchanges of expert parallelism behind compute. A device runs, for
p devices, device d and m micro-batches (F0 is a forward of its first stage, F1 of its second)::

    2 (p-d-1)    F0
    d + 1        F0 F1
    p-d-1        I1 W1 F1
    m - 2p+d+1   (F0 with B1) (F1 with B0)
    p-d-1        B1 (F1 with B0)
    d + 1        B1 B0, in the second half I instead of B
    p-d-1        W I0
    d + 1        W

Memory: up to 2p + 1 stage activations a device, each half of its layers.

Source: DeepSeek's DualPipe (https://github.com/deepseek-ai/DualPipe), as ordered by
``torch.distributed.pipelining.ScheduleDualPipeV``.
"""

from collections import Counter, deque

from geotrain.errors import InputError
from geotrain.model.plan import Action, Kind, Order
from geotrain.planning.schedule.actions import Cell, Table


def dual_pipe_v(devices: int, micro_batches: int) -> Order:
    """The order, with a pair as a forward and then a backward."""
    rows = dual_pipe_v_table(devices, micro_batches).rows
    return tuple(tuple(action for cell in row for action in cell) for row in rows)


def dual_pipe_v_table(devices: int, micro_batches: int) -> Table:
    """The order with its overlapped pairs. Raises InputError with fewer than 2p micro-batches."""
    if devices < 1 or micro_batches < 2 * devices:
        raise InputError(
            f"DualPipe-V on {devices} ranks needs at least {max(2, 2 * devices)} micro-batches, "
            f"not {micro_batches}"
        )
    return Table(tuple(_Row(device, devices).cells(micro_batches) for device in range(devices)))


class _Row:
    """The cells of one device as they are listed."""

    def __init__(self, device: int, devices: int) -> None:
        self.device, self.devices = device, devices
        self.listed: list[Cell] = []
        self.counts: Counter[tuple[int, bool]] = Counter()
        self.weights: deque[tuple[int, int]] = deque()

    def cells(self, micro_batches: int) -> tuple[Cell, ...]:
        before, after = self.device + 1, self.devices - self.device - 1
        for _ in range(2 * after):
            self.list(self.forward(0))
        for _ in range(before):
            self.list(self.forward(0))
            self.list(self.forward(1))
        for _ in range(after):
            self.list(self.input_gradient(1))
            self.weight_gradient()
            self.list(self.forward(1))
        self.main(micro_batches - 2 * self.devices + before)
        for _ in range(after):
            self.list(self.backward(1))
            self.list(self.forward(1), self.backward(0))
        self.last_backwards(before)
        for _ in range(after):
            self.weight_gradient()
            self.list(self.input_gradient(0))
        for _ in range(before):
            self.weight_gradient()
        return tuple(self.listed)

    def main(self, count: int) -> None:
        for number in range(count):
            pair = self.forward(0), self.backward(1)
            if number == 0 and self.device == self.devices - 1:
                # The last device turns round: this backward needs the forward just listed.
                self.list(pair[0])
                self.list(pair[1])
            else:
                self.list(*pair)
            self.list(self.forward(1), self.backward(0))

    def last_backwards(self, count: int) -> None:
        """From the middle on split; where it lies between the two of a step, by parity."""
        split = False
        for number in range(count):
            is_middle = number == count // 2
            split |= is_middle and self.device % 2 == 1
            self.list(self.input_gradient(1) if split else self.backward(1))
            split |= is_middle
            self.list(self.input_gradient(0) if split else self.backward(0))

    def list(self, *actions: Action) -> None:
        self.listed.append(actions)

    def forward(self, chunk: int) -> Action:
        return self._next(chunk, Kind.FORWARD)

    def backward(self, chunk: int) -> Action:
        return self._next(chunk, Kind.BACKWARD)

    def input_gradient(self, chunk: int) -> Action:
        action = self._next(chunk, Kind.INPUT_GRADIENT)
        self.weights.append((action.stage, action.micro_batch))
        return action

    def weight_gradient(self) -> None:
        stage, micro_batch = self.weights.popleft()
        self.list(Action(stage, Kind.WEIGHT_GRADIENT, micro_batch))

    def _next(self, chunk: int, kind: Kind) -> Action:
        stage = 2 * self.devices - 1 - self.device if chunk else self.device
        key = stage, kind == Kind.FORWARD
        self.counts[key] += 1
        return Action(stage, kind, self.counts[key] - 1)
