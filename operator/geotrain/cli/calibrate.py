"""``geotrain calibrate``: what training reaches of an accelerator, from measured iterations."""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from geotrain.api import calibrations, measured_runs
from geotrain.cli import screen, texts
from geotrain.cli.tables import Block, Prose, lines, table
from geotrain.errors import InputError
from geotrain.model.topology import Lan
from geotrain.planning.costs import accelerators
from geotrain.planning.costs.calibrations import Residual
from geotrain.planning.explore import fitting
from geotrain.planning.explore.fitting import Cluster, Run
from geotrain.units import format_rate, parse_rate

FEWEST: Final = 6
"""Rows that constants are fitted to; there are five of them."""


def calibrate(
    measured: Annotated[
        Path, typer.Argument(metavar="CSV", help="Measured iterations (docs/costs.md), or -.")
    ],
    accelerator: Annotated[str, typer.Option(help="What they were measured on, like A100.")],
    source: Annotated[str, typer.Option(help="Where the measurements are from.")],
    licence: Annotated[str, typer.Option(help="Their licence.")] = "not published",
    pod_rate: Annotated[
        str | None,
        typer.Option(
            help="What one pod reached of another, like 400G, as spec.network.podRate; fitted too"
            " where it is left out."
        ),
    ] = None,
    hold_out: Annotated[
        int,
        typer.Option(
            min=2, max=100, help="Every so many rows, from the first on, test the constants."
        ),
    ] = 3,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write (default: print it).")
    ] = None,
) -> None:
    """Fit an accelerator's shares to measured iterations, and say how far off others are."""
    rows = measured_runs.runs(texts.text_of(measured), str(measured))
    held, fitted = rows[::hold_out], [r for n, r in enumerate(rows) if n % hold_out]
    if len(fitted) < FEWEST:
        raise InputError(
            f"{measured} has {len(rows)} rows; with one in {hold_out} held out {len(fitted)} are"
            f" left to fit five constants to, and it takes {FEWEST}"
        )
    start = _start(accelerator, pod_rate)
    with screen.progress("fitting"):
        found = fitting.fit(fitted, start, pod_rate=pod_rate is None)
        residual = fitting.residual(held, found)
        own = fitting.residual(fitted, found)
    calibration = replace(
        found.device.calibration, source=source, licence=licence, residual=residual
    )
    said = f"{len(fitted)} of {len(rows)} rows, all but one in {hold_out} from the first on"
    text = json.dumps(calibrations.document(calibration, said), indent=2) + "\n"
    blocks = _errors(held, found, residual, own)
    screen.emit(lines(blocks, screen.width()), sys.stderr if output is None else sys.stdout)
    if output is None:
        typer.echo(text, nl=False)
    else:
        _write(output, text)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from error


def _start(accelerator: str, pod_rate: str | None) -> Cluster:
    one = accelerators.named(accelerator, "--accelerator")
    try:
        rate = Lan().rate if pod_rate is None else parse_rate(pod_rate)
        return Cluster(fitting.plain(calibrations.usual(one)), Lan(rate))
    except ValueError as error:
        raise InputError(f"--pod-rate: {error}") from error


def _errors(
    held: Sequence[Run], found: Cluster, residual: Residual, own: Residual
) -> tuple[Block, ...]:
    """The residual of what was held out beside that of what was fitted, and the worst row."""
    errors = table("Error of predicted iterations", "rows", "count", "median", "90th percentile")
    for name, each in (("held out", residual), ("fitted", own)):
        errors.add(name, str(each.rows), f"{each.median:.1%}", f"{each.p90:.1%}")
    worst = max(held, key=lambda run: abs(fitting.error(run, found)))
    off = fitting.error(worst, found)
    degrees = worst.layout.degrees
    return (
        errors,
        Prose(
            f"worst held out: {off:+.1%}, tensor {degrees.tensor} x pipeline {degrees.pipeline} x"
            f" data {degrees.data}, micro-batch {worst.layout.micro_batch}"
        ),
        Prose(f"these constants go with spec.network.podRate: {format_rate(found.lan.rate)}"),
    )
