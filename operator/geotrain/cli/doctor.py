"""``geotrain doctor``: look at a whole installation, and say what to do about what is wrong."""

import asyncio
import contextlib
import json
import time
from collections.abc import Iterable, Mapping
from enum import StrEnum
from itertools import combinations
from typing import Annotated, Final

import typer

from geotrain import __version__
from geotrain.adapters.cluster import HttpCluster
from geotrain.api import labels
from geotrain.api.objects import (
    CONFIG_MAPS,
    CRDS,
    DATA_CENTERS,
    NAMESPACES,
    TRAINING_JOBS,
    WAN_LINKS,
    Object,
)
from geotrain.api.v1alpha1 import DataCenter, GeoTrainingJob, WanLink
from geotrain.cli import access, connectivity, diagnosis, findings, gathering, scope, sites
from geotrain.cli.access import Namespace
from geotrain.cli.connectivity import Place
from geotrain.cli.findings import Finding
from geotrain.errors import Forbidden, GeotrainError, InputError, NotFound
from geotrain.roles.controller.members import recorded_uid
from geotrain.roles.controller.observe import read_all
from geotrain.units import Seconds

FOUND: Final = 1
"""Exit code where something is wrong."""
_PATIENCE: Final[Seconds] = 20.0
_SETTINGS: Final = ("geotrain-settings", "settings.yaml")


class Output(StrEnum):
    """What ``-o`` takes."""

    TEXT = "text"
    JSON = "json"


def doctor(
    context: scope.Context = None,
    connect: Annotated[
        bool, typer.Option("--connect", help="Also connect pods of all data centres to each other.")
    ] = False,
    namespace: Namespace = access.NAMESPACE,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="How the findings are printed.")
    ] = Output.TEXT,
) -> None:
    """Check a whole installation: 0 all is well, 1 something is wrong, 2 it could not be seen."""
    found = access.run(_doctor(context, namespace, connect))
    if output is Output.JSON:
        typer.echo(json.dumps(findings.document(found), indent=2))
    else:
        typer.echo("\n".join(findings.lines(found)))
    if findings.serious(found):
        raise typer.Exit(FOUND)


async def _doctor(context: str | None, namespace: str, connect: bool) -> list[Finding]:
    async with access.opened(access.hub(context)) as hub:
        found = diagnosis.hub(await _hub(hub, namespace), __version__)
        try:
            centers = read_all(DataCenter, await hub.list(DATA_CENTERS))
            links = read_all(WanLink, await hub.list(WAN_LINKS))
            jobs = read_all(GeoTrainingJob, await hub.list(TRAINING_JOBS))
        except NotFound:  # no CRDs: that is what was found
            return found
        spaces = {job.namespace for job in jobs if job.status.completion_time is None}
        async with contextlib.AsyncExitStack() as stack:
            looking = [_center(stack, hub, each, namespace, spaces) for each in centers]
            looked = await asyncio.gather(*looking)
            networks = {c.name: c.spec.network.pod_cidrs or c.status.pod_cidrs for c in centers}
            for center, (place, own) in zip(centers, looked, strict=True):
                found += diagnosis.center(center, time.time())
                found += own
                if place is not None:
                    found += _judged(place, networks, hub)
            if not centers:
                action = "geotrain join NAME --context MEMBER"
                found.append(findings.warning("hub", "no data centre has joined", action))
            found += diagnosis.links(links, networks)
            found += diagnosis.jobs(jobs, time.time())
            if connect:
                found += await _connected([place for place, _ in looked if place is not None])
        return found


async def _hub(hub: HttpCluster, namespace: str) -> diagnosis.Hub:
    deployment = await gathering.deployment(hub, namespace, labels.CONTROLLER_NAME)
    name, key = _SETTINGS
    try:
        settings: Object | None = await hub.get(CONFIG_MAPS, namespace, name)
    except NotFound:
        settings = None
    return diagnosis.Hub(
        kubernetes=await hub.version(),
        version=gathering.version_of(deployment),
        definitions=tuple(await hub.list(CRDS)),
        controller=deployment,
        settings=None if settings is None else (settings.get("data") or {}).get(key, ""),
        ahead=hub.clock_skew,
    )


async def _center(
    stack: contextlib.AsyncExitStack,
    hub: HttpCluster,
    center: DataCenter,
    namespace: str,
    spaces: Iterable[str],
) -> tuple[Place | None, list[Finding]]:
    """A data centre as it is seen from here, by the controller's own login."""
    local = center.spec.cluster.local
    try:
        cluster = hub
        if not local:
            cluster = await gathering.member(hub, center.spec.cluster.kubeconfig_secret_ref)
            stack.push_async_callback(cluster.close)
        async with asyncio.timeout(_PATIENCE):
            site = await gathering.site(cluster, center, namespace, account=not local)
            _require_same(center, site.uid)
            image = await gathering.image(cluster, namespace)
            opted = diagnosis.namespaces(await _spaces(cluster, spaces), center.name)
    except (GeotrainError, TimeoutError) as error:
        said = str(error) or "it is slow to answer"
        return None, [findings.note(center.name, f"not looked into from here: {said}")]
    return Place(cluster, site, namespace, image), opted


def _require_same(center: DataCenter, uid: str) -> None:
    if recorded_uid(center) not in ("", uid):
        raise InputError("its Secret leads to another cluster than the one that joined")


async def _spaces(
    cluster: HttpCluster, names: Iterable[str]
) -> dict[str, Mapping[str, str] | None]:
    """The labels of namespaces. Our own account may not read them: then nothing is said of them."""
    found: dict[str, Mapping[str, str] | None] = {}
    for name in names:
        try:
            found[name] = (await cluster.get(NAMESPACES, "", name))["metadata"].get("labels") or {}
        except NotFound:
            found[name] = None
        except Forbidden:
            continue
    return found


def _judged(
    place: Place, networks: Mapping[str, tuple[str, ...]], hub: HttpCluster
) -> list[Finding]:
    """What the controller does not look at: versions, rights, clocks, addresses of pods."""
    site = place.site
    others = {name: cidrs for name, cidrs in networks.items() if name != site.name}
    skew = [] if place.cluster is hub else sites.clocks(site.name, site.ahead, hub.clock_skew)
    return [*sites.judge(site, others, __version__), *skew]


async def _connected(places: list[Place]) -> list[Finding]:
    by_name = {place.site.name: place for place in places}
    if len(by_name) < 2:
        message = "fewer than two data centres can be looked into from here: nothing to connect"
        return [findings.note("connectivity", message)]
    return await connectivity.between(by_name, list(combinations(sorted(by_name), 2)))
