"""``geotrain explore``: the best parallel layout of a model on a tiered network, and why."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from geotrain.api.exploration import exploration, of_job
from geotrain.cli import answer, problem, scope, screen, texts
from geotrain.cli import explore_reports as reports
from geotrain.cli.answer import Output
from geotrain.cli.exits import NO
from geotrain.errors import InputError
from geotrain.planning.explore import report as planning
from geotrain.planning.explore.layouts import Layout
from geotrain.planning.explore.report import Report
from geotrain.planning.explore.search import Allowance
from geotrain.planning.explore.steps import Problem
from geotrain.units import parse_duration

_Case = tuple[tuple[str, ...], Problem, Layout]
"""Names of the data centres (none for an exploration), what is asked, and the given layout."""


def explore(
    files: Annotated[
        list[Path],
        typer.Option(
            "--file",
            "-f",
            help="An exploration (model, network, layout), or manifests with a job; or -.",
        ),
    ],
    topology: problem.Places = None,
    context: problem.Context = None,
    kubeconfig: scope.Kubeconfig = None,
    request_timeout: scope.RequestTimeout = None,
    job: problem.JobName = None,
    budget: Annotated[str, typer.Option(help="How long to search at most, like 30s.")] = "30s",
    output: answer.Form = Output.TABLE,
) -> None:
    """Search degrees, placement, schedule, micro-batch, recompute and transport jointly."""
    should_stop = _deadline(budget)
    hub = scope.of(context=context, kubeconfig=kubeconfig, timeout=request_timeout)
    cases = _cases(problem.Given(files, topology, hub), job)
    with screen.progress(f"searching layouts, at most {budget}"):
        found = [
            (names, planning.explore(asked, given, Allowance(should_stop=should_stop)))
            for names, asked, given in cases
        ]
    names, best = min(found, key=lambda each: _seconds(each[1]))
    others = {other: report for other, report in found if other != names}
    if output.is_text:
        wide = output == Output.WIDE
        most = None if wide else reports.MOST_PAIRS
        screen.show(*reports.tables(best, most), *reports.regions(names, others), wide=wide)
    else:
        answer.print_document(reports.document(best, names, others), output)
    if not best.best:
        raise typer.Exit(NO)


def _seconds(report: Report) -> float:
    return report.best[0].seconds if report.best else float("inf")


def _cases(given: problem.Given, job: str | None) -> list[_Case]:
    document = _exploration(given.files)
    if document is not None:
        if given.places or given.hub.context or job:
            raise InputError(
                "--topology, --context and --job belong to a job, but -f gives an exploration"
            )
        return [((), *exploration(document))]
    found, chosen = problem.gather(given, None, job)
    spread = of_job(chosen, found.topology(chosen), found.data_centers, found.calibrated(chosen))
    return [(region.data_centers, asked, layout) for region, asked, layout in spread]


def _exploration(files: list[Path]) -> Mapping[str, Any] | None:
    """The exploration, where the only file holds nothing else."""
    if len(files) != 1 or files[0].is_dir():
        return None
    found = texts.load(files[0])
    if len(found) == 1 and isinstance(found[0], Mapping) and "kind" not in found[0]:
        return found[0]
    if str(files[0]) == "-":
        raise InputError("- must hold one exploration: a mapping with model and network")
    return None


def _deadline(budget: str) -> Callable[[], bool]:
    try:
        seconds = parse_duration(budget)
    except ValueError as error:
        raise InputError(f"--budget: {error}") from error
    if not seconds:
        raise InputError(f"--budget is {budget}; give the search some time, like 30s")
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end
