"""``geotrain leave``: undo a join. Safe to repeat, also after one that was cut off."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from geotrain.adapters import kubeconfigs
from geotrain.adapters.cluster import HttpCluster
from geotrain.api.objects import (
    CONFIG_MAPS,
    DATA_CENTERS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    TRAINING_JOBS,
    WAN_LINKS,
    ApiResource,
)
from geotrain.api.v1alpha1 import DataCenter, GeoTrainingJob, WanLink
from geotrain.api.v1alpha1.data_center import SecretKeyRef
from geotrain.cli import access, gathering, leaving, membership
from geotrain.cli.access import HubContext, Namespace
from geotrain.errors import ClusterError, GeotrainError, InputError, NotFound
from geotrain.roles.controller.members import recorded_uid
from geotrain.roles.controller.observe import read_all
from geotrain.units import Seconds

_PATIENCE: Final[Seconds] = 45.0  # the longest usual grace period of a pod, and a little
_PAUSE: Final[Seconds] = 1.0


@dataclass(frozen=True, slots=True)
class _Leaving:
    """Who leaves: the DataCenter, None where only leftovers are there, and all others."""

    name: str
    namespace: str
    center: DataCenter | None
    others: Sequence[DataCenter]


def leave(
    name: Annotated[str, typer.Argument(help="Name of the data centre.")],
    hub_context: HubContext = None,
    context: Annotated[
        str,
        typer.Option(help="Context of the member, where the hub's own way there does not work."),
    ] = "",
    force: Annotated[
        bool, typer.Option("--force", help="Leave although jobs run there, or it cannot be asked.")
    ] = False,
    namespace: Namespace = access.NAMESPACE,
) -> None:
    """Take a data centre away from the hub, with all that geotrain has in its cluster."""
    membership.require_name(name)
    access.run(_leave(name, hub_context, context, force, namespace))


async def _leave(
    name: str, hub_context: str | None, context: str, force: bool, namespace: str
) -> None:
    async with access.opened(access.hub(hub_context)) as hub:
        who = await _who(hub, name, namespace)
        async with _member(hub, who, context) as member:
            await _refuse_while_used(hub, member, who, force)
            await _remove(hub, DATA_CENTERS, "", name)
            if isinstance(member, HttpCluster):
                await _clean(member, who, own=member is not hub)
        await _remove(hub, ROLE_BINDINGS, namespace, membership.role_name(name))
        await _remove(hub, ROLES, namespace, membership.role_name(name))
        await _remove(hub, SECRETS, namespace, membership.secret_name(name))
        typer.echo(f"{name} has left")
        links = leaving.links_of(read_all(WanLink, await hub.list(WAN_LINKS)), name)
        if links:
            typer.echo(
                f"still naming it: WanLink {', '.join(links)}; kubectl delete wan {' '.join(links)}"
            )


async def _who(hub: HttpCluster, name: str, namespace: str) -> _Leaving:
    try:
        centers = read_all(DataCenter, await hub.list(DATA_CENTERS))
    except NotFound as error:
        raise InputError("geotrain is not installed in the hub, so nothing has joined") from error
    center = next((each for each in centers if each.name == name), None)
    if center is None:
        try:
            await hub.get(SECRETS, namespace, membership.secret_name(name))
        except NotFound as error:
            known = ", ".join(each.name for each in centers) or "none"
            raise InputError(f"there is no DataCenter {name}; there is {known}") from error
    return _Leaving(name, namespace, center, [each for each in centers if each.name != name])


@contextlib.asynccontextmanager
async def _member(
    hub: HttpCluster, who: _Leaving, context: str
) -> AsyncIterator[HttpCluster | str]:
    """The member's API, or why it cannot be asked."""
    if context:
        credentials = kubeconfigs.credentials(access.named(context)[1])
        async with access.opened(credentials) as cluster:
            await _require_same(who, cluster, context)
            yield cluster
        return
    if who.center is not None and who.center.spec.cluster.local:
        yield hub
        return
    try:
        cluster = await gathering.member(hub, _secret(who))
    except GeotrainError as error:
        yield str(error)
        return
    try:
        fault = await _fault(who, cluster)
        yield fault or cluster
    finally:
        await cluster.close()


def _secret(who: _Leaving) -> SecretKeyRef | None:
    """Where the way to the member is kept, also after its DataCenter has gone."""
    if who.center is not None:
        return who.center.spec.cluster.kubeconfig_secret_ref
    name = membership.secret_name(who.name)
    return SecretKeyRef(namespace=who.namespace, name=name, key=membership.KUBECONFIG_KEY)


async def _fault(who: _Leaving, cluster: HttpCluster) -> str:
    try:
        await _require_same(who, cluster, "the kubeconfig in its Secret")
    except GeotrainError as error:
        return str(error)
    return ""


async def _require_same(who: _Leaving, cluster: HttpCluster, place: str) -> None:
    recorded = recorded_uid(who.center) if who.center is not None else ""
    found = await gathering.uid(cluster)
    if recorded and found != recorded:
        raise InputError(
            f"{place} leads to another cluster than the one that joined as {who.name}: its"
            f" kube-system has the UID {found}, not {recorded}; nothing is removed there"
        )


async def _refuse_while_used(
    hub: HttpCluster, member: HttpCluster | str, who: _Leaving, force: bool
) -> None:
    """Raises InputError, unless forced, where something would be torn down or left."""
    jobs = leaving.jobs_of(read_all(GeoTrainingJob, await hub.list(TRAINING_JOBS)), who.name)
    if isinstance(member, HttpCluster):
        jobs += leaving.pods_of(await member.list(PODS, selector=leaving.OURS), who.name)
    used = sorted(set(jobs))
    if used and not force:
        raise InputError(
            f"{who.name} is used by {', '.join(used)}: suspend or delete them first, or give"
            " --force, which restarts them elsewhere or lets them wait"
        )
    if isinstance(member, str):
        if not force:
            raise InputError(
                f"the member cannot be asked ({member}), so what geotrain has there would stay;"
                " give --context with your own way there, or --force to leave it"
            )
        typer.echo(f"warning: what geotrain has there stays: {member}", err=True)


async def _clean(member: HttpCluster, who: _Leaving, *, own: bool) -> None:
    """Remove what is left, until nothing is. ``own``: it is not the hub itself."""
    recorded = recorded_uid(who.center) if who.center is not None else ""
    near = any(recorded and recorded_uid(each) == recorded for each in who.others)
    alone = own and not near
    loop = asyncio.get_running_loop()
    end = loop.time() + _PATIENCE
    while left := await _sweep(member, who.name, alone=alone):
        if loop.time() > end:
            typer.echo(f"warning: still ending: {', '.join(left[:5])}", err=True)
            break
        await asyncio.sleep(_PAUSE)
    if alone:
        await _remove(member, CONFIG_MAPS, who.namespace, membership.MARK)


async def _sweep(member: HttpCluster, name: str, *, alone: bool) -> list[str]:
    """Delete what is left now; returns what there was."""
    left: list[str] = []
    for resource in leaving.LEFT:
        for each in await member.list(resource, selector=leaving.OURS):
            if leaving.is_left(resource, each, name, alone=alone):
                meta = each["metadata"]
                left.append(f"{resource} {meta['namespace']}/{meta['name']}")
                await _remove(member, resource, meta["namespace"], meta["name"])
    return left


async def _remove(cluster: HttpCluster, resource: ApiResource, namespace: str, name: str) -> None:
    try:
        await cluster.delete(resource, namespace, name)
    except NotFound:
        return
    except ClusterError as error:
        raise InputError(f"{resource} {name} could not be removed: {error}") from error
