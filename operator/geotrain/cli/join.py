"""``geotrain join``: register a cluster at the hub as a data centre. Safe to repeat."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

import typer
import yaml
from rich.console import Console
from rich.markup import escape

from geotrain.adapters import kubeconfigs
from geotrain.adapters.cluster import HttpCluster
from geotrain.adapters.credentials import Credentials, from_document
from geotrain.api.objects import DATA_CENTERS, NODES, SECRETS, ApiResource
from geotrain.api.v1alpha1 import DataCenter
from geotrain.cli import membership
from geotrain.cli.membership import Found, Wishes
from geotrain.errors import Forbidden, InputError, NotFound, Unreachable
from geotrain.units import Seconds

_TOKEN_TIMEOUT: Final[Seconds] = 30.0
_PAUSE: Final[Seconds] = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class Contexts:
    """Which contexts of the kubeconfig to use, and another address of the member, if any."""

    hub: str
    member: str
    server: str = ""


def join(
    name: Annotated[str, typer.Argument(help="Name of the data centre, for example dc-west.")],
    hub_context: Annotated[str, typer.Option(help="Context of the hub.")],
    member_context: Annotated[str, typer.Option(help="Context of the member.")] = "",
    server: Annotated[
        str, typer.Option(help="URL by which the hub reaches the member, if not the context's.")
    ] = "",
    local: Annotated[bool, typer.Option(help="The hub itself is this data centre.")] = False,
    gpu_resource: Annotated[
        str, typer.Option(help="Extended resource that counts GPUs.")
    ] = "nvidia.com/gpu",
    accelerator: Annotated[str, typer.Option(help="GPU model, for example H200.")] = "",
    cost_per_gpu_hour: Annotated[float, typer.Option(min=0, help="Price of a GPU hour.")] = 0.0,
    node_selector: Annotated[
        list[str] | None,
        typer.Option(help="KEY=VALUE of its nodes; default: the data centre label with its name."),
    ] = None,
    namespace: Annotated[
        str, typer.Option(help="Namespace of geotrain in both clusters.")
    ] = membership.SYSTEM_NAMESPACE,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for the controller's first contact.")
    ] = 30.0,
) -> None:
    """Register a cluster at the hub as a data centre."""
    wishes = Wishes(
        name=name,
        namespace=namespace,
        local=local,
        gpu_resource=gpu_resource,
        accelerator=accelerator,
        cost_per_gpu_hour=cost_per_gpu_hour,
        selector=membership.selector(node_selector or []),
    )
    if local == bool(member_context):
        raise InputError("give either --member-context (another cluster) or --local (the hub)")
    contexts = Contexts(hub_context, member_context or hub_context, server)
    asyncio.run(_join(wishes, contexts, wait, Console()))


async def _join(wishes: Wishes, contexts: Contexts, wait: Seconds, console: Console) -> None:
    manifest = membership.data_center_manifest(wishes)
    DataCenter.from_manifest(manifest)  # refuses a bad name or resource before anything is written
    paths = kubeconfigs.files()
    hub_config = kubeconfigs.context(paths, contexts.hub)
    async with _open(kubeconfigs.credentials(hub_config)) as hub:
        others = await _pod_networks(hub, wishes)
        if wishes.local:
            member = await _look(hub, wishes)
        else:
            member_config = kubeconfigs.context(paths, contexts.member)
            document = await _member_kubeconfig(member_config, contexts.server, wishes)
            async with _open(from_document(document)) as remote:
                member = await _look_as_controller(remote, document, wishes)
            text = yaml.safe_dump(document)
            await _apply(hub, SECRETS, membership.secret_manifest(wishes, text), wishes)
        await _apply(hub, DATA_CENTERS, manifest, wishes)
        _report(console, wishes, member, membership.advice(wishes, member, others))
        await _await_contact(hub, wishes, wait, console)


@asynccontextmanager
async def _open(credentials: Credentials) -> AsyncIterator[HttpCluster]:
    cluster = HttpCluster(credentials)
    try:
        yield cluster
    finally:
        await cluster.close()


async def _pod_networks(hub: HttpCluster, wishes: Wishes) -> dict[str, tuple[str, ...]]:
    """Pod networks of the other data centres, as the controller saw them."""
    try:
        manifests = await hub.list(DATA_CENTERS)
    except NotFound as error:
        command = membership.INSTALL_HUB.format(namespace=wishes.namespace)
        raise InputError(f"geotrain is not installed in the hub; {command}") from error
    centers = (DataCenter.from_manifest(m) for m in manifests)
    return {c.name: c.status.pod_cidrs for c in centers if c.name != wishes.name}


async def _member_kubeconfig(config: dict[str, Any], server: str, wishes: Wishes) -> dict[str, Any]:
    """A kubeconfig for the account that the chart made in the member."""
    async with _open(kubeconfigs.credentials(config)) as member:
        secret = await _token_secret(member, wishes)
    cluster = config["clusters"][0]["cluster"]
    return membership.kubeconfig(
        server or cluster["server"],
        kubeconfigs.authority(cluster) or membership.authority_of(secret),
        membership.token_of(secret),
        str(cluster.get("tls-server-name", "")),
    )


async def _token_secret(member: HttpCluster, wishes: Wishes) -> dict[str, Any]:
    """The account's Secret, once the cluster has put the token in."""
    try:
        async for _ in _until(_TOKEN_TIMEOUT):
            secret = await member.get(SECRETS, wishes.namespace, membership.TOKEN_SECRET)
            if membership.token_of(secret):
                return secret
    except NotFound as error:
        command = membership.INSTALL_MEMBER.format(namespace=wishes.namespace)
        raise InputError(f"geotrain is not installed in the member; {command}") from error
    raise InputError(
        f"the member has put no token into {wishes.namespace}/{membership.TOKEN_SECRET}:"
        " does its controller-manager run?"
    )


async def _look_as_controller(
    member: HttpCluster, document: dict[str, Any], wishes: Wishes
) -> Found:
    """Use the new kubeconfig once, as the controller will."""
    try:
        return await _look(member, wishes)
    except Unreachable as error:
        server = document["clusters"][0]["cluster"]["server"]
        raise InputError(
            f"the member does not answer at {server} ({error}); give --server with an address"
            " that both you and the hub reach"
        ) from error
    except Forbidden as error:
        raise InputError(f"the member refuses geotrain's account: {error}") from error


async def _look(cluster: HttpCluster, wishes: Wishes) -> Found:
    chosen = ",".join(f"{key}={value}" for key, value in sorted(wishes.node_labels.items()))
    return membership.found(await cluster.list(NODES, selector=chosen), wishes.gpu_resource)


async def _apply(
    hub: HttpCluster, resource: ApiResource, manifest: dict[str, Any], wishes: Wishes
) -> None:
    try:
        await hub.apply(resource, manifest)
    except NotFound as error:
        command = membership.INSTALL_HUB.format(namespace=wishes.namespace)
        raise InputError(f"{error}: is geotrain installed in the hub? {command}") from error


def _report(console: Console, wishes: Wishes, member: Found, advice: list[str]) -> None:
    networks = ", ".join(member.pod_cidrs) or "unknown"
    console.print(
        f"[bold]{escape(wishes.name)}[/] is registered: {member.nodes} nodes,"
        f" {member.gpus} {escape(wishes.gpu_resource)}, pod networks {networks}",
        soft_wrap=True,
    )
    for sentence in advice:
        console.print(f"[yellow]warning:[/] {escape(sentence)}", soft_wrap=True)


async def _await_contact(hub: HttpCluster, wishes: Wishes, wait: Seconds, console: Console) -> None:
    """Wait until the controller reaches the member; InputError with its reason when it does not.

    A False may be left from before, so only the end of the wait makes it final.
    """
    condition = None
    async for _ in _until(wait):
        manifest = await hub.get(DATA_CENTERS, "", wishes.name)
        condition = DataCenter.from_manifest(manifest).status.condition("Reachable")
        if condition is not None and condition.status == "True":
            console.print("the hub's controller reaches it", soft_wrap=True)
            return
    if condition is not None and condition.status == "False":
        said = f"{condition.reason}: {condition.message}"
        raise InputError(f"the hub's controller does not reach it: {said}")
    console.print("the controller has not looked at it yet; see kubectl get dc", soft_wrap=True)


async def _until(wait: Seconds) -> AsyncIterator[None]:
    """Yields at once and then after every pause, for at least ``wait``.

    Requests are let finish: one that is cancelled while it connects leaves its socket behind.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + wait
    yield
    while loop.time() < end:
        await asyncio.sleep(_PAUSE)
        yield
