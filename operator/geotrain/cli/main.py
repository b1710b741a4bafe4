"""The ``geotrain`` command: every subcommand is a function of a module beside this one."""

import gc
from collections.abc import Callable
from typing import Any, Final

import typer
from rich.console import Console
from typer.core import TyperGroup

from geotrain import __version__
from geotrain.cli import explore, plan, schedule, timeline, topology
from geotrain.errors import GeotrainError

FAULT: Final = 2
"""Exit code of a wrong input or a failed call, as of wrong options."""


def _join() -> Callable[..., Any]:
    from geotrain.cli.join import join  # the Kubernetes client takes half a second to import

    return join


def _leave() -> Callable[..., Any]:
    from geotrain.cli.leave import leave

    return leave


def _doctor() -> Callable[..., Any]:
    from geotrain.cli.doctor import doctor

    return doctor


_HEAVY: Final = {"join": _join, "leave": _leave, "doctor": _doctor}
"""Commands whose module is imported when they are asked for, so that the others start at once."""


class _Commands(TyperGroup):
    """Any stands for click's types, of which typer carries a copy from some version on."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *_HEAVY]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in _HEAVY:
            return super().get_command(ctx, cmd_name)
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        alone.command(cmd_name)(_HEAVY[cmd_name]())
        return typer.main.get_command(alone)


app = typer.Typer(
    name="geotrain",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("plan")(plan.plan)
app.command("explore")(explore.explore)
app.command("timeline")(timeline.timeline)
app.add_typer(topology.app, name="topology")
app.command("schedule")(schedule.schedule)


@app.callback()
def options() -> None:
    """Train one model across several Kubernetes clusters."""


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def main() -> None:
    """Run the command; what geotrain raises on purpose becomes one sentence and exit code 2."""
    # A search makes many small objects that live to its end: to look through them for cycles all
    # the time would be a sixth of its own.
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    try:
        app()
    except GeotrainError as error:
        console = Console(stderr=True)
        console.print("[bold red]error:[/]", end=" ")
        console.print(str(error), markup=False, highlight=False, soft_wrap=True)
        raise SystemExit(FAULT) from None
