"""``geotrain timeline``: when every rank and flow does what in the chosen plan's iteration."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from math import fsum

import typer

from geotrain.cli import answer, problem, reports, scope, screen
from geotrain.cli.answer import Output
from geotrain.cli.scope import Scope
from geotrain.cli.tables import Block, Prose, Style, Table, table
from geotrain.model.decision import Infeasible
from geotrain.model.plan import Bubble, Flow, Interval, Plan, Window
from geotrain.planning.placement.choose import choose
from geotrain.planning.schedule import render
from geotrain.units import Seconds, format_duration, format_rate


@scope.scoped(problem.HUB)
def timeline(
    hub: Scope,
    files: problem.Files,
    topology: problem.Places = None,
    profile: problem.ProfileFile = None,
    calibration: problem.CalibrationFile = None,
    job: problem.JobName = None,
    output: answer.Form = Output.TABLE,
    columns: answer.Columns = None,
    csv: answer.Csv = None,
    trace: answer.Trace = None,
    gantt: answer.Gantt = None,
) -> None:
    """Show when every rank computes and waits, and when each flow crosses the wide area."""
    asked = problem.read(problem.Given(files, topology, hub), profile, job, calibration)
    with screen.progress("planning"):
        chosen = choose(asked.topology, asked.workload)
    if isinstance(chosen, Infeasible):
        answer.refuse(chosen, output, asked.unused.sentences)
    if output.is_text:
        wide = output == Output.WIDE
        screen.show(Prose(reports.headline(chosen), Style.TITLE), wide=wide)
        typer.echo(screen.fitted(lambda width: render.time_grid(chosen, width), columns))
        screen.show(*_tables(chosen), *asked.unused.blocks, wide=wide)
    else:
        answer.print_document({**document(chosen), **asked.unused.document}, output)
    answer.write_files(chosen, csv, trace, gantt or [])


def document(plan: Plan) -> dict[str, object]:
    """Every interval of the iteration, in seconds from the start of stage 0."""
    waits, windows = _waits(plan), _windows(plan)
    return {
        "schedule": plan.schedule,
        "sharing": plan.sharing,
        "iterationSeconds": plan.iteration,
        "microBatches": plan.micro_batches,
        "ranks": [_rank(plan, rank, waits[rank]) for rank in range(plan.ranks)],
        "flows": [_flow(plan, flow, windows[flow.id]) for flow in plan.flows],
    }


def _rank(plan: Plan, rank: int, waits: list[Bubble]) -> dict[str, object]:
    return {
        "rank": rank,
        "stage": plan.stage_of(rank),
        "replica": plan.replica_of(rank),
        "dataCenter": plan.data_center_of(rank),
        "computeSeconds": _sum(plan.compute[rank]),
        "bubbleSeconds": _sum(waits),
        "actions": [_interval(each) for each in plan.compute[rank]],
        "step": {"begin": plan.steps[rank].begin, "end": plan.steps[rank].end},
        "bubbles": [{"begin": wait.begin, "end": wait.end} for wait in waits],
    }


def _flow(plan: Plan, flow: Flow, windows: list[Window]) -> dict[str, object]:
    return {
        "flow": flow.id,
        "from": flow.source_data_center,
        "to": flow.target_data_center,
        "sourceRank": flow.source,
        "targetRank": flow.target,
        "mates": list(flow.mates),
        "connections": flow.connections,
        "bitsPerSecond": flow.rate,
        "idleBitsPerSecond": flow.idle_rate,
        "transfers": [_interval(each) for each in plan.transfers[flow.id]],
        "windows": [{"begin": w.offset, "end": w.offset + w.length} for w in windows],
    }


def _interval(each: Interval) -> dict[str, object]:
    return {"action": each.label, "begin": each.begin, "end": each.end}


def _waits(plan: Plan) -> Mapping[int, list[Bubble]]:
    found = defaultdict(list)
    for bubble in plan.bubbles:
        found[bubble.rank].append(bubble)
    return found


def _windows(plan: Plan) -> Mapping[int, list[Window]]:
    found = defaultdict(list)
    for window in plan.windows:
        found[window.flow].append(window)
    return found


def _sum(intervals: Iterable[Interval] | Iterable[Bubble]) -> Seconds:
    return fsum(each.end - each.begin for each in intervals)


def _tables(plan: Plan) -> Iterator[Block]:
    yield _ranks(plan)
    if plan.flows:
        yield _flows(plan)


def _ranks(plan: Plan) -> Table:
    shown = table(
        "Ranks",
        "rank",
        "data centre",
        "stage",
        "replica",
        "computes",
        "waits",
        "bubbles",
        "longest",
    )
    by_rank = _waits(plan)
    for rank in range(plan.ranks):
        waits = by_rank[rank]
        shown.add(
            str(rank),
            plan.data_center_of(rank),
            str(plan.stage_of(rank)),
            str(plan.replica_of(rank)),
            format_duration(_sum(plan.compute[rank])),
            format_duration(_sum(waits)),
            str(len(waits)),
            format_duration(max((wait.end - wait.begin for wait in waits), default=0.0)),
        )
    return shown


def _flows(plan: Plan) -> Table:
    shown = table(
        "Wide area", "flow", "from", "to", "ranks", "paths of", "bit/s", "windows", "share"
    )
    shown.caption = "paths x connections of each, rate of a path, share of the iteration owned"
    by_flow = _windows(plan)
    for flow in plan.flows:
        windows = by_flow[flow.id]
        owned = fsum(window.length for window in windows)
        shown.add(
            str(flow.id),
            flow.source_data_center,
            flow.target_data_center,
            f"{flow.source} to {flow.target}",
            f"{1 + len(flow.mates)} x {flow.connections}",
            format_rate(flow.rate),
            str(len(windows)),
            f"{owned / plan.iteration:.0%}" if plan.iteration else "",
        )
    return shown
