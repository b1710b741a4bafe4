"""Looking: gathers the facts for one reconcile. The only place that reads.

The hub's own resources are few and are read afresh, so that no decision is made from an old
spec; what members hold comes from their mirrors.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from geotrain.api import calibrations, convert, estimate, labels, measured_profiles
from geotrain.api.estimate import JobCosts
from geotrain.api.namespaces import obstacle
from geotrain.api.objects import (
    BANDWIDTH_SCHEDULES,
    CONFIG_MAPS,
    DATA_CENTERS,
    WAN_LINKS,
    ApiResource,
    Object,
    resource_of,
)
from geotrain.api.pod_template import template_in
from geotrain.api.reasons import Reason
from geotrain.api.v1alpha1 import (
    BandwidthSchedule,
    DataCenter,
    GeoTrainingJob,
    PrefillPool,
    WanLink,
)
from geotrain.api.v1alpha1.resource import Resource
from geotrain.errors import ClusterError, InputError, NotFound, Unreachable
from geotrain.roles.controller import reconcile
from geotrain.roles.controller.children import Gang, needs
from geotrain.roles.controller.children.config import INPUTS, ledger_name
from geotrain.roles.controller.datacenters import pod_networks
from geotrain.roles.controller.decision import HUB
from geotrain.roles.controller.eligibility import Eligible, eligible, template_fault
from geotrain.roles.controller.inputs import Inputs, Planned, spec_digest, with_reserved
from geotrain.roles.controller.links import reserved_by_others
from geotrain.roles.controller.members import Members, Site
from geotrain.roles.controller.mirror import Place
from geotrain.roles.controller.observed import Member, Observed, PlanFault
from geotrain.roles.controller.ownership import Need, Taken, owner, whose
from geotrain.roles.controller.planner import Planner
from geotrain.roles.controller.ports import Cluster
from geotrain.roles.controller.room import free_gpus, shortages
from geotrain.units import Seconds

_HUB_KINDS: Final = ("BandwidthSchedule",)
_Kind = TypeVar("_Kind", bound=Resource)
_Read = TypeVar("_Read")
Holder: TypeAlias = GeoTrainingJob | PrefillPool

_log = logging.getLogger(__name__)


class PlanningFailed(Exception):
    """There are no inputs to plan from; carries the fault."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.fault = PlanFault(reason, message)


@dataclass(frozen=True, slots=True)
class Observer:
    """Gathers facts from the hub and from the members' mirrors."""

    hub: Cluster
    members: Members
    planner: Planner
    image: str
    settle_timeout: Seconds

    async def job(self, manifest: Object) -> Observed:
        """What is to be seen of a job. Raises InputError when it cannot be read."""
        job = GeoTrainingJob.from_manifest(manifest)
        centers = await self.data_centers()
        owned = await self.seen(centers, job)
        hub = self.on_hub(job)
        hub_uids = {each["metadata"]["uid"] for each in hub}
        observed = Observed(
            job=job,
            members={name: _without(member, hub_uids) for name, member in owned.items()},
            hub=hub,
            planned=await self._kept_plan(job),
            has_finalizer=labels.FINALIZER in (manifest["metadata"].get("finalizers") or ()),
            sidecar_image=self.image,
        )
        if reconcile.wants_plan(observed):
            observed = await self._planned(observed)
        else:  # pods of a template that may not be are left alone, and not made again
            observed = replace(observed, plan_fault=template_fault(job))
        return replace(observed, taken=await self._taken_of(observed))

    async def data_centers(self) -> tuple[DataCenter, ...]:
        """All DataCenters; their clusters are opened if they are not yet."""
        centers = read_all(DataCenter, await self.hub.list(DATA_CENTERS))
        unknown = [c for c in centers if self.members.is_unknown(c.name)]
        # Side by side, so that those who do not answer are waited for once.
        await asyncio.gather(*(self.members.ensure(each) for each in unknown))
        if unknown:
            await self.members.settle(self.settle_timeout)
        return centers

    async def seen(self, centers: Iterable[DataCenter], holder: Holder) -> dict[str, Member]:
        """The members with what their clusters hold of a job or pool."""
        return {center.name: self._member(center, holder) for center in centers}

    async def taken(self, needs: Iterable[Need], uid: str) -> tuple[Taken, ...]:
        """Those of the needed names that objects of others have, as far as is known.

        What was found in the way before is asked for again, and forgotten once it is gone.
        """
        found: list[Taken] = []
        for need in needs:
            on_hub = need.data_center == HUB
            site = self._hub_site if on_hub else self.members.site(need.data_center)
            if site is None:
                continue
            resource = resource_of(need.api_version, need.kind)
            other = site.mirror.find(resource, (need.namespace, need.name))
            if other is None and site.mirror.namesake(resource, (need.namespace, need.name)):
                other = await _look_again(site, resource, (need.namespace, need.name))
            if other is not None and owner(other) != uid:
                found.append(Taken(need, whose(other)))
        return tuple(found)

    def on_hub(self, job: GeoTrainingJob) -> tuple[Object, ...]:
        """What a job has on the hub: its schedules and what its plan was made from."""
        ledger = ledger_name(job.name)
        return tuple(
            each
            for each in self.owned_on_hub(job.metadata.uid)
            if each["kind"] in _HUB_KINDS
            or (each["kind"], each["metadata"]["name"]) == ("ConfigMap", ledger)
        )

    def owned_on_hub(self, uid: str) -> tuple[Object, ...]:
        """All that the hub's cluster holds of a job or pool."""
        return self._hub_site.mirror.owned(uid)

    def schedules(self) -> tuple[BandwidthSchedule, ...]:
        """All BandwidthSchedules."""
        return read_all(BandwidthSchedule, self._hub_site.mirror.objects(BANDWIDTH_SCHEDULES))

    @property
    def _hub_site(self) -> Site:
        """The hub's mirror. Without its first lists a job would seem to have no plan."""
        site = self.members.hub_site
        if site is None or not site.mirror.synced:
            raise Unreachable("the hub has not answered yet")
        return site

    async def _taken_of(self, observed: Observed) -> tuple[Taken, ...]:
        job = observed.job
        if observed.planned is None or job.spec.suspend or job.metadata.deletion_timestamp:
            return ()
        gang = Gang(job, observed.planned, 0, {}, self.image)
        return await self.taken(needs(gang), job.metadata.uid)

    def _member(self, center: DataCenter, holder: Holder) -> Member:
        site = self.members.site(center.name)
        if site is None:
            problem = self.members.problem(center.name)
            return Member(center, "", problem.message if problem else "it was not yet asked")
        mirror = site.mirror
        namespace, template = holder.namespace, template_in(holder, center.name)
        fault = str(mirror.fault or "") or ("" if mirror.synced else "it has not answered yet")
        return Member(
            data_center=center,
            cluster=site.key,
            fault=fault,
            obstacle=obstacle(mirror.namespace(namespace), namespace, template),
            owned=tuple(
                each
                for each in mirror.owned(holder.metadata.uid)
                if each["metadata"].get("namespace", "") == namespace
            ),
            networks=pod_networks(center, mirror.nodes()),
            occupancy=mirror.occupancy,
        )

    async def _kept_plan(self, job: GeoTrainingJob) -> Planned | None:
        """The plan by which the job runs, made again from the inputs that were kept."""
        place = job.namespace, ledger_name(job.name)
        kept = self._hub_site.mirror.find(CONFIG_MAPS, place)
        if kept is None or owner(kept) != job.metadata.uid:
            return None
        try:
            inputs = Inputs.from_text((kept.get("data") or {}).get(INPUTS, ""))
        except InputError as error:
            _log.warning("%s/%s: %s; it is planned anew", job.namespace, job.name, error)
            return None
        answer = await self.planner.plan(job, inputs)
        if not isinstance(answer, Planned):
            return None
        if inputs.spec == spec_digest(job):
            return answer
        # The gang is one of the spec before; by the present one it would be none of the job's.
        return replace(answer, revision=kept["metadata"]["labels"][labels.REVISION])

    async def _planned(self, observed: Observed) -> Observed:
        """With a new plan, or with the reason why there is none."""
        job = observed.job
        centers = template_fault(job) or eligible(job, observed.members)
        if isinstance(centers, PlanFault):
            return replace(observed, plan_fault=centers)
        try:
            inputs = await self._inputs(observed, centers.names)
        except PlanningFailed as failure:
            return replace(observed, plan_fault=failure.fault)
        answer = await self.planner.plan(observed.job, inputs)
        if isinstance(answer, Planned):
            return replace(observed, planned=answer)
        return replace(observed, plan_fault=_explained(answer, observed, centers))

    async def _inputs(self, observed: Observed, names: Sequence[str]) -> Inputs:
        job, members = observed.job, observed.members
        centers = [members[name].data_center for name in names]
        costs = await self._costs(job, centers)
        links = read_all(WanLink, await self.hub.list(WAN_LINKS))
        try:
            workload = convert.workload(job, costs)
            topology = convert.topology(centers, links, free_gpus(job, members))
        except (InputError, ValueError) as error:
            raise PlanningFailed(Reason.INVALID_SPEC, str(error)) from error
        others = reserved_by_others(self.schedules(), f"{job.namespace}/{job.name}")
        return Inputs(spec_digest(job), with_reserved(topology, others), workload)

    async def _costs(self, job: GeoTrainingJob, centers: Sequence[DataCenter]) -> JobCosts:
        """What the job's layers take in each data centre, measured or estimated."""
        measured, given = job.spec.profile_ref, job.spec.calibration_ref
        if measured is not None:
            read = partial(measured_profiles.costs, job=job, centers=centers)
            return await self._read(job, measured.name, measured.key, read)
        calibration = None
        if given is not None:
            calibration = await self._read(job, given.name, given.key, calibrations.read)
        try:
            return estimate.estimated(job, centers, calibration)
        except InputError as error:
            raise PlanningFailed(Reason.UNKNOWN_ACCELERATOR, str(error)) from error

    async def _read(
        self, job: GeoTrainingJob, name: str, key: str, read: Callable[[Mapping[str, Any]], _Read]
    ) -> _Read:
        """What a JSON object in a key of a ConfigMap says."""
        place = f"ConfigMap {job.namespace}/{name}"
        try:
            found = await self.hub.get(CONFIG_MAPS, job.namespace, name)
        except NotFound as error:
            message = f"{place} does not exist"
            raise PlanningFailed(Reason.PROFILE_MISSING, message) from error
        text = (found.get("data") or {}).get(key)
        if text is None:
            message = f"{place} has no key {key!r}"
            raise PlanningFailed(Reason.PROFILE_MISSING, message)
        try:
            return read(convert.document(text, f"{place}, key {key!r},"))
        except (InputError, ValueError) as error:
            message = f"{place}, key {key!r}: {error}"
            raise PlanningFailed(Reason.PROFILE_INVALID, message) from error


def read_all(kind: type[_Kind], manifests: Iterable[Object]) -> tuple[_Kind, ...]:
    """All that can be read; the rest is left out with a warning, so that one does not stop all."""
    found: list[_Kind] = []
    for manifest in manifests:
        try:
            found.append(kind.from_manifest(manifest))
        except InputError as error:
            _log.warning("%s %s: %s", kind.kind(), manifest["metadata"]["name"], error)
    return tuple(found)


async def _look_again(site: Site, resource: ApiResource, place: Place) -> Object | None:
    """What was found in the way as it is now; as it was while the cluster cannot be asked."""
    try:
        found = await site.cluster.find(resource, *place)
    except ClusterError as error:
        _log.info("%s %s cannot be asked for: %s", resource, "/".join(place), error)
        return site.mirror.namesake(resource, place)
    if found is None:
        site.mirror.clear(resource, place)
    elif owner(found):
        site.mirror.put(resource, found)
    else:
        site.mirror.note(resource, found)
    return found


def _without(member: Member, uids: set[str]) -> Member:
    """A member that is the hub shows the hub's own objects too; they are not the member's."""
    kept = tuple(each for each in member.owned if each["metadata"]["uid"] not in uids)
    return replace(member, owned=kept)


def _explained(fault: PlanFault, observed: Observed, centers: Eligible) -> PlanFault:
    """The planner only counts GPUs; the user should know why a data centre has none to give."""
    members = observed.members
    silent = [f"{m.name} is left out: {m.fault}" for m in members.values() if not m.reachable]
    silent += [f"{name} is left out: {why}" for name, why in sorted(centers.left_out.items())]
    placing = fault.reason == Reason.NO_FEASIBLE_PLACEMENT
    asked = {name: members[name] for name in centers.names}
    lacking = shortages(observed.job, asked) if placing else []
    return replace(fault, message="; ".join([fault.message, *lacking, *silent]))
