"""The ``geotrain`` command: every subcommand is a function of a module beside this one."""

import typer
from rich.console import Console

from geotrain import __version__
from geotrain.cli import plan
from geotrain.errors import GeotrainError

FAULT = 2
"""Exit code of a wrong input or a failed call, as of wrong options."""

app = typer.Typer(
    name="geotrain",
    help="Train one model across several Kubernetes clusters.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("plan")(plan.plan)


@app.callback()
def options() -> None:
    """Train one model across several Kubernetes clusters."""


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def main() -> None:
    """Run the command; what geotrain raises on purpose becomes one sentence and exit code 2."""
    try:
        app()
    except GeotrainError as error:
        console = Console(stderr=True)
        console.print("[bold red]error:[/]", end=" ")
        console.print(str(error), markup=False, highlight=False, soft_wrap=True)
        raise SystemExit(FAULT) from None
