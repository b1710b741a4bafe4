"""The clusters behind the DataCenters: opened, mirrored, replaced when a kubeconfig changes."""

import asyncio
import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass

from geotrain.api import labels, tokens
from geotrain.api.objects import BANDWIDTH_SCHEDULES, NAMESPACES, SECRETS, SERVICE_ACCOUNTS
from geotrain.api.reasons import Reason
from geotrain.api.v1alpha1 import DataCenter
from geotrain.errors import (
    ClusterError,
    Conflict,
    CredentialsError,
    Forbidden,
    NotFound,
    Unauthorized,
)
from geotrain.roles.controller import renewal
from geotrain.roles.controller.mirror import Listener, Mirror
from geotrain.roles.controller.ports import Clock, Cluster
from geotrain.roles.controller.renewal import Login
from geotrain.units import Seconds

LOCAL = "hub"
"""The key of the hub among clusters."""

CLUSTER_ID = "kube-system"
"""The namespace whose UID tells clusters apart: each cluster has it, made with the cluster."""

OpenCluster = Callable[[str], Cluster]
"""Makes a cluster from a kubeconfig's text. Raises CredentialsError when it cannot be used."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a data centre has no cluster."""

    reason: Reason
    message: str


@dataclass(slots=True)
class Site:
    """A cluster that is open, with the task that follows it and the digest of its kubeconfig.

    ``login`` is None for the hub. ``uid`` is the cluster's identity, '' until it has told it.
    ``renewal_fault`` is why its token could not be renewed.
    """

    key: str
    mirror: Mirror
    digest: str
    task: asyncio.Task[None]
    login: Login | None = None
    uid: str = ""
    renewal_fault: str = ""

    @property
    def cluster(self) -> Cluster:
        """The cluster's API."""
        return self.mirror.cluster

    async def close(self) -> None:
        """Stop following and give up connections; the hub's own API stays open."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        if self.key != LOCAL:
            await self.cluster.close()


class Members:
    """All sites, by the DataCenter that leads to them; several may lead to one."""

    def __init__(
        self, hub: Cluster, open_cluster: OpenCluster, listener: Listener, clock: Clock
    ) -> None:
        self._hub = hub
        self._open_cluster = open_cluster
        self._listener = listener
        self._clock = clock
        self._changing = asyncio.Lock()
        self._sites: dict[str, Site] = {}
        self._homes: dict[str, str] = {}
        self._problems: dict[str, Problem] = {}

    def site(self, data_center: str) -> Site | None:
        """The open cluster of a data centre; None while it is not known to be the right one."""
        if data_center in self._problems:
            return None
        return self._sites.get(self._homes.get(data_center, ""))

    @property
    def hub_site(self) -> Site | None:
        """The hub, followed whether it is a data centre or not."""
        return self._sites.get(LOCAL)

    def is_unknown(self, data_center: str) -> bool:
        """Whether a data centre was never asked for."""
        return data_center not in self._homes and data_center not in self._problems

    def problem(self, data_center: str) -> Problem | None:
        """Why a data centre has no cluster, None when it has one or was never asked for."""
        return self._problems.get(data_center)

    def login(self, data_center: str) -> Login | None:
        """How a data centre's cluster is logged into, also while it is not used."""
        site = self._sites.get(self._homes.get(data_center, ""))
        return None if site is None else site.login

    def sites(self) -> tuple[Site, ...]:
        """All open clusters."""
        return tuple(self._sites[key] for key in sorted(self._sites))

    async def open_hub(self) -> None:
        """Follow the hub. To be done before anything is reconciled."""
        async with self._changing:
            await self._opened(LOCAL, None)

    async def ensure(self, data_center: DataCenter) -> Site | None:
        """Open the cluster of a data centre, or open it anew if its kubeconfig changed.

        Raises a ClusterError when the hub cannot be asked for the kubeconfig.
        """
        async with self._changing:
            site = await self._ensure(data_center)
        if site is not None:  # asked outside the lock: a silent member holds nobody up
            await self._identify(data_center, site)
        return self.site(data_center.name)

    async def renew(self, data_center: DataCenter) -> None:
        """Get a new token for a data centre where that is due, and keep it in its Secret."""
        site = self.site(data_center.name)
        login = site.login if site is not None else None
        if site is None or login is None:
            return
        if not login.is_due(self._clock.now()):
            site.renewal_fault = ""
            return
        try:
            await self._renew(site, login)
            site.renewal_fault = ""
        except Conflict:
            _log.info("the Secret of %s was changed by somebody else first", data_center.name)
        except ClusterError as error:
            site.renewal_fault = str(error)
            _log.warning("the token of %s is not renewed: %s", data_center.name, error)

    async def _renew(self, site: Site, login: Login) -> None:
        token = login.token
        assert token is not None, "only tokens are due"
        asked = tokens.request(token.namespace, token.account, login.lifetime)
        answer = await site.cluster.create(SERVICE_ACCOUNTS, asked, subresource="token")
        meta = login.secret["metadata"]
        patch = login.renewed(tokens.granted(answer))
        await self._hub.patch(SECRETS, meta["namespace"], meta["name"], patch)
        _log.info("the token of %s was renewed", site.key)

    async def _identify(self, data_center: DataCenter, site: Site) -> None:
        """Compare the cluster with the one that joined. One that was known and is silent stays."""
        name = data_center.name
        try:
            found = await site.cluster.get(NAMESPACES, "", CLUSTER_ID)
        except ClusterError as error:
            if not site.uid:
                self._problems[name] = self._silence(name, site, error)
                return
        else:
            site.uid = str(found["metadata"]["uid"])
        wanted = recorded_uid(data_center)
        if wanted and wanted != site.uid:
            self._problems[name] = Problem(Reason.ANOTHER_CLUSTER, _another(name, wanted, site.uid))
        else:
            self._problems.pop(name, None)

    def _silence(self, name: str, site: Site, error: ClusterError) -> Problem:
        if isinstance(error, Unauthorized):
            return Problem(*renewal.refusal(site.login, name, self._clock.now()))
        refused = isinstance(error, Forbidden)
        return Problem(Reason.FORBIDDEN if refused else Reason.UNREACHABLE, str(error))

    async def _ensure(self, data_center: DataCenter) -> Site | None:
        name = data_center.name
        key = access_key(data_center)
        try:
            login = None if key == LOCAL else await self._login(data_center)
            site = await self._opened(key, login)
        except CredentialsError as error:
            missing = isinstance(error.__cause__, NotFound | KeyError)
            reason = Reason.CREDENTIALS_MISSING if missing else Reason.CREDENTIALS_INVALID
            self._problems[name] = Problem(reason, str(error))
            await self._leave(name)
            return None
        before = self._homes.get(name, "")
        if before and before != key:
            await self._leave(name)
        if not site.uid or before != key:
            self._problems[name] = Problem(Reason.UNREACHABLE, "it has not answered yet")
        self._homes[name] = key
        return site

    async def forget(self, data_center: str) -> None:
        """Close the cluster of a DataCenter that was deleted, unless others lead to it."""
        async with self._changing:
            self._problems.pop(data_center, None)
            await self._leave(data_center)

    async def settle(self, timeout: Seconds) -> None:
        """Return when every site has been seen once, or could not be, or after ``timeout``."""
        waits = [asyncio.ensure_future(site.mirror.settled()) for site in self._sites.values()]
        if waits:
            _, late = await asyncio.wait(waits, timeout=timeout)
            for each in late:
                each.cancel()

    async def close(self) -> None:
        """Close all."""
        for site in self.sites():
            await site.close()
        self._sites.clear()
        self._homes.clear()

    async def _opened(self, key: str, login: Login | None) -> Site:
        text = login.kubeconfig if login is not None else ""
        digest = hashlib.sha256(tokens.without(text).encode()).hexdigest()
        before = self._sites.get(key)
        if before is not None and before.digest == digest:
            self._take(before, login)
            return before
        cluster = self._hub if key == LOCAL else self._cluster(key, text)
        if before is not None:
            _log.info("the kubeconfig of %s changed", key)
            await before.close()
        extra = (BANDWIDTH_SCHEDULES,) if key == LOCAL else ()
        mirror = Mirror(cluster, self._listener, extra)
        task = asyncio.create_task(mirror.run(), name=f"mirror of {key}")
        self._sites[key] = Site(key, mirror, digest, task, login)
        return self._sites[key]

    def _take(self, site: Site, login: Login | None) -> None:
        """The Secret as it is now. A new token is used from now on, and nothing is opened anew."""
        old, new = site.login, login
        site.login = login
        if old is not None and new is not None and old.kubeconfig != new.kubeconfig:
            site.cluster.renew(new.kubeconfig)

    def _cluster(self, key: str, kubeconfig: str) -> Cluster:
        try:
            return self._open_cluster(kubeconfig)
        except CredentialsError as error:
            namespace, name, entry = key.split("/")
            raise CredentialsError(f"Secret {namespace}/{name}, key {entry!r}: {error}") from error

    async def _leave(self, data_center: str) -> None:
        key = self._homes.pop(data_center, "")
        if key and key != LOCAL and key not in self._homes.values():
            site = self._sites.pop(key, None)
            if site is not None:
                await site.close()

    async def _login(self, data_center: DataCenter) -> Login:
        ref = data_center.spec.cluster.kubeconfig_secret_ref
        assert ref is not None, "the schema asks for local or a reference"
        place = f"Secret {ref.namespace}/{ref.name}"
        try:
            secret = await self._hub.get(SECRETS, ref.namespace, ref.name)
        except NotFound as error:
            raise CredentialsError(f"{place} does not exist; geotrain join makes it") from error
        except Forbidden as error:
            raise CredentialsError(f"{place} may not be read: {error}") from error
        try:
            return renewal.read(secret, ref.key)
        except KeyError as error:
            raise CredentialsError(f"{place} has no key {ref.key!r}") from error
        except ValueError as error:
            raise CredentialsError(f"{place}, key {ref.key!r}, is not text") from error


def recorded_uid(data_center: DataCenter) -> str:
    """The identity of the cluster that joined, '' where nobody wrote it down."""
    written = data_center.metadata.annotations.get(labels.CLUSTER_UID, "")
    return written or data_center.status.cluster_uid or ""


def _another(name: str, wanted: str, found: str) -> str:
    return (
        f"the kubeconfig leads to another cluster: its {CLUSTER_ID} has the UID {found}, and {name}"
        f" joined with {wanted}; nothing is done there. Mend the kubeconfig, or move the data"
        f" centre: geotrain leave {name}, then geotrain join {name}"
    )


def access_key(data_center: DataCenter) -> str:
    """What tells clusters apart; data centres that lead to one cluster have one key."""
    ref = data_center.spec.cluster.kubeconfig_secret_ref
    return LOCAL if ref is None else f"{ref.namespace}/{ref.name}/{ref.key}"
