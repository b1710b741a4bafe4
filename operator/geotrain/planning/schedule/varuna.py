"""Varuna's order: backwards as soon as their gradient comes, recomputed while it is waited for.

With recomputation a backward begins with a forward of its own (``StageCosts.early``), which needs
no gradient. A free stage starts it as soon as the gradient will be there by its end; else it runs
a forward for which there is memory. Unlike 1F1B the order so follows late messages, and a stage
that waits has its recompute behind it when the gradient comes.

Source: Athlur et al., Varuna (EuroSys 2022, doi:10.1145/3492321.3519584), section 3.2.
"""

from collections.abc import Sequence

from geotrain.model.plan import Order
from geotrain.planning.schedule.costs import Costs
from geotrain.planning.schedule.list_scheduling import Memory, Rules, list_schedule


def varuna(costs: Costs, caps: Sequence[int], micro_batches: int) -> Order:
    """The order; ``caps[d]`` micro-batches are in flight on device d at most."""
    rules = Rules((micro_batches,) * len(costs.stages), split=False)
    return list_schedule(costs, Memory(tuple(caps)), micro_batches, rules).order
