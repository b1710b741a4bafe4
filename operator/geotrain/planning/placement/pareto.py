"""The placements that nobody beats in both throughput and price."""

from collections.abc import Iterable

from geotrain.planning.placement.what_if import Outcome


def pareto(outcomes: Iterable[Outcome]) -> tuple[Outcome, ...]:
    """The Pareto front, the highest throughput first: each is cheaper than all before it.

    Of outcomes that are equal in both the first counts.
    """
    front: list[Outcome] = []
    ordered = sorted(outcomes, key=lambda each: (-each.samples_per_second, each.price_per_sample))
    for outcome in ordered:
        if not front or outcome.price_per_sample < front[-1].price_per_sample:
            front.append(outcome)
    return tuple(front)
