"""``geotrain explore``: the best parallel layout of a model on a tiered network, and why."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from geotrain.api.exploration import exploration
from geotrain.cli import answer, manifests
from geotrain.cli import explore_reports as reports
from geotrain.cli.answer import NO_PLAN, Output
from geotrain.errors import InputError
from geotrain.planning.explore import report as planning
from geotrain.planning.explore.search import Allowance
from geotrain.units import parse_duration


def explore(
    file: Annotated[
        Path, typer.Option("--file", "-f", help="Model, network and given layout; or - for stdin.")
    ],
    budget: Annotated[str, typer.Option(help="How long to search at most, like 30s.")] = "30s",
    output: answer.Form = Output.TABLE,
) -> None:
    """Search degrees, placement, schedule, micro-batch, recompute and transport jointly."""
    problem, given = exploration(_document(file))
    found = planning.explore(problem, given, Allowance(should_stop=_deadline(budget)))
    if output == Output.TABLE:
        Console().print(*reports.tables(found))
    else:
        answer.print_document(reports.document(found), output)
    if not found.best:
        raise typer.Exit(NO_PLAN)


def _deadline(budget: str) -> Callable[[], bool]:
    try:
        seconds = parse_duration(budget)
    except ValueError as error:
        raise InputError(f"--budget: {error}") from error
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end


def _document(file: Path) -> Mapping[str, Any]:
    found = manifests.load(file)
    if len(found) != 1 or not isinstance(found[0], Mapping):
        raise InputError(f"{file} must hold one exploration: a YAML mapping with model and network")
    return found[0]
