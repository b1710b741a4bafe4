"""How many weight gradients a rank may put off, and orders that put off no more.

Where activations are recomputed, an input gradient leaves all of a stage's behind for its weight
gradient. A whole backward goes layer by layer and never holds more than one layer's. So memory
bounds how many weight gradients may wait, and where not even one fits, the backward stays whole.
"""

from collections import deque
from collections.abc import Sequence

from geotrain.model.plan import Action, Kind, Order


def put_off(order: Order, most: Sequence[int]) -> Order:
    """The same order with at most ``most[d]`` weight gradients put off at a time on device d.

    One too many lets the oldest run first; with 0 input and weight gradient run as one backward.
    """
    return tuple(_row(row, limit) for row, limit in zip(order, most, strict=True))


def _row(row: Sequence[Action], most: int) -> tuple[Action, ...]:
    waiting: deque[Action] = deque()
    found: list[Action] = []
    for action in row:
        weight = Action(action.stage, Kind.WEIGHT_GRADIENT, action.micro_batch)
        if action.kind == Kind.INPUT_GRADIENT:
            if not most:
                found.append(Action(action.stage, Kind.BACKWARD, action.micro_batch))
                continue
            if len(waiting) == most:
                found.append(waiting.popleft())
            waiting.append(weight)
        elif action.kind == Kind.WEIGHT_GRADIENT:
            if weight not in waiting:
                continue  # it has run already
            waiting.remove(weight)
        found.append(action)
    return tuple(found)
