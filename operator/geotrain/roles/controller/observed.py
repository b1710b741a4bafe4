"""What a reconcile of a job sees: the job, its members and what it has in them. Plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from geotrain.api import labels
from geotrain.api.facts import pod_from_manifest
from geotrain.api.networks import PodNetworks
from geotrain.api.reasons import Reason
from geotrain.api.v1alpha1 import DataCenter, GeoTrainingJob
from geotrain.fitting import Occupancy, PodFacts
from geotrain.roles.controller.decision import Manifest
from geotrain.roles.controller.inputs import Planned
from geotrain.roles.controller.ownership import Need, Taken
from geotrain.units import Seconds


@dataclass(frozen=True)
class Member:
    """A data centre and what its cluster holds of the job.

    ``cluster`` is equal for data centres of one cluster. ``fault`` is why the cluster cannot be
    seen now, '' while it can; ``owned`` is then what was seen last and proves nothing.
    ``obstacle`` is why nothing may be made for the owner in its namespace there, '' while it may.
    """

    data_center: DataCenter
    cluster: str
    fault: str = ""
    obstacle: str = ""
    owned: tuple[Manifest, ...] = ()
    networks: PodNetworks = field(default_factory=PodNetworks)
    occupancy: Occupancy = field(default_factory=Occupancy)

    @property
    def name(self) -> str:
        """The data centre's name."""
        return self.data_center.name

    @property
    def reachable(self) -> bool:
        """Whether what is seen is what is there."""
        return not self.fault


@dataclass(frozen=True)
class RankPod:
    """A training pod as observed in a member."""

    data_center: str
    manifest: Manifest

    @property
    def name(self) -> str:
        """The pod's name."""
        return str(self.manifest["metadata"]["name"])

    @property
    def rank(self) -> int:
        """The rank by its label, -1 where that is missing."""
        return self._number(labels.RANK)

    @property
    def attempt(self) -> int:
        """The gang that it belongs to, -1 where the label is missing."""
        return self._number(labels.ATTEMPT)

    @property
    def revision(self) -> str:
        """The plan and template that it was made from."""
        return self._labels.get(labels.REVISION, "")

    @property
    def phase(self) -> str:
        """Pending, Running, Succeeded, Failed or Unknown."""
        return str(self._status.get("phase", "Pending"))

    @property
    def gated(self) -> bool:
        """Whether our gate still holds it back."""
        gates = self.manifest["spec"].get("schedulingGates") or ()
        return any(gate["name"] == labels.SCHEDULING_GATE for gate in gates)

    @property
    def terminating(self) -> bool:
        """Whether it is being deleted."""
        return "deletionTimestamp" in self.manifest["metadata"]

    @property
    def address(self) -> str:
        """Its IP, '' while it has none; of several the IPv4 one, which sidecars can carry."""
        first = str(self._status.get("podIP", ""))
        every = [str(each.get("ip", "")) for each in self._status.get("podIPs") or ()]
        return next((ip for ip in (first, *every) if "." in ip), first)

    @property
    def ready(self) -> bool:
        """Whether it runs and says that it is ready, or says nothing about it."""
        said = self._conditions.get("Ready", {}).get("status", "True")
        return self.phase == "Running" and said == "True"

    @property
    def trouble(self) -> str:
        """Why it does not run, in Kubernetes's own words, '' where it says nothing."""
        scheduled = self._conditions.get("PodScheduled", {})
        if scheduled.get("status") == "False":
            return str(scheduled.get("message", ""))
        return self._waiting or str(self._status.get("message", ""))

    @property
    def end(self) -> str:
        """How it ended: the first container that failed, with its exit code."""
        statuses = self._status.get("containerStatuses") or ()
        for each in statuses:
            ended = each.get("state", {}).get("terminated") or {}
            if ended.get("exitCode"):
                why = ended.get("reason", "Error")
                return f"container {each['name']} ended with {ended['exitCode']} ({why})"
        return str(self._status.get("message") or self._status.get("reason") or "it failed")

    @cached_property
    def facts(self) -> PodFacts:
        """The pod as fitting sees it."""
        return pod_from_manifest(self.manifest)

    @property
    def _waiting(self) -> str:
        for key in ("initContainerStatuses", "containerStatuses"):
            for each in self._status.get(key) or ():
                waiting = each.get("state", {}).get("waiting") or {}
                if waiting.get("reason") not in (None, "PodInitializing", "ContainerCreating"):
                    return f"{each['name']}: {waiting['reason']} {waiting.get('message', '')}"
        return ""

    @property
    def _labels(self) -> Mapping[str, str]:
        return self.manifest["metadata"].get("labels") or {}

    @property
    def _status(self) -> Mapping[str, Any]:
        return self.manifest.get("status") or {}

    @property
    def _conditions(self) -> dict[str, Mapping[str, Any]]:
        return {c["type"]: c for c in self._status.get("conditions") or ()}

    def _number(self, label: str) -> int:
        text = self._labels.get(label, "")
        return int(text) if text.isdecimal() else -1


@dataclass(frozen=True, slots=True)
class Report:
    """What a rank's sidecar said, and when it was asked."""

    time: Seconds
    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PlanFault:
    """Why there is no plan for the present spec."""

    reason: Reason
    message: str


@dataclass(frozen=True)
class Observed:
    """All that a decision about a job is made from.

    ``planned`` is the plan by which the gang runs or would run, None where there never was one;
    ``plan_fault`` says why the *present* spec has none. ``hub`` is what the job has on the hub.
    ``reports`` are the sidecars' latest, by rank. ``has_finalizer`` tells whether the job waits
    for us before it goes. ``taken`` are names that the plan needs and that others' objects have.
    """

    job: GeoTrainingJob
    members: Mapping[str, Member] = field(default_factory=dict)
    hub: tuple[Manifest, ...] = ()
    planned: Planned | None = None
    plan_fault: PlanFault | None = None
    reports: Mapping[int, Report] = field(default_factory=dict)
    has_finalizer: bool = False
    sidecar_image: str = "geotrain:dev"
    taken: tuple[Taken, ...] = ()

    @cached_property
    def pods(self) -> tuple[RankPod, ...]:
        """All training pods of the job in reachable members, by name."""
        found = [
            RankPod(member.name, manifest)
            for member in self.clusters
            for manifest in member.owned
            if manifest["kind"] == "Pod"
        ]
        return tuple(sorted(found, key=lambda pod: (pod.rank, pod.data_center)))

    @cached_property
    def clusters(self) -> tuple[Member, ...]:
        """One reachable member of each cluster, in name order."""
        first: dict[str, Member] = {}
        for name in sorted(self.members):
            if self.members[name].reachable:
                first.setdefault(self.members[name].cluster, self.members[name])
        return tuple(first.values())

    def may_write(self, data_center: str, manifest: Manifest) -> bool:
        """Whether the name of a wanted object is free, or has the job's own."""
        return Need.of(data_center, manifest) not in {each.need for each in self.taken}

    def with_reports(self, reports: Mapping[int, Report]) -> "Observed":
        """The same with what the sidecars say."""
        return replace(self, reports=reports)
