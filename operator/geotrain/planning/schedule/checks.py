"""What is wrong with an order, hand-written ones too, with the place and the grid around it.

An order is sound when every stage runs the same micro-batches, each with one F and either one B
or one I and one W, F before B or I, and I before W; when it runs to its end (no deadlock); and
when no stage holds more micro-batches than its memory has room for. A micro-batch is held from
the start of F to the end of B or W. In an order with sends and receives every send is made to
wait for its receive, which is the strictest that a network may be.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from geotrain.errors import InputError
from geotrain.model.plan import Action, Kind, Order
from geotrain.planning.schedule.dependencies import counterpart, needs, rendezvous, walk
from geotrain.planning.schedule.render import order_grid

_WHOLE = Counter({Kind.FORWARD: 1, Kind.BACKWARD: 1})
_SPLIT = Counter({Kind.FORWARD: 1, Kind.INPUT_GRADIENT: 1, Kind.WEIGHT_GRADIENT: 1})
_AFTER = {
    Kind.BACKWARD: Kind.FORWARD,
    Kind.INPUT_GRADIENT: Kind.FORWARD,
    Kind.WEIGHT_GRADIENT: Kind.INPUT_GRADIENT,
}
_RELEASES = {Kind.BACKWARD, Kind.WEIGHT_GRADIENT}


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault: ``place`` is (stage, index in its row), ``grid`` shows the order around it."""

    sentence: str
    place: tuple[int, int]
    grid: str

    @property
    def text(self) -> str:
        """The sentence and the grid, for a person."""
        return f"{self.sentence}\n{self.grid}"


def problems(order: Order, caps: Sequence[int] | None = None) -> list[Problem]:
    """All faults of an order; ``caps[s]`` micro-batches fit at stage s, None: no bound.

    Deadlocks are looked for once the lists are complete, because a missing action is one too.
    """
    found = [problem for stage in range(len(order)) for problem in _row_problems(order, stage)]
    if not found:
        found += _different_micro_batches(order)
    if not found:
        found += _deadlocks(order)
    if caps is not None:
        found += _overfull(order, caps)
    return found


def require_sound(order: Order, caps: Sequence[int] | None = None) -> None:
    """Raise InputError with the first fault and the grid around it."""
    found = problems(order, caps)
    if found:
        raise InputError(found[0].text)


def deadlock(order: Order, stopped: Sequence[int]) -> Problem:
    """The fault of an order whose stages came no further than ``stopped``."""
    stage = next(s for s, row in enumerate(order) if stopped[s] < len(row))
    action = order[stage][stopped[stage]]
    other = counterpart(action)
    need = needs(action, len(order))
    if other is not None:
        wanted = f"stage {other.stage} to reach {other}"
    elif need is not None:
        wanted = f"micro-batch {need[2]} of stage {need[0]}"
    else:
        wanted = "an action before it"
    return _problem(
        order, f"the order deadlocks: {action} waits for {wanted}", (stage, stopped[stage])
    )


def in_flight(row: Sequence[Action]) -> Iterator[int]:
    """Micro-batches that a stage holds while each action of its row runs."""
    held = 0
    for action in row:
        held += action.kind == Kind.FORWARD
        yield held
        held -= action.kind in _RELEASES


def peak_in_flight(order: Order) -> tuple[int, ...]:
    """The most micro-batches that each stage holds at once."""
    return tuple(max(in_flight(row), default=0) for row in order)


def _problem(order: Order, sentence: str, place: tuple[int, int]) -> Problem:
    stage, index = place
    return Problem(f"stage {stage}, step {index}: {sentence}", place, order_grid(order, place))


def _row_problems(order: Order, stage: int) -> Iterator[Problem]:
    counts: dict[int, Counter[Kind]] = {}
    for index, action in enumerate(order[stage]):
        if action.stage != stage:
            yield _problem(order, f"{action} is listed under stage {stage}", (stage, index))
        if counterpart(action) is not None:
            continue
        seen = counts.setdefault(action.micro_batch, Counter())
        before = _AFTER.get(action.kind)
        if seen[action.kind]:
            yield _problem(order, f"{action} is listed twice", (stage, index))
        elif before is not None and not seen[before]:
            wanted = Action(stage, before, action.micro_batch)
            yield _problem(order, f"{action} comes before {wanted}", (stage, index))
        seen[action.kind] += 1
    end = max(len(order[stage]) - 1, 0)
    for micro_batch, seen in sorted(counts.items()):
        if seen not in (_WHOLE, _SPLIT):
            have = ", ".join(f"{stage}{kind}{micro_batch}" for kind in sorted(seen.elements()))
            sentence = f"micro-batch {micro_batch} needs F and B, or F, I and W; it has {have}"
            yield _problem(order, sentence, (stage, end))


def _different_micro_batches(order: Order) -> Iterator[Problem]:
    first = {action.micro_batch for action in order[0]}
    for stage, row in enumerate(order):
        different = first ^ {action.micro_batch for action in row}
        if different:
            sentence = f"micro-batch {min(different)} is on stage 0 or {stage}, but not on both"
            yield _problem(order, sentence, (stage, max(len(row) - 1, 0)))


def _deadlocks(order: Order) -> Iterator[Problem]:
    has_messages = any(counterpart(action) is not None for row in order for action in row)
    stopped = rendezvous(order) if has_messages else walk(order).stopped
    if any(i < len(row) for i, row in zip(stopped, order, strict=True)):
        yield deadlock(order, stopped)


def _overfull(order: Order, caps: Sequence[int]) -> Iterator[Problem]:
    for stage, (row, cap) in enumerate(zip(order, caps, strict=True)):
        index = next((i for i, held in enumerate(in_flight(row)) if held > cap), None)
        if index is not None:
            sentence = f"{row[index]} is one micro-batch more than the {cap} that memory holds"
            yield _problem(order, sentence, (stage, index))
