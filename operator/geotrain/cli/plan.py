"""``geotrain plan``: where a job would run, how fast, and why not otherwise. Needs no cluster."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
import yaml
from rich.console import Console

from geotrain.cli import manifests, reports
from geotrain.errors import InputError
from geotrain.model.decision import Infeasible
from geotrain.model.plan import Plan
from geotrain.model.topology import Topology
from geotrain.model.workload import Workload
from geotrain.planning.placement.choose import at, baseline, choose
from geotrain.planning.schedule import actions, render

NO_PLAN = 1
"""Exit code where nothing fits; wrong input exits with 2."""


class Output(StrEnum):
    """How the answer is printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def plan(
    files: Annotated[
        list[Path],
        typer.Option(
            "--file", "-f", help="Manifests: the job, its profile's ConfigMap; file, folder or -."
        ),
    ],
    topology: Annotated[
        list[Path] | None,
        typer.Option(help="DataCenters and WanLinks; may also be among the files of -f."),
    ] = None,
    profile: Annotated[
        Path | None, typer.Option(help="Measured layer times, instead of the job's profileRef.")
    ] = None,
    job: Annotated[
        str | None, typer.Option(help="Which job, where the files hold several.")
    ] = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="Form.")] = Output.TABLE,
    grid: Annotated[bool, typer.Option(help="Print the schedule as stages over time.")] = False,
    csv: Annotated[
        Path | None, typer.Option(help="Write the order as torch.distributed.pipelining CSV.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Write a trace for Chrome or Perfetto (JSON).")
    ] = None,
    gantt: Annotated[Path | None, typer.Option(help="Draw the iteration as a PNG.")] = None,
) -> None:
    """Choose where a job's stages run and in which order, and replay it exactly."""
    found = manifests.read([*files, *(topology or [])])
    chosen_job = found.job(job)
    places = found.topology()
    workload = found.workload(chosen_job, profile)
    answer = choose(places, workload)
    if isinstance(answer, Infeasible):
        _print_infeasible(answer, output)
        raise typer.Exit(NO_PLAN)
    _print(answer, _without_geotrain(places, workload, answer), output)
    if grid:
        Console().print(render.time_grid(answer), markup=False, highlight=False, soft_wrap=True)
    _write_files(answer, csv, trace, gantt)


def _without_geotrain(places: Topology, workload: Workload, chosen: Plan) -> Plan | None:
    """The same placement under 1F1B, one connection a pair and no turns."""
    plain = choose(places, at(baseline(workload), chosen.placement))
    return plain if isinstance(plain, Plan) else None


def _print(chosen: Plan, plain: Plan | None, output: Output) -> None:
    if output == Output.TABLE:
        Console().print(*reports.tables(chosen, plain))
    else:
        _print_document(reports.document(chosen, plain), output)


def _print_infeasible(answer: Infeasible, output: Output) -> None:
    if output == Output.TABLE:
        console = Console(stderr=True)
        for number, reason in enumerate(answer.reasons):
            head = "[bold red]no plan:[/] " if number == 0 else "  "
            console.print(f"{head}[bold]{reason.code}[/]", end=" ")
            console.print(reason.sentence, markup=False, highlight=False, soft_wrap=True)
    else:
        reasons = [{"code": each.code, "sentence": each.sentence} for each in answer.reasons]
        _print_document({"reasons": reasons}, output)


def _print_document(content: dict[str, object], output: Output) -> None:
    if output == Output.JSON:
        typer.echo(json.dumps(content, indent=2))
    else:
        typer.echo(yaml.safe_dump(content, sort_keys=False), nl=False)


def _write_files(chosen: Plan, csv: Path | None, trace: Path | None, gantt: Path | None) -> None:
    try:
        if csv is not None:
            csv.write_text(actions.write_order(chosen.order), encoding="utf-8")
        if trace is not None:
            trace.write_text(json.dumps(render.chrome_trace(chosen)), encoding="utf-8")
        if gantt is not None:
            from geotrain.cli.gantt import draw  # matplotlib takes half a second to import

            draw(chosen, gantt)
    except OSError as error:
        raise InputError(f"{error.filename} cannot be written: {error.strerror}") from error
