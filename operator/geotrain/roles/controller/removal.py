"""Taking back what a job has in its members and on the hub. Pure: it only lists deletions."""

from collections.abc import Iterable, Mapping, Set

from geotrain.roles.controller.decision import HUB, Manifest, Reference
from geotrain.roles.controller.draft import Draft
from geotrain.roles.controller.observed import Observed, RankPod

Name = tuple[str, str]
"""Kind and name; everything of a job is in one namespace."""


def everything(observed: Observed, draft: Draft) -> None:
    """Delete all that is not already going."""
    draft.deletions += _present(observed)


def all_but_ended_pods(observed: Observed, draft: Draft) -> None:
    """Delete what still holds GPUs, addresses or rates."""
    ended = {("Pod", pod.name) for pod in observed.pods if pod.phase in ("Succeeded", "Failed")}
    draft.deletions += [r for r in _present(observed) if (r.kind, r.name) not in ended]


def pods(found: Iterable[RankPod], draft: Draft) -> None:
    """Delete pods that are not already going."""
    draft.deletions += [
        Reference.of(pod.data_center, pod.manifest) for pod in found if not pod.terminating
    ]


def leftovers(observed: Observed, draft: Draft, wanted: Mapping[str, Set[Name]]) -> None:
    """Delete what earlier plans left.

    ``wanted`` is what is to stay, by cluster. Pods are not looked at: the gang's own rules know
    when they go.
    """
    draft.deletions += [
        reference
        for reference in _present(observed)
        if reference.kind != "Pod"
        and (reference.kind, reference.name)
        not in wanted.get(_cluster_of(observed, reference.data_center), frozenset())
    ]


def is_clean(observed: Observed) -> bool:
    """Whether nothing is left that can be seen."""
    return not (observed.hub or any(member.owned for member in observed.clusters))


def unreachable_homes(observed: Observed) -> list[str]:
    """Members of the plan that do not answer, with why. A deleted DataCenter is none of them."""
    plan = observed.job.status.plan
    homes = [segment.data_center for segment in plan.stages] if plan else []
    silent = (observed.members[name] for name in homes if name in observed.members)
    return [f"{member.name}: {member.fault}" for member in silent if not member.reachable]


def _present(observed: Observed) -> list[Reference]:
    found: list[tuple[str, Manifest]] = [(HUB, manifest) for manifest in observed.hub]
    for member in observed.clusters:
        found += [(member.name, manifest) for manifest in member.owned]
    known: set[str] = set()
    references: list[Reference] = []
    for name, manifest in found:
        # A member that is the hub shows the hub's own objects a second time.
        uid = manifest["metadata"].get("uid", "")
        if uid not in known and "deletionTimestamp" not in manifest["metadata"]:
            references.append(Reference.of(name, manifest))
        known.add(uid)
    return references


def _cluster_of(observed: Observed, data_center: str) -> str:
    return observed.members[data_center].cluster if data_center else HUB
