"""Which device runs which stage: devices (pipeline ranks) are the rows of an order.

A device that runs several stages, its model chunks, needs more messages but waits less: its first
chunk's results come back to it before the pipeline is full. Neighbouring stages on one device
pass on what they make in memory; there is no message.
"""

from geotrain.model.plan import Order

Layout = tuple[int, ...]
"""The device of each stage."""


def one_stage_each(devices: int) -> Layout:
    """Stage s on device s."""
    return tuple(range(devices))


def interleaved(devices: int, chunks: int) -> Layout:
    """Stage s on device ``s mod devices`` (Narayanan et al., arXiv 2104.04473)."""
    return tuple(range(devices)) * chunks


def v_shape(devices: int) -> Layout:
    """Down the devices and back up: the last device turns round (Qi et al., arXiv 2405.15362)."""
    return tuple(range(devices)) + tuple(reversed(range(devices)))


def layout_of(order: Order) -> Layout:
    """The layout that an order shows; -1 for a stage that no row holds.

    Where no row holds several stages, row s is stage s. Of rows that share a stage the first
    counts; ``checks`` reports the others.
    """
    held = [dict.fromkeys(action.stage for action in row) for row in order]
    stages = max((stage + 1 for row in held for stage in row), default=0)
    if all(len(row) < 2 for row in held):
        return one_stage_each(max(stages, len(order)))
    found = [-1] * stages
    for device in reversed(range(len(order))):
        for stage in held[device]:
            found[stage] = device
    return tuple(found)
