"""Costs of a pipeline of equal devices, cut by the wide area where the user says."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise

from geotrain.planning.schedule.costs import Costs, Hop, StageCosts
from geotrain.planning.schedule.layouts import Layout
from geotrain.units import Seconds


@dataclass(frozen=True, slots=True)
class Uniform:
    """What each device computes for a micro-batch, all its stages together, and what messages take.

    ``transfer`` occupies the link of every message between two devices; ``local_transfer``, where
    given, that of those that stay inside a data centre. ``latency`` is added for each of the
    ``boundaries`` that a message crosses; boundary b lies between devices b and b + 1.
    ``recompute`` is the part of the input gradient that needs no message.
    """

    forward: Seconds
    input_gradient: Seconds
    weight_gradient: Seconds
    transfer: Seconds = 0.0
    local_transfer: Seconds | None = None
    latency: Seconds = 0.0
    boundaries: Collection[int] = ()
    recompute: Seconds = 0.0

    def costs(self, layout: Layout) -> Costs:
        """Costs of a layout; a device's time is divided equally among its stages."""
        counts = Counter(layout)
        share = [1 / counts[device] for device in layout]
        far = sorted(self.boundaries)
        hops = tuple(self._hop(far, *sorted(ends)) for ends in pairwise(layout))
        return Costs(
            tuple(
                StageCosts(
                    1,
                    self.forward * part,
                    self.input_gradient * part,
                    self.weight_gradient * part,
                    early=self.recompute * part,
                )
                for part in share
            ),
            hops,
            hops,
            layout,
        )

    def _hop(self, far: list[int], first: int, last: int) -> Hop:
        if first == last:
            return Hop(0.0, 0.0)
        crossed = bisect_left(far, last) - bisect_left(far, first)
        if crossed:
            return Hop(self.transfer, crossed * self.latency, connections=1)
        local = self.transfer if self.local_transfer is None else self.local_transfer
        return Hop(local, 0.0)
