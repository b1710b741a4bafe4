"""What the extender needs from the world outside; ``geotrain.adapters.cluster`` satisfies it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol, TypeAlias

from geotrain.api.objects import ApiResource, Change
from geotrain.units import Seconds

Sleep: TypeAlias = Callable[[Seconds], Awaitable[None]]


class Cluster(Protocol):
    """One Kubernetes API, as far as it can be watched."""

    def watch(
        self, resource: ApiResource, namespace: str = "", selector: str = ""
    ) -> AsyncIterator[Change]:
        """List (as ADDED), say SYNCED, then follow changes for ever.

        Raises a ClusterError when the list fails or no stream can be opened.
        """
        ...
