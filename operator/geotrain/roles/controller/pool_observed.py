"""What a reconcile of a pool sees: the pool, its job, and what it has in members and hub."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from geotrain.api import labels
from geotrain.api.v1alpha1 import GeoTrainingJob, PrefillPool
from geotrain.prefill.profile import PrefillProfile
from geotrain.roles.controller.decision import HUB, Manifest
from geotrain.roles.controller.observed import Member, PlanFault, RankPod
from geotrain.roles.controller.ownership import Need, Taken


@dataclass(frozen=True)
class WorkerPod(RankPod):
    """A prefill pod as observed; ``data_center`` is a member of its cluster."""

    @property
    def home(self) -> str:
        """The data centre that it is bound to."""
        selector = self.manifest["spec"].get("nodeSelector") or {}
        return str(selector.get(labels.DATA_CENTER, self.data_center))

    @property
    def beside(self) -> int:
        """The rank whose GPUs it shares, -1 where the label is missing."""
        return self._number(labels.BESIDE_RANK)

    @property
    def ended(self) -> bool:
        """Whether it has stopped for good: evicted, or refused by its node."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def ended_at(self) -> str:
        """When it stopped (RFC 3339), '' where nothing says so."""
        statuses = self.manifest.get("status", {}).get("containerStatuses") or ()
        times = [
            ended["finishedAt"]
            for each in statuses
            if (ended := each.get("state", {}).get("terminated")) and ended.get("finishedAt")
        ]
        created = self.manifest["metadata"].get("creationTimestamp", "")
        return str(max(times, default=created) or "")


@dataclass(frozen=True)
class PoolObserved:
    """All that a decision about a pool is made from.

    ``job`` is what ``pools.bound_job`` picked and ``ranks`` its training pods, as far as members
    answer. ``members`` are all data centres, each with what its cluster holds *of the pool*;
    ``hub`` is what the pool has on the hub. ``profile`` is read or estimated, or says why not.
    ``stats`` is the router's latest ``/stats``, None while no router answers. ``taken`` are names
    that the pool needs and that others' objects have.
    """

    pool: PrefillPool
    members: Mapping[str, Member] = field(default_factory=dict)
    hub: tuple[Manifest, ...] = ()
    job: GeoTrainingJob | None = None
    ranks: Sequence[RankPod] = ()
    profile: PrefillProfile | PlanFault | None = None
    stats: Mapping[str, Any] | None = None
    has_finalizer: bool = False
    router_image: str = "geotrain:dev"
    taken: tuple[Taken, ...] = ()

    @cached_property
    def clusters(self) -> tuple[Member, ...]:
        """One reachable member of each cluster, in name order."""
        first: dict[str, Member] = {}
        for name in sorted(self.members):
            if self.members[name].reachable:
                first.setdefault(self.members[name].cluster, self.members[name])
        return tuple(first.values())

    def may_write(self, data_center: str, manifest: Manifest) -> bool:
        """Whether the name of a wanted object is free, or has the pool's own."""
        return Need.of(data_center, manifest) not in {each.need for each in self.taken}

    @property
    def unseen(self) -> frozenset[str]:
        """Data centres whose clusters do not answer."""
        return frozenset(n for n, member in self.members.items() if not member.reachable)

    @cached_property
    def workers(self) -> tuple[WorkerPod, ...]:
        """All prefill pods of the pool in reachable members, by name."""
        found = [
            WorkerPod(member.name, manifest)
            for member in self.clusters
            for manifest in member.owned
            if _role(manifest) == labels.ROLE_PREFILL
        ]
        return tuple(sorted(found, key=lambda pod: pod.name))

    @cached_property
    def routers(self) -> tuple[RankPod, ...]:
        """The router's pods on the hub, by name."""
        found = [RankPod(HUB, each) for each in self.hub if _role(each) == labels.ROLE_ROUTER]
        return tuple(sorted(found, key=lambda pod: pod.name))


def _role(manifest: Manifest) -> str:
    tags = manifest["metadata"].get("labels") or {}
    return str(tags.get(labels.ROLE, "")) if manifest["kind"] == "Pod" else ""
