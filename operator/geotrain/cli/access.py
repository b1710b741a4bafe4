"""Clusters as a person reaches them: contexts of the kubeconfig, opened for a while."""

import asyncio
import signal
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final, TypeVar

import typer

from geotrain.adapters import kubeconfigs
from geotrain.adapters.cluster import HttpCluster
from geotrain.adapters.credentials import Credentials
from geotrain.cli import membership, sources

HubContext = Annotated[
    str | None,
    typer.Option(
        help="Context of the hub in your kubeconfig; absent: the current one.",
        autocompletion=sources.contexts,
    ),
]
"""For commands whose --context is the member's."""
Namespace = Annotated[str, typer.Option(help="Namespace of geotrain in all clusters.")]
NAMESPACE: Final = membership.SYSTEM_NAMESPACE
INTERRUPTED: Final = 130
"""Exit code after Ctrl-C or SIGTERM, as of a shell."""

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end; after Ctrl-C or SIGTERM what was started is cleaned up before the exit."""

    async def guarded() -> T:
        task = asyncio.current_task()
        assert task is not None, "asyncio.run made one"
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work

    try:
        return asyncio.run(guarded())
    except (asyncio.CancelledError, KeyboardInterrupt):
        typer.echo("interrupted; nothing that was started for it is left", err=True)
        raise typer.Exit(INTERRUPTED) from None


@asynccontextmanager
async def opened(credentials: Credentials) -> AsyncIterator[HttpCluster]:
    """A cluster's API for the length of the block."""
    cluster = HttpCluster(credentials)
    try:
        yield cluster
    finally:
        await cluster.close()


def named(name: str | None) -> tuple[str, dict[str, Any]]:
    """A context of the person's kubeconfig, by default the current one: its name, and it alone.

    Raises CredentialsError where there is none.
    """
    paths = kubeconfigs.files()
    if name is None:
        name = kubeconfigs.current(paths)
    return name, kubeconfigs.context(paths, name)


def hub(context: str | None) -> Credentials:
    """How a person logs into the hub. Raises CredentialsError as ``named`` does."""
    return kubeconfigs.credentials(named(context)[1])
