"""Taking back what a job has in its members and on the hub. Pure: it only lists deletions.

Things go in the order in which they are needed by what still works: pods first; what stands around
them in a cluster after its last pod has gone; the job's BandwidthSchedules, which are its shares of
the links, after everything else, in every member. Of a member that does not answer nothing is
known, and so what the job may have there counts as still there.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Final

from geotrain.api import labels
from geotrain.roles.controller.decision import HUB, Manifest, Reference
from geotrain.roles.controller.draft import Draft
from geotrain.roles.controller.observed import Member, Observed, RankPod

Name = tuple[str, str]
"""Kind and name; everything of a job is in one namespace."""

_SCHEDULE: Final = "BandwidthSchedule"


@dataclass(frozen=True, slots=True)
class Left:
    """What a job still has: pods by data centre, members that do not answer, or anything else."""

    pods: Mapping[str, int]
    silent: tuple[str, ...]
    others: bool

    def __bool__(self) -> bool:
        return bool(self.pods or self.silent or self.others)

    @property
    def sentence(self) -> str:
        """What is waited for."""
        told: list[str] = []
        if self.pods:
            where = ", ".join(f"{count} in {name}" for name, count in sorted(self.pods.items()))
            number = sum(self.pods.values())
            said = "1 pod still ends" if number == 1 else f"{number} pods still end"
            told.append(f"{said} ({where})")
        if self.silent:
            told.append(f"{'; '.join(self.silent)}: pods there count as running until it answers")
        return "; ".join(told) or "the last pod has gone, and the rest is being removed"


def everything(observed: Observed, draft: Draft) -> Left:
    """Delete all that may go now; says what is left."""
    return _remove(observed, draft, spared=())


def all_but_ended_pods(observed: Observed, draft: Draft) -> Left:
    """Delete what holds GPUs, addresses or rates; pods that ended hold none and stay."""
    return _remove(observed, draft, spared=("Succeeded", "Failed"))


def pods(found: Iterable[RankPod], draft: Draft) -> None:
    """Delete pods that are not already going."""
    draft.deletions += [
        Reference.of(pod.data_center, pod.manifest) for pod in found if not pod.terminating
    ]


def leftovers(
    observed: Observed, draft: Draft, wanted: Mapping[str, Set[Name]], stale: Iterable[RankPod]
) -> None:
    """Delete what earlier plans left.

    ``wanted`` is what is to stay, by cluster. Where a ``stale`` pod still ends, and on the hub
    what ``wanted`` names, nothing goes yet, and what a pod still mounts stays with it. Pods are not
    looked at: the gang's own rules know when they go.
    """
    busy = {observed.members[pod.data_center].cluster for pod in stale}
    for member in observed.clusters:
        kept = wanted.get(member.cluster, frozenset()) | _mounted(member)
        if member.cluster not in busy:
            draft.deletions += _references(
                member.name,
                (m for m in _around(member) if (m["kind"], m["metadata"]["name"]) not in kept),
            )
    kept = wanted.get(HUB, frozenset())
    draft.deletions += _references(
        HUB, (m for m in observed.hub if (m["kind"], m["metadata"]["name"]) not in kept)
    )


def outdated_schedules(observed: Observed, revision: str, stale: Iterable[RankPod]) -> set[Name]:
    """Schedules of an earlier plan whose rates may still be in use: they stay as they are.

    None once its last pod has gone, and every member that it ran in was asked.
    """
    old = {
        (_SCHEDULE, manifest["metadata"]["name"]): manifest["spec"].get("dataCenter", "")
        for manifest in observed.hub
        if manifest["kind"] == _SCHEDULE and manifest["spec"].get("revision") != revision
    }
    unknown = any(
        name in observed.members and not observed.members[name].reachable for name in old.values()
    )
    used = unknown or any(pod.revision != revision for pod in stale)
    return set(old) if used else set()


def is_clean(observed: Observed) -> bool:
    """Whether nothing is left that can be seen."""
    return not (observed.hub or any(member.owned for member in observed.clusters))


def _remove(observed: Observed, draft: Draft, spared: tuple[str, ...]) -> Left:
    ending: dict[str, int] = {}
    around = False
    for member in observed.clusters:
        here = [pod for pod in observed.pods if pod.data_center == member.name]
        going = [pod for pod in here if pod.phase not in spared]
        pods(going, draft)
        if going:
            ending[member.name] = len(going)
        else:
            draft.deletions += _references(member.name, _around(member))
            around = around or bool(_around(member))
    silent = _silent_homes(observed, spared)
    waits = bool(ending or around or silent)
    draft.deletions += _references(
        HUB, (m for m in observed.hub if not (waits and m["kind"] == _SCHEDULE))
    )
    return Left(ending, silent, around or bool(observed.hub))


def _silent_homes(observed: Observed, spared: tuple[str, ...]) -> tuple[str, ...]:
    """Members that do not answer and in which the job may have something, each with why.

    The job's schedules tell where, for they are made before its pods and go after them. A deleted
    DataCenter is given up.
    """
    plan = observed.job.status.plan
    homes = {m["spec"].get("dataCenter", "") for m in observed.hub if m["kind"] == _SCHEDULE}
    if homes and plan is not None:
        homes |= {segment.data_center for segment in plan.stages}
    silent = [member for _, member in sorted(observed.members.items()) if not member.reachable]
    return tuple(
        f"{member.name}: {member.fault}"
        for member in silent
        if member.name in homes or (member.owned and not spared)
    )


def _around(member: Member) -> list[Manifest]:
    return [manifest for manifest in member.owned if manifest["kind"] != "Pod"]


def _mounted(member: Member) -> set[Name]:
    """The ConfigMaps that pods of the job have as volumes."""
    return {
        ("ConfigMap", volume["configMap"].get("name", ""))
        for manifest in member.owned
        if manifest["kind"] == "Pod"
        for volume in manifest["spec"].get("volumes") or ()
        if "configMap" in volume
    }


def _references(data_center: str, manifests: Iterable[Manifest]) -> list[Reference]:
    """All that is not already going, or goes only when we say so."""
    return [
        Reference.of(data_center, manifest)
        for manifest in manifests
        if "deletionTimestamp" not in manifest["metadata"]
        or labels.FINALIZER in (manifest["metadata"].get("finalizers") or ())
    ]
