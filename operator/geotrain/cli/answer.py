"""How a plan, or the reasons why there is none, reach the user: text, documents and files."""

import json
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer
import yaml

from geotrain.cli import screen
from geotrain.cli.exits import FAULT, NO
from geotrain.cli.tables import Style
from geotrain.errors import InputError
from geotrain.model.decision import Infeasible, NoPlan
from geotrain.model.plan import Plan
from geotrain.planning.schedule import actions, traces
from geotrain.units import Seconds, parse_duration

_DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_CONTRADICTIONS: Final = {
    NoPlan.INVALID_PARALLELISM,
    NoPlan.UNKNOWN_DATA_CENTER,
    NoPlan.NO_DATA_CENTERS,
    NoPlan.LINK_MISSING,
}


class Output(StrEnum):
    """How the answer is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"

    @property
    def is_text(self) -> bool:
        """Whether people read it."""
        return self in (Output.TABLE, Output.WIDE)


class Listing(StrEnum):
    """How a list of objects is printed; ``name`` gives names for ``kubectl get``."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"

    @property
    def is_text(self) -> bool:
        """Whether people read it."""
        return self in (Listing.TABLE, Listing.WIDE)


class Document(StrEnum):
    """How what is no table is printed."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


DocumentForm = Annotated[Document, typer.Option("--output", "-o", help="Form.")]
Form = Annotated[
    Output,
    typer.Option("--output", "-o", help="Form; wide leaves nothing out and breaks no line."),
]
ListForm = Annotated[
    Listing,
    typer.Option("--output", "-o", help="Form; wide has more columns, name is for kubectl get."),
]
Columns = Annotated[
    int | None,
    typer.Option(
        min=10, max=10_000, help="Width of the grid; absent: that of the terminal, else 100."
    ),
]
Csv = Annotated[
    Path | None, typer.Option(help="Write the order as torch.distributed.pipelining CSV.")
]
Trace = Annotated[Path | None, typer.Option(help="Write a trace for Chrome or Perfetto (JSON).")]
Gantt = Annotated[
    list[Path] | None,
    typer.Option(
        help="Draw the iteration: .html is a page to zoom in, .png, .svg and .pdf are pictures;"
        " may be repeated."
    ),
]


def print_document(content: Mapping[str, object], output: StrEnum) -> None:
    """Print JSON or YAML. Both are the same document."""
    if output.value == Output.JSON.value:
        typer.echo(json.dumps(content, indent=2, allow_nan=False))
    else:
        typer.echo(yaml.dump(content, Dumper=_DUMPER, sort_keys=False), nl=False)


def duration(option: str, text: str) -> Seconds:
    """An option's time, above 0. Raises InputError that names the option."""
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise InputError(f"{option}: {error}") from error
    if not seconds:
        raise InputError(f"{option} is {text}; give a time above 0")
    return seconds


def age(seconds: Seconds) -> str:
    """A time that has passed, as kubectl writes it: 5s, 3m, 2h, 4d."""
    left = max(0, int(seconds))
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if left >= 2 * size:
            return f"{left // size}{unit}"
    return f"{left}s"


def refuse(answer: Infeasible, output: Output) -> NoReturn:
    """Print the reasons, a sentence each, and exit."""
    if output.is_text:
        for number, reason in enumerate(answer.reasons):
            lead = "no plan: " if number == 0 else "  "
            screen.tell(f"{reason.code} {reason.sentence}", lead, Style.BAD)
    else:
        reasons = [{"code": each.code.value, "sentence": each.sentence} for each in answer.reasons]
        print_document({"reasons": reasons}, output)
    wrong = answer.reasons[0].code in _CONTRADICTIONS
    raise typer.Exit(FAULT if wrong else NO)


def write_files(plan: Plan, csv: Path | None, trace: Path | None, gantt: Sequence[Path]) -> None:
    """Write what was asked for. Raises InputError that names the file."""
    if csv is not None:
        _write(csv, lambda: actions.write_order(plan.order))
    if trace is not None:
        _write(trace, lambda: json.dumps(traces.chrome_trace(plan), allow_nan=False))
    for path in gantt:
        _draw(plan, path)


def _draw(plan: Plan, path: Path) -> None:
    if path.suffix in (".html", ".htm"):
        from geotrain.cli.page import page

        _write(path, lambda: page(plan))
        return
    from geotrain.cli.gantt import draw  # matplotlib takes half a second to import

    try:
        draw(plan, path)
    except OSError as error:
        raise _unwritable(error, path) from error


def _write(path: Path, text: Callable[[], str]) -> None:
    try:
        path.write_text(text(), encoding="utf-8")
    except OSError as error:
        raise _unwritable(error, path) from error


def _unwritable(error: OSError, path: Path) -> InputError:
    return InputError(f"{path} cannot be written: {error.strerror}")
