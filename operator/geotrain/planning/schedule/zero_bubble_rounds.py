"""Zero-bubble orders of one stage a device, built in rounds.

The first round warms up: forwards as long as the first gradient is on its way and memory has room,
fewer on each device than on the one before. Every further round lists a forward a device, where
one is left, and then an input gradient a device from the last to the first. ``rounds`` says where
weight gradients go. What may vary: whether the last forward of the warm-up may delay the first
gradient, whether a device that is ahead leaves its forward out when the next gradient would wait
for it, and whether every short wait is filled, or only what a device may not lose any more.

Source: Qi et al. (arXiv 2401.10241), section 3.1.
"""

from itertools import product

from geotrain.planning.schedule.lists import WHOLE, Listed
from geotrain.planning.schedule.rounds import Rounds
from geotrain.planning.schedule.shop import BACKWARD, KINDS, WEIGHT, Shop
from geotrain.units import Seconds

VARIANTS = tuple(product((False, True), (False, True), (False, True)))
"""Whether it is late, yields, and fills short waits."""


def built_in_rounds(place: Shop, freed: int, variant: tuple[bool, bool, bool]) -> Listed:
    """A variant; each device needs room for one micro-batch.

    A device lists at most a forward for each input gradient, so what its warm-up had room for
    suffices to the end.
    """
    build = _Build(place, freed, *variant)
    build.run()
    return build.candidate


class _Build(Rounds):
    def __init__(self, shop: Shop, freed: int, late: bool, yielding: bool, short: bool) -> None:
        super().__init__(shop, freed)
        self.micro_batches = shop.micro_batches
        self.late, self.yielding, self.short = late, yielding, short

    def run(self) -> None:
        """List every action."""
        self._warm_up()
        for _ in range(1, self.micro_batches):
            self._round()
        for device in self.devices:
            self.drain(device)

    def _warm_up(self) -> None:
        for device in self.devices:
            self.forward(device)
        extras = self._extras()
        for device in self.devices:
            for _ in range(extras[device]):
                self.forward(device)
        for device in reversed(self.devices):
            self.backward(device)

    def _extras(self) -> list[int]:
        """Further forwards of each device before its first gradient comes."""
        last, seconds = self.devices[-1], self.shop.seconds
        extras = [0 for _ in self.devices]
        back = self.clock[last] + seconds[KINDS * last + BACKWARD]
        for device in reversed(self.devices[:-1]):
            back += self._way_back(device + 1)
            forward = seconds[KINDS * device]
            most = min(self.micro_batches - 1, self.room[device] // WHOLE)
            clock = self.clock[device]
            ahead = forward if not self.late else 0.0
            while extras[device] < most and clock + ahead <= back:
                clock += forward
                extras[device] += 1
            back = max(clock, back) + seconds[KINDS * device + BACKWARD]
        for device in self.devices[1:]:
            extras[device] = min(extras[device], max(0, extras[device - 1] - 1))
        return extras

    def _round(self) -> None:
        wanted = [self._wants_forward(device) for device in self.devices]
        for device in reversed(self.devices[:-1]):
            wanted[device] &= wanted[device + 1]
        for device in self.devices:
            if wanted[device]:
                self.make_room(device)
                self.fill(device, self.forward_arrival(device), above=self._above(device))
                self.forward(device)
        for device in reversed(self.devices):
            self.fill(device, self.backward_arrival(device), above=self._above(device))
            if device == 0 and self.listed[0] == self.micro_batches:
                self.drain(0)
            self.backward(device)

    def _above(self, device: int) -> Seconds:
        return 0.0 if self.short else self.slack(device)

    def _wants_forward(self, device: int) -> bool:
        """Whether a device runs a forward in this round."""
        listed, seconds = self.listed[KINDS * device], self.shop.seconds
        if listed >= self.micro_batches:
            return False
        if not self.yielding or device == self.devices[-1]:
            return True
        following = KINDS * (device + 1)
        if listed < self.listed[following] + 2:
            return True
        gradient = (
            self.clock[device + 1]
            + seconds[following]
            + seconds[following + BACKWARD]
            + self._way_back(device + 1)
        )
        end = self.clock[device] + seconds[KINDS * device] + self._room_seconds(device)
        return end <= gradient or (
            self.clock[device] < gradient and gradient - self.clock[device] > self.slack(device)
        )

    def _way_back(self, device: int) -> Seconds:
        """How long a gradient of a device takes to the one before it."""
        return self.shop.hops[KINDS * device + BACKWARD][1]

    def _room_seconds(self, device: int) -> Seconds:
        """What the weight gradients take that make room for a forward."""
        lacking = max(0, WHOLE - self.room[device])
        count = -(-lacking // (WHOLE - self.freed))
        return min(count, len(self.weights[device])) * self.shop.seconds[KINDS * device + WEIGHT]
