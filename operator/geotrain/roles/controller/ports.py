"""What the controller needs from the world outside; ``geotrain.adapters`` satisfies it.

``tests/support/fakes.py`` holds a cluster of equal standing: the same tests run against it and
against a real API server.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Protocol

from geotrain.api.objects import ApiResource, Change, Object, Patch
from geotrain.units import Seconds


class Cluster(Protocol):
    """One Kubernetes API. Every method raises members of ``geotrain.errors.ClusterError``."""

    async def get(self, resource: ApiResource, namespace: str, name: str) -> Object:
        """Read one object; NotFound when there is none."""
        ...

    async def find(self, resource: ApiResource, namespace: str, name: str) -> Object | None:
        """Read one object, None when there is none, with the right to list its kind."""
        ...

    async def list(
        self, resource: ApiResource, namespace: str = "", selector: str = ""
    ) -> Sequence[Object]:
        """Read all objects that match the label selector; all namespaces where none is given."""
        ...

    async def create(
        self, resource: ApiResource, manifest: Object, *, subresource: str = ""
    ) -> Object:
        """Create an object, or a subresource of the one that it names; Conflict when it exists."""
        ...

    async def apply(self, resource: ApiResource, manifest: Object) -> Object:
        """Server-side apply as ``geotrain-controller``, taking over fields of others."""
        ...

    async def patch(
        self,
        resource: ApiResource,
        namespace: str,
        name: str,
        patch: Patch,
        *,
        subresource: str = "",
    ) -> Object:
        """Change an object by a JSON merge patch (a mapping) or a JSON patch (a sequence)."""
        ...

    async def delete(
        self,
        resource: ApiResource,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        grace: Seconds | None = None,
    ) -> None:
        """Delete an object; NotFound when there is none, Conflict when its uid is another."""
        ...

    def watch(
        self, resource: ApiResource, namespace: str = "", selector: str = ""
    ) -> AsyncIterator[Change]:
        """List, then follow changes for ever, across closed streams and expired versions.

        Raises a ClusterError when the list fails or no stream can be opened; the caller decides
        when to try again.
        """
        ...

    async def pod_proxy_get(self, namespace: str, pod: str, port: int, path: str) -> Object:
        """GET a JSON document from a pod through the API server."""
        ...

    async def version(self) -> str:
        """The API server's version, like v1.33.1."""
        ...

    def renew(self, kubeconfig: str) -> None:
        """Log in as another kubeconfig of the same cluster says; watches that are open go on."""
        ...

    async def close(self) -> None:
        """Give up all connections."""
        ...


class Clock(Protocol):
    """Wall-clock time, which is what timestamps in Kubernetes objects mean."""

    def now(self) -> Seconds:
        """Seconds since 1970 (UTC)."""
        ...

    async def sleep(self, duration: Seconds) -> None:
        """Return after ``duration``."""
        ...


ClusterFactory = Callable[[Mapping[str, object]], Cluster]
"""Makes a cluster from a parsed kubeconfig. Raises CredentialsError when it cannot be used."""
