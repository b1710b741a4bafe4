"""Orders and plans for people: text grids, trace events, and the rows of a Gantt chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from geotrain.model.plan import Interval, Kind, Order, Plan
from geotrain.planning.schedule.actions import parse_action
from geotrain.units import Seconds

_AROUND = 8


def grid(rows: Sequence[Sequence[str]], mark: tuple[int, int] | None = None) -> str:
    """Cells in columns, one row a stage. ``mark`` (row, column) gets arrows; far columns are cut.

    A marked grid shows the columns around the mark, so that a fault in a long order is on screen.
    """
    first, last = 0, max((len(row) for row in rows), default=0)
    if mark is not None:
        first, last = max(0, mark[1] - _AROUND), min(last, mark[1] + _AROUND + 1)
    cut = [[row[i] if i < len(row) else "" for i in range(first, last)] for row in rows]
    if mark is not None:
        cut[mark[0]][mark[1] - first] = f">{cut[mark[0]][mark[1] - first]}<"
    heads = [str(i) for i in range(first, last)]
    widths = [max(len(cell) for cell in column) for column in zip(heads, *cut, strict=True)]
    lines = [("step", heads), *((f"stage {s}", row) for s, row in enumerate(cut))]
    name = max(len(head) for head, _ in lines)
    padded = [
        (head, [f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)])
        for head, cells in lines
    ]
    return "\n".join(" ".join([f"{head:<{name}}", *cells]).rstrip() for head, cells in padded)


def order_grid(order: Order, mark: tuple[int, int] | None = None) -> str:
    """An order as it is listed, one action a column."""
    return grid([[str(action) for action in row] for row in order], mark)


def time_grid(plan: Plan, columns: int = 100) -> str:
    """One iteration of replica 0: a row a stage, a column a slice of time.

    A forward is the lower-case letter of its micro-batch (a, b, …, and again after z), a backward
    the upper-case one, waiting ``.``. A slice shows what fills most
    of it.
    """
    if not plan.iteration:
        return "nothing takes any time"
    slice_length = plan.iteration / columns
    names = [f"{plan.placement.data_center_of(s)} {s}" for s in range(plan.placement.stages)]
    width = max(map(len, names))
    lines = []
    for stage, name in enumerate(names):
        filled = ["."] * columns
        most = [slice_length / 2] * columns
        for interval in plan.compute[stage * plan.placement.data]:
            first = int(interval.begin / slice_length)
            last = min(int(interval.end / slice_length), columns - 1)
            for column in range(first, last + 1):
                begin = max(interval.begin, column * slice_length)
                covered = min(interval.end, (column + 1) * slice_length) - begin
                if covered >= most[column]:
                    most[column], filled[column] = covered, _letter(interval.label)
        lines.append(f"{name:<{width}} {''.join(filled)}")
    return "\n".join(lines)


def _letter(label: str) -> str:
    action = parse_action(label)
    letter = chr(ord("a") + action.micro_batch % 26)
    return letter if action.kind == Kind.FORWARD else letter.upper()


def chrome_trace(plan: Plan) -> dict[str, Any]:
    """The replay as trace events (Chrome, Perfetto): a process a data centre, a thread a rank.

    Transfers are threads of the sending data centre, one a flow. Times are microseconds.
    """
    centers = [name for name, _ in plan.placement.segments]
    pids = {name: number for number, name in enumerate(centers, start=1)}
    events = [_meta("process_name", pid, 0, name) for name, pid in pids.items()]
    for rank, intervals in enumerate(plan.compute):
        pid = pids[plan.data_center_of(rank)]
        stage, replica = plan.stage_of(rank), plan.replica_of(rank)
        events.append(_meta("thread_name", pid, rank, f"rank {rank} (stage {stage}.{replica})"))
        events += [_event(interval, pid, rank, "compute") for interval in intervals]
    for wait in plan.bubbles:
        idle = Interval("bubble", wait.begin, wait.end)
        events.append(_event(idle, pids[plan.data_center_of(wait.rank)], wait.rank, "bubble"))
    for flow in plan.flows:
        pid, thread = pids[flow.source_data_center], plan.ranks + flow.id
        name = f"to {flow.target_data_center}: rank {flow.source} to {flow.target}"
        events.append(_meta("thread_name", pid, thread, name))
        events += [_event(sent, pid, thread, "transfer") for sent in plan.transfers[flow.id]]
    return {"displayTimeUnit": "ms", "traceEvents": events}


def _meta(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _event(interval: Interval, pid: int, tid: int, category: str) -> dict[str, Any]:
    begin, end = (round(time * 1e6, 3) for time in (interval.begin, interval.end))
    length = round(end - begin, 3)
    return {
        "ph": "X", "name": interval.label, "cat": category,
        "pid": pid, "tid": tid, "ts": begin, "dur": length,
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of a Gantt chart: a rank's GPU, or a flow of the wide area."""

    name: str
    data_center: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Bar:
    """``kind`` is forward, backward, bubble or transfer; ``micro_batch`` is -1 for a bubble."""

    kind: str
    micro_batch: int
    begin: Seconds
    end: Seconds


def lanes(plan: Plan) -> tuple[Lane, ...]:
    """The rows of a Gantt chart: by data centre its ranks, then the flows that leave it."""
    found = []
    for center, _ in plan.placement.segments:
        for rank in range(plan.ranks):
            if plan.data_center_of(rank) == center:
                name = f"stage {plan.stage_of(rank)} replica {plan.replica_of(rank)}"
                found.append(Lane(name, center, _rank_bars(plan, rank)))
        for flow in plan.flows:
            if flow.source_data_center == center:
                bars = tuple(_bar("transfer", sent) for sent in plan.transfers[flow.id])
                replica = plan.replica_of(flow.source)
                found.append(Lane(f"to {flow.target_data_center} replica {replica}", center, bars))
    return tuple(found)


def _rank_bars(plan: Plan, rank: int) -> tuple[Bar, ...]:
    waits = [Bar("bubble", -1, b.begin, b.end) for b in plan.bubbles if b.rank == rank]
    work = [
        _bar("forward" if parse_action(i.label).kind == Kind.FORWARD else "backward", i)
        for i in plan.compute[rank]
    ]
    return tuple(sorted([*waits, *work], key=lambda bar: bar.begin))


def _bar(kind: str, interval: Interval) -> Bar:
    return Bar(kind, parse_action(interval.label).micro_batch, interval.begin, interval.end)
