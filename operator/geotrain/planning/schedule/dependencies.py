"""What an action waits for, and an order walked from dependency to dependency.

The rules, for stage s of P and micro-batch m:

* F(s, m) needs F(s-1, m) to have arrived; stage 0 reads its own input;
* B(s, m) and I(s, m) need B or I(s+1, m) to have arrived; the last stage starts from its own loss;
* W(s, m) needs I(s, m), which is on the same rank.

A rank runs its list in order, so a walk needs no clock: it goes on where it can and stops where
nothing can, which is a deadlock.
"""

from dataclasses import dataclass

from geotrain.model.plan import Action, Kind, Order

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
    ``stopped[s]`` is how far stage s came: its length, unless the order deadlocks.
    """

    actions: tuple[Action, ...]
    needs: tuple[int, ...]
    stopped: tuple[int, ...]
    complete: bool


def walk(order: Order) -> Walk:
    """Run each stage until it waits for a message, then whoever can make that message."""
    stages = len(order)
    made: dict[Message, int] = {}
    waiting: dict[Message, int] = {}
    actions: list[Action] = []
    needed: list[int] = []
    at = [0] * stages
    ready = list(range(stages - 1, -1, -1))
    while ready:
        stage = ready.pop()
        row = order[stage]
        while at[stage] < len(row):
            action = row[at[stage]]
            need = needs(action, stages)
            if need is not None and need not in made:
                waiting[need] = stage
                break
            needed.append(-1 if need is None else made[need])
            made_now = makes(action, stages)
            if made_now is not None:
                made.setdefault(made_now, len(actions))
                if made_now in waiting:
                    ready.append(waiting.pop(made_now))
            actions.append(action)
            at[stage] += 1
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
    """How far each stage comes when every send waits for its receive.

    A compute action needs its receive earlier in the same row, a send the action that makes its
    message.
    """
    stages = len(order)
    at = [0] * stages
    done: set[Message | tuple[int, Message]] = set()
    ready = list(range(stages))
    while ready:
        stage = ready.pop()
        while at[stage] < len(order[stage]):
            action = order[stage][at[stage]]
            other = counterpart(action)
            if other is None:
                need, made = needs(action, stages), makes(action, stages)
                if need is not None and (stage, need) not in done:
                    break
                if made is not None:
                    done.add(made)
            else:
                if not _meets(order, at, other):
                    break
                sender = action if action.kind in _SENDS else other
                message = (sender.stage, sender.kind == Kind.SEND_FORWARD, sender.micro_batch)
                if message not in done:
                    break
                done.add((stage if sender is other else other.stage, message))
                at[other.stage] += 1
                ready.append(other.stage)
            at[stage] += 1
    return tuple(at)


_SENDS = {Kind.SEND_FORWARD, Kind.SEND_BACKWARD}


def _meets(order: Order, at: list[int], other: Action) -> bool:
    """Whether the other side stands at the counterpart now."""
    if not 0 <= other.stage < len(order):
        return False
    row = order[other.stage]
    return at[other.stage] < len(row) and row[at[other.stage]] == other
