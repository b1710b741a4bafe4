"""What a hook needs from the world outside; ``geotrain.adapters`` satisfies it."""

from collections.abc import Sequence
from typing import Protocol

from geotrain.api.objects import ApiResource, Object, Patch
from geotrain.units import Seconds


class Cluster(Protocol):
    """One Kubernetes API. Every method raises members of ``geotrain.errors.ClusterError``."""

    async def get(self, resource: ApiResource, namespace: str, name: str) -> Object:
        """Read one object; NotFound when there is none."""
        ...

    async def list(
        self, resource: ApiResource, namespace: str = "", selector: str = ""
    ) -> Sequence[Object]:
        """Read all objects that match the label selector; all namespaces where none is given."""
        ...

    async def apply(self, resource: ApiResource, manifest: Object) -> Object:
        """Server-side apply, taking over fields of others."""
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


class Clock(Protocol):
    """Time, and waiting."""

    def now(self) -> Seconds:
        """Seconds since 1970 (UTC)."""
        ...

    async def sleep(self, duration: Seconds) -> None:
        """Return after ``duration``."""
        ...
