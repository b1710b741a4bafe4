"""What a shell may offer for a value: names that are live in the kubeconfig and in the hub.

Whoever presses the tab key wants an answer soon or none: everything here is given up after a
moment, and every fault is silence.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final

from geotrain.units import Seconds

PATIENCE: Final[Seconds] = 2.0
JOBS_BY_CONTEXT: Final = ("context", "namespace", "kubeconfig", "all_namespaces")


def contexts(ctx: Any, incomplete: str) -> list[str]:
    """Contexts of the kubeconfig."""

    def listed() -> Iterable[str]:
        from geotrain.adapters import kubeconfigs

        return kubeconfigs.names(kubeconfigs.files(chosen=_scope(ctx).kubeconfig))

    return _offered(listed, incomplete)


def namespaces(ctx: Any, incomplete: str) -> list[str]:
    """Namespaces of the hub."""
    from geotrain.api.objects import NAMESPACES

    return _offered(lambda: _listed(ctx, NAMESPACES, ""), incomplete)


def jobs(ctx: Any, incomplete: str) -> list[str]:
    """Training jobs of the namespace."""
    from geotrain.api.objects import TRAINING_JOBS

    return _offered(lambda: _listed(ctx, TRAINING_JOBS, None), incomplete)


def data_centers(ctx: Any, incomplete: str) -> list[str]:
    """Data centres of the hub."""
    from geotrain.api.objects import DATA_CENTERS

    return _offered(lambda: _listed(ctx, DATA_CENTERS, ""), incomplete)


def members(ctx: Any, incomplete: str) -> list[str]:
    """DATACENTER=CONTEXT: first the one, then the other."""
    name, equals, _ = incomplete.partition("=")
    if equals:
        return _offered(lambda: [f"{name}={each}" for each in contexts(ctx, "")], incomplete)
    return [f"{each}=" for each in data_centers(ctx, incomplete)]


def _offered(listed: Callable[[], Iterable[str]], incomplete: str) -> list[str]:
    try:
        return sorted({each for each in listed() if each.startswith(incomplete)})
    except Exception:
        return []


def _listed(ctx: Any, resource: Any, namespace: str | None) -> list[str]:
    from geotrain.cli import hub

    async def names() -> list[str]:
        async with hub.session(_scope(ctx)) as session:
            space = session.namespace if namespace is None else namespace
            return [
                each["metadata"]["name"] for each in await session.cluster.list(resource, space)
            ]

    return asyncio.run(_soon(names()))


async def _soon(answer: Awaitable[list[str]]) -> list[str]:
    return await asyncio.wait_for(answer, PATIENCE)


def _scope(ctx: Any) -> Any:
    from geotrain.cli.scope import Scope

    given = {name: ctx.params.get(name) for name in JOBS_BY_CONTEXT}
    path = given["kubeconfig"]
    return Scope(
        context=given["context"],
        namespace=given["namespace"],
        all_namespaces=bool(given["all_namespaces"]),
        kubeconfig=Path(path) if path else None,
        timeout=PATIENCE,
    )
