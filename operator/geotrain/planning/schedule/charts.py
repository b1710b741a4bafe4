"""A plan as the rows of a Gantt chart: what every rank's GPU and every flow does when.

A row holds bars that may lie in each other: the windows of a flow contain its transfers. Bars of a
row are sorted by their begin, a bar before those that it contains, so that drawing them in order
leaves the inner ones on top.
"""

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from geotrain.model.plan import Interval, Kind, Plan
from geotrain.planning.schedule.actions import parse_action
from geotrain.units import Seconds


class BarKind(StrEnum):
    """What a bar stands for."""

    FORWARD = "forward"
    BACKWARD = "backward"
    INPUT_GRADIENT = "input gradient"
    WEIGHT_GRADIENT = "weight gradient"
    STEP = "all-reduce and optimizer"
    BUBBLE = "bubble"
    TRANSFER = "transfer"
    WINDOW = "window"


@dataclass(frozen=True, slots=True)
class Bar:
    """An interval of a row. ``label`` is the action's text, '' where none is behind it."""

    kind: BarKind
    begin: Seconds
    end: Seconds
    label: str = ""
    micro_batch: int = -1


@dataclass(frozen=True, slots=True)
class Lane:
    """A row: a rank's GPU, or a flow of the wide area out of ``data_center``."""

    name: str
    data_center: str
    replica: int
    bars: tuple[Bar, ...]


_KINDS: Final = {
    Kind.FORWARD: BarKind.FORWARD,
    Kind.BACKWARD: BarKind.BACKWARD,
    Kind.INPUT_GRADIENT: BarKind.INPUT_GRADIENT,
    Kind.WEIGHT_GRADIENT: BarKind.WEIGHT_GRADIENT,
    Kind.SEND_FORWARD: BarKind.TRANSFER,
    Kind.SEND_BACKWARD: BarKind.TRANSFER,
}


def lanes(plan: Plan) -> tuple[Lane, ...]:
    """By data centre, in pipeline order: its ranks, then the flows that leave it."""
    rows: dict[str, list[Lane]] = {name: [] for name, _ in plan.placement.segments}
    waits = defaultdict(list)
    for bubble in plan.bubbles:
        waits[bubble.rank].append(Bar(BarKind.BUBBLE, bubble.begin, bubble.end))
    for rank, actions in enumerate(plan.compute):
        bars = [*map(action_bar, actions), *waits[rank], *_steps(plan, rank)]
        name = f"{_stages(actions)} replica {plan.replica_of(rank)}"
        center = plan.data_center_of(rank)
        rows[center].append(Lane(name, center, plan.replica_of(rank), _ordered(bars)))
    owned = defaultdict(list)
    for window in plan.windows:
        end = window.offset + window.length
        owned[window.flow].append(Bar(BarKind.WINDOW, window.offset, end))
    for flow in plan.flows:
        replica, center = plan.replica_of(flow.source), flow.source_data_center
        bars = [*owned[flow.id], *map(action_bar, plan.transfers[flow.id])]
        name = f"to {flow.target_data_center} replica {replica}"
        rows[center].append(Lane(name, center, replica, _ordered(bars)))
    return tuple(lane for center in rows.values() for lane in center)


def _stages(actions: tuple[Interval, ...]) -> str:
    """The stages of a rank, of which it may run several."""
    stages = sorted({parse_action(each.label).stage for each in actions})
    return f"stage{'s' * (len(stages) > 1)} {', '.join(map(str, stages))}"


def action_bar(interval: Interval) -> Bar:
    """An action or a transfer as a bar."""
    action = parse_action(interval.label)
    return Bar(
        _KINDS[action.kind], interval.begin, interval.end, interval.label, action.micro_batch
    )


def _steps(plan: Plan, rank: int) -> list[Bar]:
    """What ends the rank's iteration, where it takes time."""
    steps = plan.steps[rank : rank + 1]
    return [Bar(BarKind.STEP, s.begin, s.end) for s in steps if s.end > s.begin]


def _ordered(bars: list[Bar]) -> tuple[Bar, ...]:
    return tuple(sorted(bars, key=lambda bar: (bar.begin, bar.kind != BarKind.WINDOW)))
