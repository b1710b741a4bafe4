"""The ``geotrain`` command, also ``kubectl geo``: every subcommand is a function of a module here.

A command's module is imported when it is asked for: together they take a second, and help and
completion need none of them.
"""

import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, TextIO

import typer
from typer.core import TyperCommand, TyperGroup

from geotrain import __version__
from geotrain.cli import exits, params, screen
from geotrain.cli.examples import EXAMPLES
from geotrain.cli.tables import Style
from geotrain.errors import GeotrainError

COMMANDS: Final = {
    "calibrate": (
        "calibrate",
        "Fit an accelerator's shares to measured iterations, and say how far off others are.",
    ),
    "completion": ("completion", "Print the script by which a shell completes this command."),
    "costs": (
        "costs",
        "Show a stage's time and memory by part, where they are from, and the use of the GPUs.",
    ),
    "doctor": (
        "doctor",
        "Check a whole installation: 0 all is well, 1 something is wrong, 2 it could not be seen.",
    ),
    "explain": ("explain", "Say why a job is pending, why it runs where it does, why it is slow."),
    "explore": (
        "explore",
        "Search degrees, placement, schedule, micro-batch, recompute and transport jointly.",
    ),
    "join": ("join", "Check a cluster and register it at the hub as a data centre."),
    "leave": (
        "leave",
        "Take a data centre away from the hub, with all that geotrain has in its cluster.",
    ),
    "links": ("links", "List the wide-area links: rates, round trips, who has reserved what."),
    "logs": ("logs", "Print the logs of a job's ranks, wherever they run."),
    "plan": (
        "plan",
        "Choose where a job's stages run and in which order, and replay it exactly.",
    ),
    "schedule": (
        "schedule",
        "Make a schedule from integers and times, or take one from a file, and replay it exactly.",
    ),
    "timeline": (
        "timeline",
        "Show when every rank computes and waits, and when each flow crosses the wide area.",
    ),
    "top": ("top", "Show what jobs, prefill pools or data centres do now."),
    "topology": (
        "topology",
        "Topologies are manifests of DataCenters and WanLinks, for geotrain plan --topology.",
    ),
    "version": ("version", "Print the version of this command and of the hub's controller."),
}
"""Command → module beside this one, which has a function or a group of that name, and its help."""

COMPLETE: Final = "__complete"
"""Asked by shells: what may come next. Not in the help."""


class _Commands(TyperGroup):
    """Any stands for click's types, of which typer carries a copy from some version on."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"geotrain.cli.{COMMANDS[cmd_name][0]}")
        if cmd_name == "topology":
            return typer.main.get_command(module.app)
        alone = typer.Typer(**_PLAIN)
        alone.command(cmd_name, cls=_Command)(getattr(module, cmd_name))
        return params.named(typer.main.get_command(alone))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, said) for name, (_, said) in sorted(COMMANDS.items())])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), said) for code, said in exits.MEANINGS.items()])

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """The help is printed here."""
        with _broken_pipe():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        with _broken_pipe():
            return super().invoke(ctx)


@contextmanager
def _broken_pipe() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise typer.Exit(exits.BROKEN_PIPE) from None


class _Command(TyperCommand):
    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        _write_examples(self.name or "", ctx, formatter)
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), said) for code, said in exits.MEANINGS.items()])


def _write_examples(command: str, ctx: Any, formatter: Any) -> None:
    """As the command was called; an example is never broken, so that it can be copied."""
    called = ctx.find_root().info_name or "geotrain"
    with formatter.section("Examples"):
        for said, example in EXAMPLES.get(command, ()):
            formatter.write(f"  # {said}\n  {example.replace('geotrain ', f'{called} ', 1)}\n")


_PLAIN: Final[dict[str, Any]] = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}

app = typer.Typer(name="geotrain", cls=_Commands, no_args_is_help=True, **_PLAIN)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Train one model across several Kubernetes clusters."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command; what geotrain raises on purpose becomes one sentence and exit code 2."""
    # A search makes many small objects that live to its end: to look through them for cycles all
    # the time would be a sixth of its own.
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    for stream in (sys.stdout, sys.stderr):
        _make_tolerant(stream)
    raise SystemExit(_run(sys.argv[1:] if arguments is None else arguments))


def program(path: str) -> str:
    """The name by which the command was called: ``kubectl geo`` as a plugin of kubectl."""
    name = Path(path).name.removesuffix(".exe").replace("_", "-")
    return "kubectl geo" if name.startswith("kubectl-") else "geotrain"


def _run(arguments: list[str]) -> int:
    """The exit code."""
    code: Any = exits.FINE
    try:
        if arguments[:1] == [COMPLETE]:
            from geotrain.cli.completion import answer

            answer(arguments[1:])
        else:
            app(arguments, prog_name=program(sys.argv[0]))
    except GeotrainError as error:
        screen.tell(str(error), "error: ", Style.BAD)
        code = exits.FAULT
    except KeyboardInterrupt:
        code = exits.INTERRUPTED
    except BrokenPipeError:
        code = exits.BROKEN_PIPE
    except SystemExit as ended:
        code = ended.code or exits.FINE
    return _flushed(code)


def _flushed(code: int) -> int:
    """Write out what is left, which nobody may want any more."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = exits.BROKEN_PIPE
    if code == exits.BROKEN_PIPE:  # the interpreter flushes once more at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _make_tolerant(stream: TextIO) -> None:
    """Let characters that a terminal does not know become question marks."""
    reconfigure: Callable[..., None] | None = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")
