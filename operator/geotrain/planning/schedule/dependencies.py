"""What an action waits for, and an order walked from dependency to dependency.

The rules, for stage s of P and micro-batch m:

* F(s, m) needs F(s-1, m) to have arrived; stage 0 reads its own input;
* B(s, m) and I(s, m) need B or I(s+1, m) to have arrived; the last stage starts from its own loss;
* W(s, m) needs I(s, m), which is on the same rank.

P counts stages; a device may run several, and then needs no message between two that follow each
other. A rank runs its list in order, so a walk needs no clock: it goes on where it can and stops
where nothing can, which is a deadlock.
"""

from dataclasses import dataclass

from geotrain.model.plan import Action, Kind, Order
from geotrain.planning.schedule.layouts import Layout, layout_of

_FORWARD = {Kind.FORWARD}
_BACKWARD = {Kind.BACKWARD, Kind.INPUT_GRADIENT}

Message = tuple[int, bool, int]
"""(stage that produced it, whether it goes forward, micro-batch)"""


def needs(action: Action, stages: int) -> Message | None:
    """The message that must have arrived before the action can start."""
    if action.kind in _FORWARD and action.stage > 0:
        return action.stage - 1, True, action.micro_batch
    if action.kind in _BACKWARD and action.stage < stages - 1:
        return action.stage + 1, False, action.micro_batch
    return None


def makes(action: Action, stages: int) -> Message | None:
    """The message that leaves when the action ends."""
    if action.kind in _FORWARD and action.stage < stages - 1:
        return action.stage, True, action.micro_batch
    if action.kind in _BACKWARD and action.stage > 0:
        return action.stage, False, action.micro_batch
    return None


@dataclass(frozen=True, slots=True)
class Walk:
    """An order in a sequence in which every action comes after what it needs.

    ``needs[i]`` is the index in ``actions`` of the producer that ``actions[i]`` waits for, or -1.
    ``stopped[d]`` is how far device d came: its length, unless the order deadlocks.
    """

    actions: tuple[Action, ...]
    needs: tuple[int, ...]
    stopped: tuple[int, ...]
    complete: bool


def walk(order: Order) -> Walk:
    """Run each device until it waits for a message, then whoever can make that message."""
    stages = len(layout_of(order))
    made: dict[Message, int] = {}
    waiting: dict[Message, int] = {}
    actions: list[Action] = []
    needed: list[int] = []
    at = [0] * len(order)
    ready = list(range(len(order) - 1, -1, -1))
    while ready:
        device = ready.pop()
        row = order[device]
        while at[device] < len(row):
            action = row[at[device]]
            need = needs(action, stages)
            if need is not None and need not in made:
                waiting[need] = device
                break
            needed.append(-1 if need is None else made[need])
            made_now = makes(action, stages)
            if made_now is not None:
                made.setdefault(made_now, len(actions))
                if made_now in waiting:
                    ready.append(waiting.pop(made_now))
            actions.append(action)
            at[device] += 1
    complete = all(i == len(row) for i, row in zip(at, order, strict=True))
    return Walk(tuple(actions), tuple(needed), tuple(at), complete)


_COUNTERPART = {
    Kind.SEND_FORWARD: (Kind.RECEIVE_FORWARD, 1),
    Kind.SEND_BACKWARD: (Kind.RECEIVE_BACKWARD, -1),
    Kind.RECEIVE_FORWARD: (Kind.SEND_FORWARD, -1),
    Kind.RECEIVE_BACKWARD: (Kind.SEND_BACKWARD, 1),
}


def counterpart(action: Action) -> Action | None:
    """The receive that takes a send, or the send that a receive takes; None for compute."""
    if action.kind not in _COUNTERPART:
        return None
    kind, step = _COUNTERPART[action.kind]
    return Action(action.stage + step, kind, action.micro_batch)


def rendezvous(order: Order) -> tuple[int, ...]:
    """How far each device comes when every send waits for its receive.

    A compute action needs its receive earlier in the same row, or what it takes from its own
    device made there; a send needs the action that makes its message.
    """
    layout = layout_of(order)
    at = [0] * len(order)
    done: set[Message | tuple[int, Message]] = set()
    ready = list(range(len(order)))
    while ready:
        device = ready.pop()
        while at[device] < len(order[device]):
            action = order[device][at[device]]
            other = counterpart(action)
            if other is None:
                need, made = needs(action, len(layout)), makes(action, len(layout))
                if need is not None and not _has(layout, done, device, need):
                    break
                if made is not None:
                    done.add(made)
            else:
                if not _meets(order, layout, at, other):
                    break
                sender = action if action.kind in _SENDS else other
                message = (sender.stage, sender.kind == Kind.SEND_FORWARD, sender.micro_batch)
                if message not in done:
                    break
                partner = layout[other.stage]
                done.add((device if sender is other else partner, message))
                at[partner] += 1
                ready.append(partner)
            at[device] += 1
    return tuple(at)


_SENDS = {Kind.SEND_FORWARD, Kind.SEND_BACKWARD}


def _has(
    layout: Layout, done: set[Message | tuple[int, Message]], device: int, need: Message
) -> bool:
    """Whether a message is on the device: made there, or received."""
    return (need if layout[need[0]] == device else (device, need)) in done


def _meets(order: Order, layout: Layout, at: list[int], other: Action) -> bool:
    """Whether the other side stands at the counterpart now."""
    if not 0 <= other.stage < len(layout) or layout[other.stage] < 0:
        return False
    device = layout[other.stage]
    row = order[device]
    return at[device] < len(row) and row[at[device]] == other
