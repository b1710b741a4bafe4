"""Plans under jitter: the same order replayed with times that are not quite as measured.

A replay's draw stretches or shrinks every stage's computing and every hop's transfer and latency,
each by a factor of its own, even over ``1 - share`` to ``1 + share``. It holds for the whole
iteration, as a slow GPU or a busy link does; that is harder on a fixed order than what evens out
within it. Draws are numbers of a counter (SplitMix64: Steele, Lea and Flood,
doi:10.1145/2660193.2660195), so the same seed gives the same ones, and all plans meet the same:
a plan is not worse because it was drawn worse.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from geotrain.planning.schedule.costs import Costs, Hop, StageCosts
from geotrain.units import Seconds

PERCENTILE = 0.95

_MASK = 2**64 - 1
_STAGES, _FORWARD, _BACKWARD = range(3)


@dataclass(frozen=True, slots=True)
class Jitter:
    """How much times differ, as a share of them, over how many replays drawn from which seed."""

    share: float
    replays: int = 40
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise ValueError(f"jitter of {self.share:.0%} is not within 0 % and 100 %")
        if self.replays < 1:
            raise ValueError(f"{self.replays} replays have no percentile; give at least 1")

    def costs(self, costs: Costs, number: int) -> Costs:
        """The costs of replay ``number``; of a stage all computing changes alike."""
        return replace(
            costs,
            stages=tuple(
                _slower(stage, self._factor(number, _STAGES, s))
                for s, stage in enumerate(costs.stages)
            ),
            forward=self._hops(costs.forward, number, _FORWARD),
            backward=self._hops(costs.backward, number, _BACKWARD),
        )

    def _hops(self, hops: Sequence[Hop], number: int, direction: int) -> tuple[Hop, ...]:
        found = []
        for boundary, hop in enumerate(hops):
            factor = self._factor(number, direction, boundary)
            found.append(replace(hop, occupancy=hop.occupancy * factor, delay=hop.delay * factor))
        return tuple(found)

    def _factor(self, number: int, kind: int, index: int) -> float:
        counter = (number * 3 + kind) << 20 | index
        return 1 + self.share * (2 * unit(self.seed, counter) - 1)


def _slower(stage: StageCosts, factor: float) -> StageCosts:
    return replace(
        stage,
        forward=stage.forward * factor,
        input_gradient=stage.input_gradient * factor,
        weight_gradient=stage.weight_gradient * factor,
        early=stage.early * factor,
        step=stage.step * factor,
    )


def unit(seed: int, counter: int) -> float:
    """Number ``counter`` of a seed, even over [0, 1): SplitMix64's 53 highest bits."""
    mixed = (seed * 0xD1342543DE82EF95 + (counter + 1) * 0x9E3779B97F4A7C15) & _MASK
    mixed = ((mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ mixed >> 27) * 0x94D049BB133111EB) & _MASK
    return ((mixed ^ mixed >> 31) >> 11) / 2**53


def percentile(periods: Sequence[Seconds]) -> Seconds:
    """The 95th percentile, by nearest rank."""
    return sorted(periods)[ceil(PERCENTILE * len(periods)) - 1]
