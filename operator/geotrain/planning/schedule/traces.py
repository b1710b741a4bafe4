"""A plan as trace events, for chrome://tracing and Perfetto (Google's Trace Event Format).

A process a data centre, a thread a rank, then a thread a flow that leaves it: its windows, with
the transfers in them. Arrows lead from the action that made a message over its transfer to the
action that waited for it. Times are microseconds from the start of the iteration.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from geotrain.model.plan import Action, Flow, Interval, Kind, Plan
from geotrain.planning.schedule.actions import parse_action
from geotrain.planning.schedule.charts import Bar, BarKind, action_bar
from geotrain.units import Seconds

Event = dict[str, Any]

_INSIDE: Final[Seconds] = 1e-9
"""An arrow belongs to the slice in which it starts, so it starts this much before the end."""

_MAKERS: Final = {
    Kind.SEND_FORWARD: (Kind.FORWARD,),
    Kind.SEND_BACKWARD: (Kind.BACKWARD, Kind.INPUT_GRADIENT),
}


def chrome_trace(plan: Plan) -> dict[str, Any]:
    """The replay of one iteration as a JSON object of the Trace Event Format."""
    return {"displayTimeUnit": "ms", "traceEvents": list(_events(plan))}


def _events(plan: Plan) -> Iterator[Event]:
    centers = [name for name, _ in plan.placement.segments]
    pids = {name: number for number, name in enumerate(centers, start=1)}
    for name, pid in pids.items():
        yield _meta("process_name", pid, 0, {"name": name})
        yield _meta("process_sort_index", pid, 0, {"sort_index": pid})
    for rank, intervals in enumerate(plan.compute):
        pid = pids[plan.data_center_of(rank)]
        stage, replica = plan.stage_of(rank), plan.replica_of(rank)
        yield from _thread(pid, rank, f"rank {rank} (stage {stage}.{replica})")
        for interval in intervals:
            yield _slice(action_bar(interval), pid, rank, "compute")
        for step in plan.steps[rank : rank + 1]:
            if step.end > step.begin:
                yield _slice(Bar(BarKind.STEP, step.begin, step.end), pid, rank, "step")
    for wait in plan.bubbles:
        bar = Bar(BarKind.BUBBLE, wait.begin, wait.end)
        yield _slice(bar, pids[plan.data_center_of(wait.rank)], wait.rank, "bubble")
    yield from _wide_area(plan, pids)


def _wide_area(plan: Plan, pids: dict[str, int]) -> Iterator[Event]:
    windows = defaultdict(list)
    for window in plan.windows:
        windows[window.flow].append(window)
    for flow in plan.flows:
        pid, thread = pids[flow.source_data_center], plan.ranks + flow.id
        name = f"to {flow.target_data_center}: rank {flow.source} to {flow.target}"
        yield from _thread(pid, thread, name)
        for window in windows[flow.id]:
            bar = Bar(BarKind.WINDOW, window.offset, window.offset + window.length)
            yield _slice(bar, pid, thread, "window", {"bitsPerSecond": round(window.rate)})
        for sent in plan.transfers[flow.id]:
            yield _slice(action_bar(sent), pid, thread, "transfer")
    messages = ((flow, sent) for flow in plan.flows for sent in plan.transfers[flow.id])
    ranks = [{parse_action(i.label): i for i in intervals} for intervals in plan.compute]
    for number, (flow, sent) in enumerate(messages):
        ends = (pids[flow.source_data_center], pids[flow.target_data_center])
        yield from _arrows(number, flow, sent, ranks, ends, plan.ranks + flow.id)


def _arrows(
    number: int,
    flow: Flow,
    sent: Interval,
    ranks: list[dict[Action, Interval]],
    pids: tuple[int, int],
    thread: int,
) -> Iterator[Event]:
    """From the end of the maker over the transfer to the first action that needs the message."""
    send = parse_action(sent.label)
    to = send.stage + (1 if send.kind == Kind.SEND_FORWARD else -1)
    made = _interval(ranks[flow.source], send.stage, send)
    used = _interval(ranks[flow.target], to, send)
    last = max(made.begin, made.end - _INSIDE)
    at = {"s": (pids[0], flow.source, last), "t": (pids[0], thread, sent.begin),
          "f": (pids[1], flow.target, used.begin)}  # fmt: skip
    for phase, (pid, tid, time) in at.items():
        yield {
            "ph": phase, "name": "message", "cat": "message", "id": number, "bp": "e",
            "pid": pid, "tid": tid, "ts": _microseconds(time),
        }  # fmt: skip


def _interval(rank: dict[Action, Interval], stage: int, send: Action) -> Interval:
    """What makes the message at its sender, and what needs it at its receiver."""
    wanted = (Action(stage, kind, send.micro_batch) for kind in _MAKERS[send.kind])
    return next(rank[action] for action in wanted if action in rank)


def _thread(pid: int, tid: int, name: str) -> Iterator[Event]:
    yield _meta("thread_name", pid, tid, {"name": name})
    yield _meta("thread_sort_index", pid, tid, {"sort_index": tid})


def _meta(what: str, pid: int, tid: int, arguments: dict[str, Any]) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": arguments}


def _slice(
    bar: Bar, pid: int, tid: int, category: str, arguments: dict[str, Any] | None = None
) -> Event:
    begin, end = _microseconds(bar.begin), _microseconds(bar.end)
    told = {"kind": str(bar.kind), "microBatch": bar.micro_batch} if bar.label else {}
    return {
        "ph": "X", "name": bar.label or str(bar.kind), "cat": category, "pid": pid, "tid": tid,
        "ts": begin, "dur": round(end - begin, 3), "args": {**told, **(arguments or {})},
    }  # fmt: skip


def _microseconds(time: Seconds) -> float:
    return round(time * 1e6, 3)
