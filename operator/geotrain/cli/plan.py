"""``geotrain plan``: where a job would run, how fast, and why not otherwise. Needs no cluster."""

from typing import Annotated

import typer

from geotrain.cli import answer, pods, problem, reports, scope, screen
from geotrain.cli.answer import Output
from geotrain.model.decision import Infeasible
from geotrain.model.plan import Plan
from geotrain.planning.placement.choose import at, baseline, choose
from geotrain.planning.placement.pareto import pareto
from geotrain.planning.placement.what_if import Outcome, what_if
from geotrain.planning.schedule import render


def plan(
    files: problem.Files,
    topology: problem.Places = None,
    context: problem.Context = None,
    kubeconfig: scope.Kubeconfig = None,
    request_timeout: scope.RequestTimeout = None,
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
    hub = scope.of(context=context, kubeconfig=kubeconfig, timeout=request_timeout)
    asked = problem.read(problem.Given(files, topology, hub), profile, job, calibration)
    wanted = problem.wished(asked, objective)
    with screen.progress("planning"):
        chosen = choose(wanted.topology, wanted.workload, jitter=problem.jitter(jitter))
        if isinstance(chosen, Infeasible):
            answer.refuse(chosen, output)
        plain = _without_geotrain(wanted, chosen)
        front = _front(wanted) if objective == problem.Objective.PARETO else ()
    if output.is_text:
        most = reports.MOST_LOSERS if output == Output.TABLE else None
        more = (*reports.front_table(front), *pods.tables(wanted, chosen))
        screen.show(*reports.tables(chosen, plain, most), *more, wide=output == Output.WIDE)
    else:
        document = reports.document(chosen, plain, front) | pods.document(wanted, chosen)
        answer.print_document(document, output)
    if grid:
        typer.echo(screen.fitted(lambda columns: render.time_grid(chosen, columns)))
    answer.write_files(chosen, csv, trace, gantt or [])


def _front(asked: problem.Problem) -> tuple[Outcome, ...]:
    """The placements that nobody beats in both throughput and price."""
    return pareto(what_if(asked.topology, asked.workload))


def _without_geotrain(asked: problem.Problem, chosen: Plan) -> Plan | None:
    """The same placement under 1F1B, one connection a pair and no turns."""
    plain = choose(asked.topology, at(baseline(asked.workload), chosen.placement))
    return plain if isinstance(plain, Plan) else None
