"""Whole backwards as soon as they can run: Atlas' order for given costs, and Varuna's.

Whenever a stage is free it runs a backward whose gradient has arrived; else a forward that has
arrived, if memory has room for one more micro-batch; else it waits. Unlike the patterns of
``orders`` the result follows the messages: several backwards may come in a row after a burst. One
replica stands for all: a hop that is shared in turns is taken for the others' turns between two of
its messages.

With recomputation a backward begins with a forward of its own (``StageCosts.early``), which needs
no gradient. A free stage starts it as soon as the gradient will be there by its end, so that a
stage that waits has its recompute behind it when the gradient comes.

Sources: ATLAS (arXiv 2411.14458), section 4; Athlur et al., Varuna (EuroSys 2022,
doi:10.1145/3492321.3519584), section 3.2.
"""

from collections.abc import Sequence

from geotrain.model.plan import Order
from geotrain.planning.schedule.costs import Costs
from geotrain.planning.schedule.lists import Rule, list_schedule
from geotrain.planning.schedule.shop import order_of, shop


def backward_first(costs: Costs, caps: Sequence[int], micro_batches: int) -> Order:
    """The order of every device, on which ``caps[d]`` micro-batches at most are in flight.

    Raises InputError without a micro-batch, or without room for one of each stage.
    """
    place = shop(costs, micro_batches, caps, split=False)
    return order_of(place, list_schedule(place, Rule()).rows)
