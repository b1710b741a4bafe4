"""``geotrain explore``: the best parallel layout of a model on a tiered network, and why."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from geotrain.api.exploration import exploration, of_job
from geotrain.cli import answer, problem, scope, screen, texts
from geotrain.cli import explore_reports as reports
from geotrain.cli.answer import Output
from geotrain.cli.exits import NO
from geotrain.cli.scope import Scope
from geotrain.cli.unused import Unused
from geotrain.errors import InputError
from geotrain.planning.explore import report as planning
from geotrain.planning.explore.layouts import Layout
from geotrain.planning.explore.report import Report
from geotrain.planning.explore.search import Allowance
from geotrain.planning.explore.steps import Problem
from geotrain.units import parse_duration

_Case = tuple[tuple[str, ...], Problem, Layout]
"""Names of the data centres (none for an exploration), what is asked, and the given layout."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is to be explored: one case, or of a job one for each set of data centres."""

    cases: Sequence[_Case]
    unused: Unused = field(default_factory=Unused)


@scope.scoped(problem.HUB)
def explore(
    hub: Scope,
    files: Annotated[
        list[Path],
        typer.Option(
            "--file",
            "-f",
            help="An exploration (model, network, layout), or manifests with a job; or -.",
        ),
    ],
    topology: problem.Places = None,
    job: problem.JobName = None,
    budget: Annotated[str, typer.Option(help="How long to search at most, like 30s.")] = "30s",
    output: answer.Form = Output.TABLE,
) -> None:
    """Search degrees, placement, schedule, micro-batch, recompute and transport jointly."""
    should_stop = _deadline(budget)
    asked = _asked(problem.Given(files, topology, hub), job)
    with screen.progress(f"searching layouts, at most {budget}"):
        found = [
            (names, planning.explore(case, given, Allowance(should_stop=should_stop)))
            for names, case, given in asked.cases
        ]
    names, best = min(found, key=lambda each: _seconds(each[1]))
    others = {other: report for other, report in found if other != names}
    if output.is_text:
        wide = output == Output.WIDE
        most = None if wide else reports.MOST_PAIRS
        where = reports.regions(names, others)
        screen.show(*reports.tables(best, most), *where, *asked.unused.blocks, wide=wide)
    else:
        found_document = reports.document(best, names, others)
        answer.print_document({**found_document, **asked.unused.document}, output)
    if not best.best:
        raise typer.Exit(NO)


def _seconds(report: Report) -> float:
    return report.best[0].seconds if report.best else float("inf")


def _asked(given: problem.Given, job: str | None) -> _Asked:
    document = _exploration(given.files)
    if document is not None:
        if given.places or given.hub.context or job:
            raise InputError(
                "--topology, --hub-context and --job belong to a job, but -f gives an exploration"
            )
        return _Asked([((), *exploration(document))])
    found, chosen = problem.gather(given, None, job)
    spread = of_job(chosen, found.topology(chosen), found.accelerators)
    cases = [(region.data_centers, asked, layout) for region, asked, layout in spread]
    return _Asked(cases, problem.unused(found))


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
