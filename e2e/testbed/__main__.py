"""The test bed: three Kubernetes clusters on one machine, joined by an emulated WAN."""

import sys
from typing import Annotated

import typer
from rich.table import Table

from e2e.testbed import clusters, cpuwatch, docker, images, places, prepare, programs
from e2e.testbed.config import load
from e2e.testbed.shell import TestbedError, console
from geotrain.errors import GeotrainError

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)


@app.command()
def up() -> None:
    """Bring the three clusters up, or repair them; at once when they are."""
    clusters.up(load())


@app.command()
def down() -> None:
    """Remove the clusters; what was built stays in the cache."""
    clusters.down(load())


@app.command()
def status() -> None:
    """Show each cluster and what runs beside it."""
    bed = load()
    table = Table(box=None, header_style="bold", pad_edge=False)
    rows = clusters.status(bed)
    table.add_column("")
    for name in rows:
        table.add_column(f"{name} (hub)" if bed[name].hub else name)
    for what in next(iter(rows.values())):
        table.add_row(what, *(state[what] for state in rows.values()))
    console.print(table)
    console.print(clusters.window_note(bed))


@app.command(name="programs")
def build_programs(names: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Build the Kubernetes programs that are not in the cache: all, or those named."""
    unknown = set(names or ()) - set(programs.PROGRAMS)
    if unknown:
        raise TestbedError(f"no program {', '.join(sorted(unknown))}")
    programs.ensure(names or programs.TESTS)
    console.print(f"all programs are in {places.PROGRAMS}")


@app.command(name="images")
def build_images() -> None:
    """Build geotrain's images where their inputs changed."""
    docker.start()
    prepare.together([images.trainer, images.operator])


@app.command()
def build() -> None:
    """Make all programs and images that are missing, those of the tests too."""
    prepare.build(programs.TESTS)


@app.command()
def ready() -> None:
    """Make all that is missing, bring the clusters up and put geotrain's images into them."""
    prepare.bed(load())


@app.command(name="load")
def load_images() -> None:
    """Put geotrain's images into the nodes that lack them."""
    images.load(load())


@app.command()
def dockerd() -> None:
    """Start the docker daemon where none runs and this user may."""
    docker.start()


@app.command()
def watch_cpu(every: float) -> None:
    """Sample the CPUs for ever (started by `up`)."""
    cpuwatch.watch(every)


def main() -> None:
    """Runs the command; what went wrong is one sentence."""
    try:
        app()
    except GeotrainError as error:
        console.print(f"[red]✗[/] {error}", markup=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
