"""``geotrain join``: check a cluster, and register it at the hub. Safe to repeat."""

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import AsyncIterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import typer
import yaml

from geotrain import __version__
from geotrain.adapters import kubeconfigs
from geotrain.adapters.cluster import HttpCluster
from geotrain.adapters.credentials import from_document
from geotrain.api import labels, tokens
from geotrain.api.objects import (
    CONFIG_MAPS,
    DATA_CENTERS,
    NODES,
    SECRETS,
    SERVICE_ACCOUNTS,
    ApiResource,
    resource_of,
)
from geotrain.api.v1alpha1 import DataCenter
from geotrain.cli import access, connectivity, findings, gathering, membership, sites
from geotrain.cli.access import HubContext, Namespace
from geotrain.cli.connectivity import Place
from geotrain.cli.findings import Finding
from geotrain.cli.membership import Wishes
from geotrain.cli.sites import Site
from geotrain.errors import (
    Forbidden,
    GeotrainError,
    InputError,
    NotFound,
    Unauthorized,
    Unreachable,
)
from geotrain.roles.controller import renewal
from geotrain.roles.controller.members import recorded_uid
from geotrain.units import Seconds

_PAUSE: Final[Seconds] = 0.5


class Output(StrEnum):
    """What ``-o`` takes."""

    YAML = "yaml"


@dataclasses.dataclass(frozen=True, slots=True)
class Way:
    """How the member is found, and what else the person asked for.

    ``context`` of '': the hub itself. ``server`` and ``proxy_url``, where given, stand for those of
    the context.
    """

    context: str = ""
    server: str = ""
    proxy_url: str | None = None
    connect: bool = True
    output: Output | None = None
    wait: Seconds = 30.0


def join(
    name: Annotated[str, typer.Argument(help="Name of the data centre, for example dc-west.")],
    context: Annotated[str, typer.Option(help="Context of the member in your kubeconfig.")] = "",
    local: Annotated[bool, typer.Option(help="The hub itself is this data centre.")] = False,
    hub_context: HubContext = None,
    server: Annotated[
        str, typer.Option(help="URL by which the hub reaches the member, if not the context's.")
    ] = "",
    proxy_url: Annotated[
        str | None,
        typer.Option(help="Proxy by which the hub reaches the member, if not the context's."),
    ] = None,
    gpu_resource: Annotated[
        str, typer.Option(help="Extended resource that counts GPUs.")
    ] = "nvidia.com/gpu",
    accelerator: Annotated[str, typer.Option(help="GPU model, for example H200.")] = "",
    cost_per_gpu_hour: Annotated[float, typer.Option(min=0, help="Price of a GPU hour.")] = 0.0,
    node_selector: Annotated[
        list[str] | None,
        typer.Option(help="KEY=VALUE of its nodes; default: the data centre label with its name."),
    ] = None,
    pod_cidr: Annotated[
        list[str] | None,
        typer.Option(help="Pod network, where its nodes tell none; default: as it is now."),
    ] = None,
    token_lifetime: Annotated[
        str,
        typer.Option(help="How long a token of the member lasts, for example 24h, the default."),
    ] = "",
    skip_connectivity: Annotated[
        bool, typer.Option("--skip-connectivity", help="Do not connect pods to each other.")
    ] = False,
    namespace: Namespace = access.NAMESPACE,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for the controller's first contact.")
    ] = 30.0,
    output: Annotated[
        Output | None,
        typer.Option("--output", "-o", help="Print the objects and write nothing to any cluster."),
    ] = None,
    member_context: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """Check a cluster and register it at the hub as a data centre."""
    if member_context:
        raise InputError(f"--member-context is now --context: --context {member_context}")
    if local == bool(context):
        raise InputError("give either --context (another cluster) or --local (the hub itself)")
    wishes = Wishes(
        name=name,
        namespace=namespace,
        local=local,
        gpu_resource=gpu_resource,
        accelerator=accelerator,
        cost_per_gpu_hour=cost_per_gpu_hour,
        selector=membership.selector(node_selector or []),
        pod_cidrs=membership.pod_networks(pod_cidr or []),
        token_lifetime=sites.read_lifetime(token_lifetime) if token_lifetime else 0.0,
    )
    way = Way(context, server, proxy_url, not skip_connectivity, output, wait)
    access.run(_join(wishes, hub_context, way))


async def _join(wishes: Wishes, hub_context: str | None, way: Way) -> None:
    DataCenter.from_manifest(membership.data_center_manifest(wishes))  # refuses bad input first
    async with access.opened(access.hub(hub_context)) as hub:
        joining = _Joining(hub, wishes, way)
        async with contextlib.AsyncExitStack() as stack:
            await joining.check(stack)
            if way.output is Output.YAML:
                joining.print()
                return
            await joining.write()
        await _await_contact(hub, joining.wishes, way.wait)


class _Joining:
    """One run: what it has found so far of hub and member."""

    def __init__(self, hub: HttpCluster, wishes: Wishes, way: Way) -> None:
        self._hub = hub
        self._way = way
        self.wishes = wishes
        self._document: dict[str, Any] | None = None
        self._uid = ""
        self._hub_uid = ""
        self._found: list[Finding] = []
        self._member: HttpCluster = hub

    async def check(self, stack: contextlib.AsyncExitStack) -> None:
        """Look at everything. Raises InputError, after all warnings, where something is wrong."""
        centers = await self._centers()
        before = next((each for each in centers if each.name == self.wishes.name), None)
        self.wishes = await self._kept(before)
        self._hub_uid = await gathering.uid(self._hub)
        if not self.wishes.local:
            await self._log_in(stack, before)
        else:
            await self._know(self._hub, before, "the hub")
        center = DataCenter.from_manifest(self._manifest())
        others = {
            each.name: each.spec.network.pod_cidrs or each.status.pod_cidrs
            for each in centers
            if each.name != center.name
        }
        account = not self.wishes.local
        site = await gathering.site(self._member, center, self.wishes.namespace, account=account)
        self._found += sites.judge(site, others, __version__)
        self._found += await self._hub_findings(site)
        rest = [each for each in centers if each.name != center.name]
        self._found += await self._neighbours(site, rest)
        if not findings.errors(self._found):
            self._found += await self._elsewhere(site, rest)
        self._tell(site)

    async def _centers(self) -> list[DataCenter]:
        try:
            manifests = await self._hub.list(DATA_CENTERS)
        except NotFound as error:
            command = membership.INSTALL_HUB.format(namespace=self.wishes.namespace)
            raise InputError(f"geotrain is not installed in the hub; {command}") from error
        return [DataCenter.from_manifest(each) for each in manifests]

    async def _kept(self, before: DataCenter | None) -> Wishes:
        """What was not asked for stays as it is."""
        cidrs = self.wishes.pod_cidrs or (before.spec.network.pod_cidrs if before else ())
        lifetime = self.wishes.token_lifetime
        if not lifetime and not self.wishes.local:
            secret = await self._secret()
            kept = renewal.Login(secret, "", "") if secret is not None else None
            lifetime = kept.lifetime if kept is not None else tokens.DEFAULT_LIFETIME
        return dataclasses.replace(self.wishes, pod_cidrs=cidrs, token_lifetime=lifetime)

    async def _secret(self) -> dict[str, Any] | None:
        try:
            return await self._hub.get(SECRETS, self.wishes.namespace, self.wishes.secret_name)
        except NotFound:
            return None

    async def _know(self, cluster: HttpCluster, before: DataCenter | None, place: str) -> None:
        """Make sure that the cluster is nobody else's, and the same as before."""
        self._uid = await gathering.uid(cluster)
        recorded = recorded_uid(before) if before is not None else ""
        membership.require_same_cluster(before, self._uid, recorded, place)
        marked = await gathering.mark(cluster, self.wishes.namespace)
        membership.require_no_other_hub(marked, self._hub_uid, self.wishes.namespace)

    async def _log_in(self, stack: contextlib.AsyncExitStack, before: DataCenter | None) -> None:
        """As the person once, to get a token; then with that, as the controller will."""
        entry = self._entry()
        credentials = kubeconfigs.credentials(access.named(self._way.context)[1])
        async with access.opened(credentials) as person:
            await self._know(person, before, credentials.host)
            document = await self._held(person, entry)
            if document is None:
                document = await self._kubeconfig(person, entry)
        self._document = document
        self._member = await stack.enter_async_context(access.opened(from_document(document)))
        await self._try()

    def _entry(self) -> dict[str, Any]:
        """How the hub reaches the member, as the entry of a cluster in a kubeconfig."""
        way = self._way
        entry = dict(access.named(way.context)[1]["clusters"][0]["cluster"])
        if way.server:
            entry["server"] = way.server
        if way.proxy_url is not None:
            entry["proxy-url"] = way.proxy_url
        proxy = urlsplit(str(entry.get("proxy-url") or "")).hostname
        if proxy in ("localhost", "127.0.0.1", "::1"):
            raise InputError(
                f"the context {way.context} reaches the member by the proxy at {proxy}, which the"
                " hub's controller does not have; give --proxy-url with the hub's way there"
                " ('' for none)"
            )
        return entry

    async def _held(self, person: HttpCluster, entry: Mapping[str, Any]) -> dict[str, Any] | None:
        """The kubeconfig that the hub holds, where it leads to the same place and is still good."""
        secret = await self._secret()
        try:
            login = renewal.read(secret or {}, membership.KUBECONFIG_KEY)
        except (KeyError, ValueError):
            return None
        token = login.token
        authority = kubeconfigs.authority(entry)
        if token is None or login.lifetime != self.wishes.token_lifetime:
            return None
        wanted = membership.kubeconfig(entry, authority, token.text)
        document: dict[str, Any] = yaml.safe_load(login.kubeconfig)
        ended = token.ends is None or token.is_due(time.time())
        if ended or document != wanted:
            return None
        try:  # the server knows a token for seconds after its account was made anew
            name = labels.MEMBER_ACCOUNT
            account = await person.get(SERVICE_ACCOUNTS, self.wishes.namespace, name)
            async with access.opened(from_document(document)) as member:
                await gathering.uid(member)
        except (NotFound, Unauthorized, Unreachable):
            return None
        return document if account["metadata"]["uid"] == token.account_uid else None

    async def _kubeconfig(self, person: HttpCluster, entry: Mapping[str, Any]) -> dict[str, Any]:
        asked = tokens.request(
            self.wishes.namespace, labels.MEMBER_ACCOUNT, self.wishes.token_lifetime
        )
        try:
            answer = await person.create(SERVICE_ACCOUNTS, asked, subresource="token")
        except NotFound as error:
            command = membership.INSTALL_MEMBER.format(namespace=self.wishes.namespace)
            raise InputError(f"geotrain is not installed in the member; {command}") from error
        except Forbidden as error:
            raise InputError(
                f"the member does not let you make a token for {self.wishes.namespace}/"
                f"{labels.MEMBER_ACCOUNT} (create serviceaccounts/token): {error}"
            ) from error
        token = tokens.granted(answer)
        if token.ends is not None and token.lifetime < self.wishes.token_lifetime - 60:
            wanted = f"{self.wishes.token_lifetime / 3600:g} h"
            message = f"the member grants tokens of {token.lifetime / 3600:g} h, not {wanted}"
            self._found.append(findings.note(self.wishes.name, message))
        return membership.kubeconfig(entry, kubeconfigs.authority(dict(entry)), token.text)

    async def _try(self) -> None:
        """Use the new kubeconfig once, as the controller will."""
        assert self._document is not None, "it was just made"
        server = self._document["clusters"][0]["cluster"]["server"]
        try:
            found = await gathering.uid(self._member)
        except Unreachable as error:
            raise InputError(
                f"the member does not answer at {server} ({error}); give --server with an address"
                " that both you and the hub reach"
            ) from error
        except Forbidden as error:
            command = membership.INSTALL_MEMBER.format(namespace=self.wishes.namespace)
            raise InputError(
                f"the member refuses geotrain's account: {error}; is the chart installed there?"
                f" {command}"
            ) from error
        if found != self._uid:
            raise InputError(
                f"{server} is another cluster than the context {self._way.context}: their"
                f" kube-system have the UIDs {found} and {self._uid}; mend --server"
            )

    async def _hub_findings(self, site: Site) -> list[Finding]:
        """The controller's version, and the hub's clock."""
        deployment = await gathering.deployment(
            self._hub, self.wishes.namespace, labels.CONTROLLER_NAME
        )
        skew = (
            [] if self.wishes.local else sites.clocks(site.name, site.ahead, self._hub.clock_skew)
        )
        if deployment is None:
            command = membership.INSTALL_HUB.format(namespace=self.wishes.namespace)
            message = f"there is no Deployment {labels.CONTROLLER_NAME}, so nobody places jobs"
            return [findings.warning("hub", message, command), *skew]
        version = gathering.version_of(deployment)
        return [sites.installed("hub", "controller", version, __version__), *skew]

    async def _neighbours(self, site: Site, centers: list[DataCenter]) -> list[Finding]:
        """Data centres of the same cluster must not count the same nodes."""
        near = [center for center in centers if recorded_uid(center) == self._uid]
        nodes = await self._member.list(NODES) if near else []
        others = [
            Site(each.name, nodes=sites.owned(nodes, gathering.node_selector(each)), uid=self._uid)
            for each in near
        ]
        return sites.shared_nodes(site, others)

    async def _elsewhere(self, site: Site, centers: list[DataCenter]) -> list[Finding]:
        """Whether pods reach those of all other data centres, and are reached."""
        skipped = self._skipped()
        if skipped or not centers:
            return [findings.note(site.name, skipped)] if centers else []
        found: list[Finding] = []
        async with contextlib.AsyncExitStack() as stack:
            places: dict[str, Place] = {}
            for center in centers:
                try:
                    places[center.name] = await self._place(stack, center)
                except (GeotrainError, TimeoutError) as error:
                    message = f"pods were not connected to those of {center.name}: {error}"
                    found.append(findings.warning(site.name, message))
            if places:
                own = await gathering.image(self._member, self.wishes.namespace)
                mine = Place(self._member, site, self.wishes.namespace, own)
                pairs = [(site.name, name) for name in places]
                found += await connectivity.between({**places, site.name: mine}, pairs)
        return found

    def _skipped(self) -> str:
        if self._way.output is not None:
            return "pods were not connected to each other, because -o writes nothing to clusters"
        if not self._way.connect:
            return "pods were not connected to each other (--skip-connectivity)"
        return ""

    async def _place(self, stack: contextlib.AsyncExitStack, center: DataCenter) -> Place:
        namespace = self.wishes.namespace
        if center.spec.cluster.local:
            cluster = self._hub
        else:
            cluster = await gathering.member(self._hub, center.spec.cluster.kubeconfig_secret_ref)
            stack.push_async_callback(cluster.close)
        async with asyncio.timeout(20):
            site = await gathering.site(cluster, center, namespace, account=False)
            return Place(cluster, site, namespace, await gathering.image(cluster, namespace))

    def _tell(self, site: Site) -> None:
        """Everything but what is well goes to stderr. Raises InputError where there are errors."""
        for each in self._found:
            if each.level is not findings.Level.OK:
                about = "" if each.subject == site.name else f"{each.subject}: "
                typer.echo(f"{each.level}: {about}{each.sentence}", err=True)
        if findings.errors(self._found):
            raise InputError(f"{site.name} is not registered: {findings.summary(self._found)}")
        if self._way.output is None:
            for each in self._found:
                if each.level is findings.Level.OK:
                    typer.echo(f"ok: {each.subject}: {each.message}")

    def _manifest(self) -> dict[str, Any]:
        return membership.data_center_manifest(self.wishes, self._uid)

    def _objects(self) -> list[dict[str, Any]]:
        if self._document is None:
            return [self._manifest()]
        text = yaml.safe_dump(self._document)
        secret = membership.secret_manifest(self.wishes, text)
        return [*membership.renewal_manifests(self.wishes), secret, self._manifest()]

    def print(self) -> None:
        """The objects for kubectl apply on the hub."""
        typer.echo(yaml.safe_dump_all(self._objects(), sort_keys=False), nl=False)
        if self._document is not None:
            typer.echo(
                f"note: the Secret {self.wishes.secret_name} holds a token that the controller"
                " renews: keep it out of version control, and let nothing put an old one back",
                err=True,
            )

    async def write(self) -> None:
        """Register it, the mark in the member last."""
        for manifest in self._objects():
            resource = resource_of(manifest["apiVersion"], manifest["kind"])
            await _apply(self._hub, resource, manifest, self.wishes)
        mark = membership.mark_manifest(self.wishes.namespace, self._hub_uid)
        with contextlib.suppress(NotFound):  # a hub whose namespace of geotrain is not there yet
            await self._member.apply(CONFIG_MAPS, mark)
        typer.echo(f"{self.wishes.name} is registered")


async def _apply(
    hub: HttpCluster, resource: ApiResource, manifest: dict[str, Any], wishes: Wishes
) -> None:
    try:
        await hub.apply(resource, manifest)
    except NotFound as error:
        command = membership.INSTALL_HUB.format(namespace=wishes.namespace)
        raise InputError(f"{error}: is geotrain installed in the hub? {command}") from error


async def _await_contact(hub: HttpCluster, wishes: Wishes, wait: Seconds) -> None:
    """Wait until the controller reaches the member; InputError with its reason when it does not.

    A False may be left from before, so only the end of the wait makes it final.
    """
    condition = None
    async for _ in _until(wait):
        manifest = await hub.get(DATA_CENTERS, "", wishes.name)
        condition = DataCenter.from_manifest(manifest).status.condition("Reachable")
        if condition is not None and condition.status == "True":
            typer.echo("the hub's controller reaches it")
            return
    if condition is not None and condition.status == "False":
        said = f"{condition.reason}: {condition.message}"
        raise InputError(f"the hub's controller does not reach it: {said}")
    typer.echo("the controller has not looked at it yet; see kubectl get dc")


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
