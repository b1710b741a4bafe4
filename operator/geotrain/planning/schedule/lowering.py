"""Sends and receives for a compute order, so placed that nobody waits in a circle.

All devices step together: in a round each runs its next action if what it needs has arrived, and
at the end of the round every message made in it gets its send, in the sender's row, and its
receive, in the receiver's row, at the same moment. The rounds are therefore a sequence in which
every send meets its receive, so the rows finish even where sends block; and a receive is placed
when its sender is done, neither long before nor after (torch.distributed.pipelining lowers the
same way, in ``_add_send_recv``). Between stages of one device nothing is sent.
"""

from geotrain.model.plan import Action, Kind, Order
from geotrain.planning.schedule.checks import deadlock
from geotrain.planning.schedule.dependencies import Message, counterpart, makes, needs
from geotrain.planning.schedule.layouts import Layout, layout_of


def lower(order: Order) -> Order:
    """Add sends and receives. Raises InputError, with the grid, where the order deadlocks."""
    layout = layout_of(order)
    rows: list[list[Action]] = [[] for _ in order]
    arrived: set[Message] = set()
    at = [0] * len(order)
    asked = list(range(len(order)))
    while asked:
        # Only who ran in the last round, or got a message then, can go on in this one.
        ran = [
            (device, order[device][at[device]])
            for device in asked
            if at[device] < len(order[device])
            and _is_ready(order[device][at[device]], len(layout), arrived)
        ]
        for device, action in ran:
            rows[device].append(action)
            at[device] += 1
        messages = _exchange([action for _, action in ran], layout, rows)
        arrived |= messages
        receivers = (layout[stage + 1 if forward else stage - 1] for stage, forward, _ in messages)
        asked = sorted({*(device for device, _ in ran), *receivers})
    if any(i < len(row) for i, row in zip(at, order, strict=True)):
        raise deadlock(order, at).refusal
    return tuple(tuple(row) for row in rows)


def _is_ready(action: Action, stages: int, arrived: set[Message]) -> bool:
    need = needs(action, stages)
    return need is None or need in arrived


def _exchange(ran: list[Action], layout: Layout, rows: list[list[Action]]) -> set[Message]:
    """Place the sends and receives of a round; returns what has arrived after it."""
    messages = {made for action in ran if (made := makes(action, len(layout))) is not None}
    for stage, forward, micro_batch in sorted(messages):
        kind = Kind.SEND_FORWARD if forward else Kind.SEND_BACKWARD
        send = Action(stage, kind, micro_batch)
        receive = counterpart(send)
        assert receive is not None, "a send has a receive"
        source, target = layout[stage], layout[receive.stage]
        if source != target:
            rows[source].append(send)
            rows[target].append(receive)
    return messages
