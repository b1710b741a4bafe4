"""The hub as a source of topologies: DataCenters, WanLinks and a job's profile, as they are now."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Protocol

from geotrain.adapters import kubeconfigs
from geotrain.adapters.cluster import HttpCluster
from geotrain.api.objects import CONFIG_MAPS, DATA_CENTERS, WAN_LINKS, ApiResource, Object
from geotrain.cli import manifests
from geotrain.cli.manifests import Manifests
from geotrain.errors import InputError, NotFound


class Hub(Protocol):
    """The part of a Kubernetes API that is read. ``geotrain.adapters.cluster`` satisfies it."""

    async def get(self, resource: ApiResource, namespace: str, name: str) -> Object:
        """Read one object; NotFound when there is none."""
        ...

    async def list(
        self, resource: ApiResource, namespace: str = "", selector: str = ""
    ) -> Sequence[Object]:
        """Read all objects; NotFound when the kind is unknown."""
        ...


def look(context: str | None, config_map: tuple[str, str] | None) -> Manifests:
    """Read the hub behind a context of the user's kubeconfig, by default the current one."""
    paths = kubeconfigs.files()
    name = kubeconfigs.current(paths) if context is None else context
    credentials = kubeconfigs.credentials(kubeconfigs.context(paths, name))
    return asyncio.run(_look(HttpCluster(credentials), f"context {name}", config_map))


async def _look(cluster: HttpCluster, place: str, config_map: tuple[str, str] | None) -> Manifests:
    try:
        return await read(cluster, place, config_map)
    finally:
        await cluster.close()


async def read(hub: Hub, place: str, config_map: tuple[str, str] | None) -> Manifests:
    """All data centres and links, and the ConfigMap (namespace, name) where one is asked for.

    A ConfigMap that does not exist is left out, so that the caller says who needs it. Raises
    InputError where geotrain is not installed, and ClusterError where the hub does not answer.
    """
    found: list[Object] = []
    try:
        for resource in (DATA_CENTERS, WAN_LINKS):
            items = await hub.list(resource)
            found += [{"apiVersion": resource.api_version, "kind": resource.kind, **item}
                      for item in items]  # fmt: skip
    except NotFound as error:
        raise InputError(f"{place}: geotrain is not installed there, or it is no hub") from error
    if config_map is not None:
        with contextlib.suppress(NotFound):
            found.append(await hub.get(CONFIG_MAPS, *config_map))
    return manifests.collect((place, each) for each in found)
