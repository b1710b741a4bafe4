"""What the controller needs from the world outside; ``geotrain.adapters`` satisfies it.

``tests/support/fakes.py`` holds a cluster of equal standing: the same tests run against it and
against a real API server.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from geotrain.units import Seconds

Object: TypeAlias = dict[str, Any]
"""A Kubernetes object as in JSON."""

Patch: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A JSON merge patch (RFC 7386) or a JSON patch (RFC 6902)."""

EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED", "SYNCED"]


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind as the API's paths name it: ``Resource("apps/v1", "Deployment", "deployments")``."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True

    def __str__(self) -> str:
        return self.plural


@dataclass(frozen=True, slots=True)
class Change:
    """A change seen by a watch.

    ``SYNCED`` follows a list: every object that exists has been given as ``ADDED``, so whatever
    else was known is gone; ``object`` is then empty.
    """

    type: EventType
    object: Object


class Cluster(Protocol):
    """One Kubernetes API. Every method raises members of ``geotrain.errors.ClusterError``."""

    async def get(self, resource: Resource, namespace: str, name: str) -> Object:
        """Read one object; NotFound when there is none."""
        ...

    async def list(
        self, resource: Resource, namespace: str = "", selector: str = ""
    ) -> Sequence[Object]:
        """Read all objects that match the label selector; all namespaces where none is given."""
        ...

    async def create(self, resource: Resource, manifest: Object) -> Object:
        """Create an object; Conflict when it exists."""
        ...

    async def apply(self, resource: Resource, manifest: Object) -> Object:
        """Server-side apply as ``geotrain-controller``, taking over fields of others."""
        ...

    async def patch(
        self, resource: Resource, namespace: str, name: str, patch: Patch, *, subresource: str = ""
    ) -> Object:
        """Change an object by a JSON merge patch (a mapping) or a JSON patch (a sequence)."""
        ...

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        grace: Seconds | None = None,
    ) -> None:
        """Delete an object; NotFound when there is none, Conflict when its uid is another."""
        ...

    def watch(
        self, resource: Resource, namespace: str = "", selector: str = ""
    ) -> AsyncIterator[Change]:
        """List, then follow changes for ever, across closed streams and expired versions.

        Raises Unreachable, Forbidden or NotFound when the list itself fails; the caller decides
        when to try again.
        """
        ...

    async def pod_proxy_get(self, namespace: str, pod: str, port: int, path: str) -> Object:
        """GET a JSON document from a pod through the API server."""
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
