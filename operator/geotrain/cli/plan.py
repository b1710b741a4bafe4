"""``geotrain plan``: where a job would run, how fast, and why not otherwise. Needs no cluster."""

from typing import Annotated

import typer

from geotrain.cli import answer, pods, problem, reports, scope, screen
from geotrain.cli.answer import Output
from geotrain.cli.costs import utilisation
from geotrain.cli.scope import Scope
from geotrain.model.decision import Infeasible
from geotrain.model.plan import Plan
from geotrain.planning.placement.choose import at, baseline, choose
from geotrain.planning.placement.footprint import footprints
from geotrain.planning.placement.idle import better, idle
from geotrain.planning.placement.pareto import pareto_front
from geotrain.planning.placement.what_if import Outcome
from geotrain.planning.schedule import render


@scope.scoped(problem.HUB)
def plan(
    hub: Scope,
    files: problem.Files,
    topology: problem.Places = None,
    profile: problem.ProfileFile = None,
    calibration: problem.CalibrationFile = None,
    job: problem.JobName = None,
    objective: problem.Wish = None,
    jitter: problem.Jittered = None,
    output: answer.Form = Output.TABLE,
    grid: Annotated[bool, typer.Option(help="Print the schedule as stages over time.")] = False,
    csv: answer.Csv = None,
    trace: answer.Trace = None,
    gantt: answer.Gantt = None,
) -> None:
    """Choose where a job's stages run and in which order, and replay it exactly."""
    asked = problem.read(problem.Given(files, topology, hub), profile, job, calibration)
    wanted = problem.wished(asked, objective)
    with screen.progress("planning"):
        chosen = choose(wanted.topology, wanted.workload, jitter=problem.jitter(jitter))
        if isinstance(chosen, Infeasible):
            answer.refuse(chosen, output, asked.unused.sentences)
        plain = _without_geotrain(wanted, chosen)
        extras = _extras(wanted, chosen)
        front = _front(wanted) if objective == problem.Objective.PARETO else ()
    if output.is_text:
        wide = output == Output.WIDE
        more = (
            *reports.front_table(front),
            *pods.tables(wanted, chosen),
            *reports.notes(chosen),
            *wanted.unused.blocks,
        )
        screen.show(*reports.tables(chosen, plain, extras, wide=wide), *more, wide=wide)
    else:
        document = reports.document(chosen, plain, front) | pods.document(wanted, chosen)
        document |= reports.extra_document(extras) | wanted.unused.document
        notes = [*chosen.notes, *wanted.unused.notes]
        answer.print_document({**document, "notes": notes}, output)
    if grid:
        typer.echo(screen.fitted(lambda columns: render.time_grid(chosen, columns)))
    answer.write_files(chosen, csv, trace, gantt or [])


def _extras(asked: problem.Problem, chosen: Plan) -> reports.Extras:
    """Memory and idle GPUs; more degrees are tried where another tensor group would find room."""
    topology, workload = asked.topology, asked.workload
    left = idle(topology, workload, chosen.placement)
    is_room = any(each.gpus >= workload.tensor for each in left)
    more = better(topology, workload, chosen) if is_room else None
    return reports.Extras(
        footprints(topology, workload, chosen), utilisation(asked, chosen), left, more
    )


def _front(asked: problem.Problem) -> tuple[Outcome, ...]:
    """The placements that nobody beats in both throughput and price."""
    return pareto_front(asked.topology, asked.workload)


def _without_geotrain(asked: problem.Problem, chosen: Plan) -> Plan | None:
    """The same placement under 1F1B, one connection a pair and no turns."""
    plain = choose(asked.topology, at(baseline(asked.workload), chosen.placement))
    return plain if isinstance(plain, Plan) else None
