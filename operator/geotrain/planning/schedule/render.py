"""Orders and plans for people, as text grids."""

from collections.abc import Sequence

from geotrain.model.plan import Interval, Kind, Order, Plan
from geotrain.planning.schedule.actions import parse_action
from geotrain.units import Seconds

_AROUND = 8


def grid(
    rows: Sequence[Sequence[str]], mark: tuple[int, int] | None = None, name: str = "stage"
) -> str:
    """Cells in columns, one row a stage, or what ``name`` says; ``mark`` (row, column) gets arrows.

    A marked grid shows the columns and rows around the mark, so that a fault in a long order, or
    in one of many ranks, is on screen.
    """
    top = 0
    if mark is not None:
        top = max(0, mark[0] - _AROUND)
        rows, mark = rows[top : mark[0] + _AROUND + 1], (mark[0] - top, mark[1])
    first, last = 0, max((len(row) for row in rows), default=0)
    if mark is not None:
        first, last = max(0, mark[1] - _AROUND), min(last, mark[1] + _AROUND + 1)
    cut = [[row[i] if i < len(row) else "" for i in range(first, last)] for row in rows]
    if mark is not None:
        cut[mark[0]][mark[1] - first] = f">{cut[mark[0]][mark[1] - first]}<"
    heads = [str(i) for i in range(first, last)]
    widths = [max(len(cell) for cell in column) for column in zip(heads, *cut, strict=True)]
    lines = [("step", heads), *((f"{name} {s}", row) for s, row in enumerate(cut, top))]
    margin = max(len(head) for head, _ in lines)
    padded = [
        (head, [f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)])
        for head, cells in lines
    ]
    return "\n".join(" ".join([f"{head:<{margin}}", *cells]).rstrip() for head, cells in padded)


def order_grid(order: Order, mark: tuple[int, int] | None = None) -> str:
    """An order as it is listed, one action a column."""
    return grid([[str(action) for action in row] for row in order], mark, row_name(order))


def row_name(order: Order) -> str:
    """What a row stands for: a stage, or a rank where ranks run several stages."""
    return "rank" if any(len({action.stage for action in row}) > 1 for row in order) else "stage"


def rows_in_time(
    rows: Sequence[tuple[str, Sequence[Interval]]], length: Seconds, columns: int = 100
) -> str:
    """Actions over time: a row each with its name, a column a slice of ``length``.

    A forward is the lower-case letter of its micro-batch (a, b, …, and again after z), a backward
    or input gradient the upper-case one, a weight gradient ``+``, waiting ``.``. A slice shows
    what fills most of it.
    """
    width = max(len(name) for name, _ in rows)
    return "\n".join(
        f"{name:<{width}} {_slices(intervals, length, columns)}" for name, intervals in rows
    )


def _slices(intervals: Sequence[Interval], length: Seconds, columns: int) -> str:
    slice_length = length / columns
    filled = ["."] * columns
    most = [slice_length / 2] * columns
    for interval in intervals:
        first = int(interval.begin / slice_length)
        last = min(int(interval.end / slice_length), columns - 1)
        for column in range(first, last + 1):
            begin = max(interval.begin, column * slice_length)
            covered = min(interval.end, (column + 1) * slice_length) - begin
            if covered >= most[column]:
                most[column], filled[column] = covered, _letter(interval.label)
    return "".join(filled)


def time_grid(plan: Plan, columns: int = 100) -> str:
    """One iteration of replica 0: a row a stage, read as ``rows_in_time``."""
    if not plan.iteration:
        return "nothing takes any time"
    rows = [
        (f"{plan.placement.data_center_of(s)} {s}", plan.compute[s * plan.placement.data])
        for s in range(plan.placement.stages)
    ]
    return rows_in_time(rows, plan.iteration, columns)


def _letter(label: str) -> str:
    action = parse_action(label)
    if action.kind == Kind.WEIGHT_GRADIENT:
        return "+"
    letter = chr(ord("a") + action.micro_batch % 26)
    return letter if action.kind == Kind.FORWARD else letter.upper()
