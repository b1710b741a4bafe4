"""``geotrain version``: of this command, and of the controller where a hub answers."""

import asyncio
from typing import Annotated

import typer

from geotrain import __version__
from geotrain.cli import answer, scope
from geotrain.cli.answer import Document
from geotrain.cli.scope import Scope
from geotrain.errors import GeotrainError


@scope.scoped({**scope.HUB, "request_timeout": (scope.RequestTimeout, "3s")})
def version(
    wanted: Scope,
    client: Annotated[bool, typer.Option("--client", help="Of this command alone.")] = False,
    output: answer.DocumentForm = Document.TEXT,
) -> None:
    """Print the version of this command and of the hub's controller."""
    found = {"client": __version__}
    if not client:
        try:
            found |= _hub(wanted)
        except GeotrainError:
            if wanted.context is not None or wanted.kubeconfig is not None:
                raise  # it was asked for; else the hub's version is a courtesy
    if output == Document.TEXT:
        typer.echo(found.pop("client"))
        for name, text in found.items():
            typer.echo(f"{name} {text or 'unknown'}")
    else:
        answer.print_document(found, output)


def _hub(wanted: Scope) -> dict[str, str]:
    from geotrain.cli import hub

    async def asked() -> dict[str, str]:
        async with hub.session(wanted) as session:
            return {
                "controller": await hub.controller_version(session),
                "kubernetes": await session.cluster.version(),
            }

    return asyncio.run(asked())
