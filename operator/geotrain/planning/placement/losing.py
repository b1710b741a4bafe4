"""Why a plan lost, as a person reads it."""

from geotrain.model.workload import Workload
from geotrain.planning.placement.costing import Score


def why(rank: Score, best: Score, prefix: str, workload: Workload) -> str:
    """How much worse, in what decides: "12 % slower", "at best 3 % dearer"."""
    if rank < best:
        return "none of its patterns is as good as the best one's"
    words = ("slower", "dearer") if workload.objective == "Throughput" else ("dearer", "slower")
    for value, least, word in zip(rank, best, words, strict=True):
        if value > least * (1 + 1e-9):
            return f"{prefix}{_percent(value, least)} {word}"
    return f"{prefix}no better, and it comes later in the fixed order"


def _percent(value: float, least: float) -> str:
    if not least:
        return "infinitely"
    return percent(value / least - 1)


def percent(share: float) -> str:
    """A share as a person reads it."""
    worse = share * 100
    return f"{worse:.0f} %" if worse >= 10 else f"{worse:.2g} %"
