"""The clusters behind the DataCenters: opened, mirrored, replaced when a kubeconfig changes."""

import asyncio
import base64
import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass

from geotrain.api.objects import BANDWIDTH_SCHEDULES, SECRETS
from geotrain.api.reasons import Reason
from geotrain.api.v1alpha1 import DataCenter
from geotrain.errors import CredentialsError, Forbidden, NotFound
from geotrain.roles.controller.mirror import Listener, Mirror
from geotrain.roles.controller.ports import Cluster
from geotrain.units import Seconds

LOCAL = "hub"
"""The key of the hub among clusters."""

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
    """A cluster that is open, with the task that follows it and the digest of its kubeconfig."""

    key: str
    mirror: Mirror
    digest: str
    task: asyncio.Task[None]

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

    def __init__(self, hub: Cluster, open_cluster: OpenCluster, listener: Listener) -> None:
        self._hub = hub
        self._open_cluster = open_cluster
        self._listener = listener
        self._changing = asyncio.Lock()
        self._sites: dict[str, Site] = {}
        self._homes: dict[str, str] = {}
        self._problems: dict[str, Problem] = {}

    def site(self, data_center: str) -> Site | None:
        """The open cluster of a data centre."""
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

    def sites(self) -> tuple[Site, ...]:
        """All open clusters."""
        return tuple(self._sites[key] for key in sorted(self._sites))

    async def open_hub(self) -> None:
        """Follow the hub. To be done before anything is reconciled."""
        async with self._changing:
            await self._opened(LOCAL, "")

    async def ensure(self, data_center: DataCenter) -> Site | None:
        """Open the cluster of a data centre, or open it anew if its kubeconfig changed.

        Raises a ClusterError when the hub cannot be asked for the kubeconfig.
        """
        async with self._changing:
            return await self._ensure(data_center)

    async def _ensure(self, data_center: DataCenter) -> Site | None:
        name = data_center.name
        key = access_key(data_center)
        try:
            text = "" if key == LOCAL else await self._kubeconfig(data_center)
            site = await self._opened(key, text)
        except CredentialsError as error:
            missing = isinstance(error.__cause__, NotFound | KeyError)
            reason = Reason.CREDENTIALS_MISSING if missing else Reason.CREDENTIALS_INVALID
            self._problems[name] = Problem(reason, str(error))
            await self._leave(name)
            return None
        if self._homes.get(name, key) != key:
            await self._leave(name)
        self._problems.pop(name, None)
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

    async def _opened(self, key: str, text: str) -> Site:
        digest = hashlib.sha256(text.encode()).hexdigest()
        before = self._sites.get(key)
        if before is not None and before.digest == digest:
            return before
        cluster = self._hub if key == LOCAL else self._cluster(key, text)
        if before is not None:
            _log.info("the kubeconfig of %s changed", key)
            await before.close()
        extra = (BANDWIDTH_SCHEDULES,) if key == LOCAL else ()
        mirror = Mirror(cluster, self._listener, extra)
        task = asyncio.create_task(mirror.run(), name=f"mirror of {key}")
        self._sites[key] = Site(key, mirror, digest, task)
        return self._sites[key]

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

    async def _kubeconfig(self, data_center: DataCenter) -> str:
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
            encoded = (secret.get("data") or {})[ref.key]
        except KeyError as error:
            raise CredentialsError(f"{place} has no key {ref.key!r}") from error
        try:
            return base64.b64decode(encoded, validate=True).decode()
        except ValueError as error:
            raise CredentialsError(f"{place}, key {ref.key!r}, is not text") from error


def access_key(data_center: DataCenter) -> str:
    """What tells clusters apart; data centres that lead to one cluster have one key."""
    ref = data_center.spec.cluster.kubeconfig_secret_ref
    return LOCAL if ref is None else f"{ref.namespace}/{ref.name}/{ref.key}"
