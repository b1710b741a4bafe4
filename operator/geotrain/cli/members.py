"""A job's pods in the clusters where they run, as the user may see them."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from geotrain.adapters import kubeconfigs
from geotrain.adapters.cluster import HttpCluster
from geotrain.adapters.credentials import from_document, parse
from geotrain.api import labels
from geotrain.api.objects import DATA_CENTERS, PODS, SECRETS, Object
from geotrain.api.v1alpha1 import DataCenter, GeoTrainingJob
from geotrain.cli import reaching
from geotrain.cli.hub import Session
from geotrain.cli.reaching import Place, Way
from geotrain.errors import ClusterError, CredentialsError, GeotrainError
from geotrain.units import Seconds

_PATIENCE: Final[Seconds] = 5.0
"""For one request to a cluster that may not be the right one, or may not answer at all."""
_SECRET: Final = "the hub's Secret"  # noqa: S105 (what it is called)


@dataclass(slots=True)
class Member:
    """A cluster that answers for a data centre, by the context that led there, and its pods."""

    data_center: str
    context: str
    cluster: HttpCluster
    pods: list[Object]


@dataclass(slots=True)
class Members:
    """The members that were found, and of the others why not."""

    job: GeoTrainingJob
    found: dict[str, Member] = field(default_factory=dict)
    missed: dict[str, str] = field(default_factory=dict)

    async def refresh(self, member: Member) -> list[Object]:
        """The pods that the job now has in a member."""
        member.pods = _own(await _pods(member.cluster, self.job), member.data_center)
        return member.pods


@contextlib.asynccontextmanager
async def reached(
    hub: Session, job: GeoTrainingJob, entries: Sequence[str]
) -> AsyncIterator[Members]:
    """The clusters of a job's data centres. ``entries`` are those of --member-context."""
    search = await _search(hub, job, entries)
    try:
        yield await search.run()
    finally:
        for cluster in search.opened.values():
            await cluster.close()


def homes(job: GeoTrainingJob) -> list[str]:
    """The data centres that the job's plan uses, in pipeline order."""
    plan = job.status.plan
    return list(dict.fromkeys(each.data_center for each in plan.stages)) if plan else []


async def _search(hub: Session, job: GeoTrainingJob, entries: Sequence[str]) -> "_Search":
    wanted = homes(job)
    asked = reaching.chosen(entries, wanted)
    for name in asked.values():
        kubeconfigs.context(hub.paths, name)  # a context that is not there is said at once
    centers = await hub.allowed(DataCenter, DATA_CENTERS) or ()
    known = {center.name: center for center in centers}
    secrets = {name: await _secret(hub, known.get(name)) for name in wanted}
    places = [
        Place(
            name,
            name in known and known[name].spec.cluster.local,
            secrets[name].server,
        )
        for name in wanted
    ]
    return _Search(hub, job, places, asked, secrets, _ways(hub))


def _ways(hub: Session) -> list[Way]:
    found = []
    for name in kubeconfigs.names(hub.paths):
        with contextlib.suppress(CredentialsError):  # a context without its cluster
            document = kubeconfigs.context(hub.paths, name)
            server = kubeconfigs.server(document)
            found.append(Way(name, server, kubeconfigs.runs_command(document)))
    return found


@dataclass(frozen=True, slots=True)
class _Kept:
    """The kubeconfig of a member that the hub holds, or why it cannot be had."""

    text: str = ""
    server: str = ""
    fault: str = ""


async def _secret(hub: Session, center: DataCenter | None) -> _Kept:
    ref = center.spec.cluster.kubeconfig_secret_ref if center else None
    if ref is None:
        return _Kept()
    try:
        secret = await hub.cluster.get(SECRETS, ref.namespace, ref.name)
        text = base64.b64decode((secret.get("data") or {}).get(ref.key, "")).decode()
        document = parse(text)
        return _Kept(text, kubeconfigs.server(document))
    except (GeotrainError, ValueError, KeyError, IndexError, TypeError) as error:
        return _Kept(fault=f"{_SECRET} {ref.namespace}/{ref.name} cannot be used: {error}")


@dataclass(slots=True)
class _Search:
    hub: Session
    job: GeoTrainingJob
    places: Sequence[Place]
    asked: Mapping[str, str]
    secrets: Mapping[str, _Kept]
    ways: Sequence[Way]
    opened: dict[str, HttpCluster] = field(default_factory=dict)
    pods: dict[str, list[Object]] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)

    async def run(self) -> Members:
        """Try the likely contexts of all, then the others of those that are still missed."""
        members = Members(self.job)
        tries = {
            place.name: reaching.likely(place, self.ways, self.hub.context, self.asked)
            for place in self.places
        }
        await self._look(sorted({name for names in tries.values() for name in names}))
        left = [place for place in self.places if not self._take(members, place, tries[place.name])]
        more = [place for place in left if place.name not in self.asked and not place.is_hub]
        if more:
            spare = reaching.others(self.ways, self.pods.keys() | self.faults.keys())
            await self._look(spare)
            for place in more:
                tries[place.name] = [*tries[place.name], *spare]
        for place in left:
            if self._take(members, place, tries[place.name]):
                continue
            if place in more and await self._by_secret(members, place):
                continue
            self._settle(members, place, tries[place.name])
        return members

    async def _look(self, names: Sequence[str]) -> None:
        """See what pods of the job each context shows."""

        async def one(name: str) -> None:
            try:
                cluster = HttpCluster(
                    kubeconfigs.credentials(kubeconfigs.context(self.hub.paths, name)),
                    timeout=_PATIENCE,
                )
                self.opened[name] = cluster
                self.pods[name] = await _pods(cluster, self.job)
            except (ClusterError, CredentialsError) as error:
                self.faults[name] = str(error)

        await asyncio.gather(*(one(name) for name in names))

    def _take(self, members: Members, place: Place, tries: Sequence[str]) -> bool:
        """Whether one of the contexts shows pods of the job in the data centre."""
        for name in tries:
            own = _own(self.pods.get(name, ()), place.name)
            if own:
                members.found[place.name] = Member(place.name, name, self.opened[name], own)
                return True
        return False

    async def _by_secret(self, members: Members, place: Place) -> bool:
        kept = self.secrets[place.name]
        if not kept.text:
            return False
        key = f"{_SECRET} for {place.name}"
        try:
            cluster = HttpCluster(from_document(parse(kept.text)), timeout=_PATIENCE)
            self.opened[key] = cluster
            own = _own(await _pods(cluster, self.job), place.name)
        except (ClusterError, CredentialsError) as error:
            self.faults[key] = str(error)
            return False
        members.found[place.name] = Member(place.name, key, cluster, own)
        return True

    def _settle(self, members: Members, place: Place, tries: Sequence[str]) -> None:
        """A context that was given, or that the hub knows, is right even if it shows no pods."""
        sure = [name for name in tries if name in self.pods][:1]
        certain = place.name in self.asked or place.is_hub or self._is_known(place, sure)
        if sure and certain:
            members.found[place.name] = Member(place.name, sure[0], self.opened[sure[0]], [])
            return
        key = f"{_SECRET} for {place.name}"
        said = self.faults.get(key) or self.secrets[place.name].fault
        told = f"{_SECRET}: {said}" if key in self.faults else said
        members.missed[place.name] = reaching.missed(place, tries, self.faults, told)

    def _is_known(self, place: Place, names: Sequence[str]) -> bool:
        servers = {way.name: way.server for way in self.ways}
        return bool(place.server) and any(servers.get(name) == place.server for name in names)


async def _pods(cluster: HttpCluster, job: GeoTrainingJob) -> list[Object]:
    selector = f"{labels.JOB_UID}={job.metadata.uid},{labels.ROLE}={labels.ROLE_TRAINER}"
    return list(await cluster.list(PODS, job.namespace, selector))


def _own(pods: Sequence[Object], data_center: str) -> list[Object]:
    """Those of a data centre; several may be in one cluster."""
    return [
        pod
        for pod in pods
        if (pod["spec"].get("nodeSelector") or {}).get(labels.DATA_CENTER) == data_center
    ]
