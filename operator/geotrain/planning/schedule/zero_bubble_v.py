"""ZB-V: two chunks a device, down the devices and back up, in the activation memory of 1F1B.

A micro-batch passes device d four times: F down (stage d), F up (stage 2p-1-d), I down (stage
2p-1-d) and I up (stage d). The order is built in rounds, in each of which every device runs one
input gradient and then one forward; on the way up a pass goes first once its producer is listed,
even where it has to be waited for. ``rounds`` says where weight gradients go.

Builds are repeated with the bubbles of the last one allowed, as long as that helps, with and
without filling short waits before forwards and on the way up; the best by exact replay is taken.

Source: Qi et al. (arXiv 2401.10241) for the rules of weight gradients; Qi et al., Pipeline
Parallelism with Controllable Memory (arXiv 2405.15362) for the V and its memory.
"""

import math
from collections.abc import Sequence
from functools import partial
from itertools import product

from geotrain.model.plan import Order
from geotrain.planning.schedule.costs import Costs
from geotrain.planning.schedule.lists import WHOLE, Listed, Rule, list_schedule
from geotrain.planning.schedule.rounds import Rounds, Stuck
from geotrain.planning.schedule.shop import BACKWARD, KINDS, Shop, shop
from geotrain.planning.schedule.zero_bubble import FREED, best
from geotrain.units import Seconds

_DOWN, _UP = 0, 1


def zb_v(costs: Costs, micro_batches: int) -> Order:
    """Two stages each on p devices, 2p of their activations on a device at most.

    An input gradient frees a part of one (``FREED``). ``costs.layout`` must be the V's.
    """
    devices = costs.devices
    return _best_of(shop(costs, micro_batches, (2 * devices,) * devices, split=True), FREED)


def zero_bubble_v(costs: Costs, caps: Sequence[int], micro_batches: int) -> Order:
    """At most ``caps[d]`` stage activations on device d, each from F to the end of W."""
    return _best_of(shop(costs, micro_batches, caps, split=True), 0)


def _best_of(place: Shop, freed: int) -> Order:
    fills = product((True, False), (True, False))
    builds = (partial(_builds, freed=freed, fills=each) for each in fills)
    return best(place, [*builds, partial(_lists, freed=freed)])


def _lists(place: Shop, freed: int) -> list[Listed]:
    """For where memory does not suffice for rounds."""
    return [
        list_schedule(place, Rule(filler=0.5, relieve=False, alternate=each, freed=freed))
        for each in (False, True)
    ]


def _builds(place: Shop, freed: int, fills: tuple[bool, bool]) -> list[Listed]:
    """Builds, each with the bubbles of the one before allowed, until they do not shrink."""
    found: list[Listed] = []
    allowed = [0.0 for _ in place.caps]
    while True:
        build = _Build(place, freed, fills, allowed)
        try:
            build.run()
        except Stuck:
            return found
        found.append(build.candidate)
        bubbles = build.bubbles
        if (any(allowed) and max(bubbles) >= max(allowed)) or not any(bubbles):
            return found
        allowed = bubbles


class _Build(Rounds):
    def __init__(
        self, shop: Shop, freed: int, fills: tuple[bool, bool], allowed: Sequence[Seconds]
    ) -> None:
        super().__init__(shop, freed, allowed)
        self.micro_batches = shop.micro_batches
        self.fills = fills

    def run(self) -> None:
        """List every action; raises Stuck where memory does not suffice."""
        self._first_micro_batch()
        self._even_out()
        for _ in range(2 * self.micro_batches):
            self._round_of_backwards()
            for device in self.devices:
                self._next_forward(device)
        for device in self.devices:
            self.drain(device)

    def _first_micro_batch(self) -> None:
        """Down and up again, with further forwards down while the turn is waited for."""
        for device in self.devices:
            self.forward(device)
        for device in reversed(self.devices):
            turn = self.forward_arrival(self._stage(device, _UP))
            length = self.shop.seconds[KINDS * device]
            while (
                self.room[device] >= WHOLE * (2 + 2 * device)
                and self.clock[device] + length <= turn
                and self._is_left(device, _DOWN)
            ):
                for before in range(device + 1):
                    self.forward(before)
            self.forward(self._stage(device, _UP))

    def _even_out(self) -> None:
        """Forwards until every device has run as many as the first."""
        way = _DOWN
        for device in self.devices[1:]:
            while self._is_behind(device):
                for after in reversed(self.devices[device:]):
                    if self._is_left(after, way):
                        self.forward(self._stage(after, way))
                way = 1 - way

    def _is_behind(self, device: int) -> bool:
        down, up = (self._listed(device, way) for way in (_DOWN, _UP))
        down_before, up_before = (self._listed(device - 1, way) for way in (_DOWN, _UP))
        return down + up < down_before + up_before or up <= up_before < self.micro_batches

    def _round_of_backwards(self) -> None:
        """One input gradient a device: those on the way up from the last device, then the others.

        Which way is settled for all devices before the first is listed.
        """
        up = [self._goes_up(device) for device in self.devices]
        for device in reversed(self.devices):
            if up[device]:
                self.fill(
                    device, self.backward_arrival(device), above=self._above(device, self.fills[1])
                )
                self.backward(device)
        for device in self.devices:
            if not up[device]:
                stage = self._stage(device, _UP)
                self.fill(device, self.backward_arrival(stage), above=self._above(device, True))
                self.backward(stage)

    def _goes_up(self, device: int) -> bool:
        """Whether the device's next input gradient is that of its first stage."""
        up, down = self._returned(device), self._returned(self._stage(device, _UP))
        if up >= down:
            return False
        return down >= self.micro_batches or self._returned(device + 1) > up

    def _next_forward(self, device: int) -> None:
        way = self._way_of_forward(device)
        if way is None:
            return
        stage = self._stage(device, way)
        self.make_room(device)
        self.fill(device, self.forward_arrival(stage), above=self._above(device, self.fills[0]))
        self.forward(stage)

    def _above(self, device: int, fills: bool) -> Seconds:
        return self.slack(device) if fills else math.inf

    def _way_of_forward(self, device: int) -> int | None:
        """Up where its producer is listed, else down where that one's is, else none this round."""
        down, up = (self._listed(device, way) for way in (_DOWN, _UP))
        if up >= self.micro_batches:
            return None
        if up < down and self.listed[KINDS * (self._stage(device, _UP) - 1)] > up:
            return _UP
        if down < self.micro_batches and (not device or self.listed[KINDS * (device - 1)] > down):
            return _DOWN
        return None

    def _stage(self, device: int, way: int) -> int:
        return device if way == _DOWN else 2 * len(self.devices) - 1 - device

    def _listed(self, device: int, way: int) -> int:
        return self.listed[KINDS * self._stage(device, way)]

    def _returned(self, stage: int) -> int:
        return self.listed[KINDS * stage + BACKWARD]

    def _is_left(self, device: int, way: int) -> bool:
        return self._listed(device, way) < self.micro_batches
