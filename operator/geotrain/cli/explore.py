"""``geotrain explore``: the best parallel layout of a model on a tiered network, and why."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from geotrain.api.exploration import exploration, of_job
from geotrain.api.v1alpha1 import GeoTrainingJob
from geotrain.cli import answer, pods, problem, recommendation, scope, screen, texts
from geotrain.cli import explore_reports as reports
from geotrain.cli.exits import NO
from geotrain.cli.manifests import Manifests
from geotrain.cli.recommendation import Case
from geotrain.cli.scope import Scope
from geotrain.cli.tables import Style
from geotrain.cli.unused import Unused
from geotrain.errors import InputError
from geotrain.model.decision import Infeasible
from geotrain.planning.explore import report as planning
from geotrain.planning.explore.report import Report
from geotrain.planning.explore.search import Allowance
from geotrain.planning.placement.choose import choose
from geotrain.units import format_duration, parse_duration


class Output(StrEnum):
    """How the answer is printed; ``job`` is a manifest."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    JOB = "job"

    @property
    def is_text(self) -> bool:
        """Whether people read it."""
        return self in (Output.TABLE, Output.WIDE)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is to be explored: one case, or of a job one for each set of data centres."""

    cases: Sequence[Case]
    unused: Unused = field(default_factory=Unused)
    job: tuple[Manifests, GeoTrainingJob] | None = None


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
    output: Annotated[
        Output,
        typer.Option(
            "--output",
            "-o",
            help="Form; wide leaves nothing out and breaks no line, job is the job with the best"
            " layout that a job can express, to apply.",
        ),
    ] = Output.TABLE,
) -> None:
    """Search degrees, placement, schedule, micro-batch, recompute and transport jointly."""
    allowance = Allowance(should_stop=_deadline(budget))
    asked = _asked(problem.Given(files, topology, hub), job)
    with screen.progress(f"searching layouts, at most {budget}"):
        if output == Output.JOB:
            text = "\n".join(_recommended(asked, allowance))
        else:
            found = [
                (names, planning.explore(case, given, allowance))
                for names, case, given in asked.cases
            ]
    if output == Output.JOB:
        typer.echo(text, nl=False)
    else:
        _print(asked, found, output)


def _print(asked: _Asked, found: Sequence[tuple[reports.Names, Report]], output: Output) -> None:
    names, best = min(found, key=lambda each: _seconds(each[1]))
    others = {other: report for other, report in found if other != names}
    if output.is_text:
        wide = output == Output.WIDE
        most = None if wide else reports.MOST_PAIRS
        where = reports.regions(names, others)
        screen.show(*reports.tables(best, most), *where, *asked.unused.blocks, wide=wide)
    else:
        document = reports.document(best, names, others)
        answer.print_document({**document, **asked.unused.document}, output)
    if not best.best:
        raise typer.Exit(NO)


def _seconds(report: Report) -> float:
    return report.best[0].seconds if report.best else float("inf")


def _recommended(asked: _Asked, allowance: Allowance) -> Iterator[str]:
    """The manifest, with remarks above it. Exits where no job can express what fits."""
    if asked.job is None:
        raise InputError("-o job needs a job in -f: an exploration says nothing of its pods")
    found, job = asked.job
    best = recommendation.recommend(asked.cases, allowance)
    if best.found is None:
        screen.tell("no layout that a job can express fits", "no job: ", Style.BAD)
        for remark in best.remarks:
            screen.tell(remark, "  ", Style.BAD)
        raise typer.Exit(NO)
    layout = best.found.layout
    manifest = recommendation.manifest(job, found.data_centers, best.data_centers, layout)
    planned = _planned(found, GeoTrainingJob.from_manifest(manifest))
    explored = format_duration(best.found.seconds)
    yield f"# By geotrain explore {explored} an iteration, {planned}."
    remarks = (*best.remarks, *recommendation.replaced(job, layout), *asked.unused.sentences)
    # A path among them may hold what ends a comment.
    yield from (f"# {' '.join(remark.split())}." for remark in remarks)
    yield answer.yaml_text(manifest)


def _planned(found: Manifests, job: GeoTrainingJob) -> str:
    """What geotrain plan makes of the job. Exits with its reasons where that is nothing."""
    if found.missing_profile(job, None):
        return "geotrain plan needs the profile that profileRef names"
    chosen = choose(found.topology(job), found.workload(job, None))
    if isinstance(chosen, Infeasible):
        answer.refuse(chosen, answer.Output.TABLE)
    return f"by geotrain plan {format_duration(chosen.iteration)} under {chosen.schedule}"


def _asked(given: problem.Given, job: str | None) -> _Asked:
    document = _exploration(given.files)
    if document is not None:
        if given.places or given.hub.context or job:
            raise InputError(
                "--topology, --hub-context and --job belong to a job, but -f gives an exploration"
            )
        return _Asked([((), *exploration(document))])
    found, chosen = problem.gather(given, None, job)
    fitting, notes = pods.fitting(found, chosen)
    topology = fitting.topology(chosen)
    spread = of_job(chosen, topology, fitting.data_centers, fitting.calibrated(chosen))
    cases = [(region.data_centers, asked, layout) for region, asked, layout in spread]
    return _Asked(cases, problem.unused(found, notes), (fitting, chosen))


def _exploration(files: list[Path]) -> Mapping[str, Any] | None:
    """The exploration, where the only file holds nothing else."""
    if len(files) != 1 or texts.is_folder(files[0]):
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
