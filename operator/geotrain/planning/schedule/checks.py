"""What is wrong with an order, hand-written ones too, with the place and the grid around it.

An order is sound when every stage is on one device and runs the same micro-batches, each with one
F and either one B or one I and one W, F before B or I, and I before W; when it runs to its end (no
deadlock); and when no device holds more micro-batches than its memory has room for. A micro-batch
is held, once for each stage, from the start of F to the end of B or W. In an order with sends and
receives every send is made to wait for its receive, which is the strictest that a network may be.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from geotrain.errors import InputError
from geotrain.model.plan import Action, Kind, Order
from geotrain.planning.schedule.dependencies import counterpart, needs, rendezvous, walk
from geotrain.planning.schedule.layouts import Layout, layout_of
from geotrain.planning.schedule.render import order_grid, row_name

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
    """One fault: ``place`` is (device, index in its row), ``grid`` shows the order around it."""

    sentence: str
    place: tuple[int, int]
    grid: str

    @property
    def refusal(self) -> InputError:
        """The sentence and the grid, to raise."""
        return InputError(self.sentence, self.grid)


def problems(order: Order, caps: Sequence[int] | None = None) -> list[Problem]:
    """All faults of an order; ``caps[d]`` micro-batches fit on device d, None: no bound.

    Deadlocks are looked for once the lists are complete, because a missing action is one too.
    """
    return list(_problems(order, caps))


def _problems(order: Order, caps: Sequence[int] | None) -> Iterator[Problem]:
    layout, is_clean = layout_of(order), True
    for kind in (_rows_problems, _different_micro_batches, _deadlocks):
        for problem in kind(order, layout) if is_clean else ():
            is_clean = False
            yield problem
    if caps is not None:
        yield from _overfull(order, caps)


def require_sound(order: Order, caps: Sequence[int] | None = None) -> None:
    """Raise InputError with the first fault and the grid around it."""
    found = next(_problems(order, caps), None)
    if found:
        raise found.refusal


def deadlock(order: Order, stopped: Sequence[int]) -> Problem:
    """The fault of an order whose devices came no further than ``stopped``."""
    device = next(d for d, row in enumerate(order) if stopped[d] < len(row))
    action = order[device][stopped[device]]
    other = counterpart(action)
    need = needs(action, len(layout_of(order)))
    if other is not None:
        wanted = f"stage {other.stage} to reach {other}"
    elif need is not None:
        wanted = f"micro-batch {need[2]} of stage {need[0]}"
    else:
        wanted = "an action before it"
    return _problem(
        order, f"the order deadlocks: {action} waits for {wanted}", (device, stopped[device])
    )


def in_flight(row: Sequence[Action]) -> Iterator[int]:
    """Micro-batches that a device holds, once for each stage, while each action of its row runs."""
    held = 0
    for action in row:
        held += action.kind == Kind.FORWARD
        yield held
        held -= action.kind in _RELEASES


def peak_in_flight(order: Order) -> tuple[int, ...]:
    """The most micro-batches that each device holds at once."""
    return tuple(max(in_flight(row), default=0) for row in order)


def _problem(order: Order, sentence: str, place: tuple[int, int]) -> Problem:
    where = f"{row_name(order)} {place[0]}, step {place[1]}"
    return Problem(f"{where}: {sentence}", place, order_grid(order, place))


def _rows_problems(order: Order, layout: Layout) -> Iterator[Problem]:
    for device in range(len(order)):
        yield from _row_problems(order, layout, device)


def _row_problems(order: Order, layout: Layout, device: int) -> Iterator[Problem]:
    counts: dict[tuple[int, int], Counter[Kind]] = {}
    for index, action in enumerate(order[device]):
        if layout[action.stage] != device:
            yield _problem(order, _misplaced(order, layout, action, device), (device, index))
        if counterpart(action) is not None:
            continue
        seen = counts.setdefault((action.stage, action.micro_batch), Counter())
        before = _AFTER.get(action.kind)
        if seen[action.kind]:
            yield _problem(order, f"{action} is listed twice", (device, index))
        elif before is not None and not seen[before]:
            wanted = Action(action.stage, before, action.micro_batch)
            yield _problem(order, f"{action} comes before {wanted}", (device, index))
        seen[action.kind] += 1
    end = max(len(order[device]) - 1, 0)
    for (stage, micro_batch), seen in sorted(counts.items()):
        if seen not in (_WHOLE, _SPLIT):
            have = ", ".join(f"{stage}{kind}{micro_batch}" for kind in sorted(seen.elements()))
            sentence = f"micro-batch {micro_batch} needs F and B, or F, I and W; it has {have}"
            yield _problem(order, sentence, (device, end))


def _misplaced(order: Order, layout: Layout, action: Action, device: int) -> str:
    if row_name(order) == "stage":
        return f"{action} is listed under stage {device}"
    return f"{action} is on rank {device}, but stage {action.stage} runs on {layout[action.stage]}"


def _different_micro_batches(order: Order, layout: Layout) -> Iterator[Problem]:
    if -1 in layout:
        yield _problem(order, f"stage {layout.index(-1)} is on no rank", (0, 0))
        return
    busy = set(layout)
    idle = next((device for device in range(len(order)) if device not in busy), None)
    if idle is not None:
        yield _problem(order, "it runs no stage; leave its row out", (idle, 0))
        return
    held: list[set[int]] = [set() for _ in layout]
    for row in order:
        for action in row:
            held[action.stage].add(action.micro_batch)
    for stage, micro_batches in enumerate(held):
        different = held[0] ^ micro_batches
        if different:
            device = layout[stage]
            sentence = f"micro-batch {min(different)} is on stage 0 or {stage}, but not on both"
            yield _problem(order, sentence, (device, max(len(order[device]) - 1, 0)))


def _deadlocks(order: Order, _: Layout) -> Iterator[Problem]:
    has_messages = any(counterpart(action) is not None for row in order for action in row)
    stopped = rendezvous(order) if has_messages else walk(order).stopped
    if any(i < len(row) for i, row in zip(stopped, order, strict=True)):
        yield deadlock(order, stopped)


def _overfull(order: Order, caps: Sequence[int]) -> Iterator[Problem]:
    for device, (row, cap) in enumerate(zip(order, caps, strict=True)):
        index = next((i for i, held in enumerate(in_flight(row)) if held > cap), None)
        if index is not None:
            sentence = f"{row[index]} is one micro-batch more than the {cap} that memory holds"
            yield _problem(order, sentence, (device, index))
