"""Whether geotrain can leave a cluster, and what stands in the way. Pure.

A job holds the hub by its finalizer and a member by its pods. One that has ended or is suspended
holds nothing: its finalizer can go, and the job itself stays for the next installation.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from geotrain.api import labels

Manifest = Mapping[str, Any]

_MOST_NAMED: Final = 10
_ENDED: Final = ("Succeeded", "Failed")


def is_held(resource: Manifest) -> bool:
    """Whether the controller has to let a job or pool go before it can be gone."""
    return labels.FINALIZER in (resource["metadata"].get("finalizers") or ())


def live_jobs(jobs: Iterable[Manifest]) -> tuple[Manifest, ...]:
    """The jobs that may hold something in a member, or will as soon as there is room."""
    return tuple(job for job in jobs if is_held(job) and not _is_idle(job))


def is_leaving(resource: Manifest) -> bool:
    """Whether somebody has asked for its end."""
    return "deletionTimestamp" in resource["metadata"]


def live_pods(pods: Iterable[Manifest]) -> tuple[Manifest, ...]:
    """The pods that have not ended."""
    return tuple(p for p in pods if (p.get("status") or {}).get("phase") not in _ENDED)


def without_finalizer(resource: Manifest) -> Manifest:
    """The patch that lets go of a resource, unless somebody changed it meanwhile."""
    meta = resource["metadata"]
    left = [each for each in meta["finalizers"] if each != labels.FINALIZER]
    return {"metadata": {"finalizers": left, "resourceVersion": meta["resourceVersion"]}}


def jobs_refused(jobs: Sequence[Manifest], keep: str) -> str:
    """Why the hub cannot be uninstalled; ``keep`` is the command that stays with geotrain."""
    return (
        f"{_counted(len(jobs), 'job')} still {'runs' if len(jobs) == 1 else 'run'} or"
        f" {'waits' if len(jobs) == 1 else 'wait'} ({_named(map(_name, jobs))}), and nobody would"
        " end what they have in their clusters: suspend them (spec.suspend: true) or delete them"
        f" (kubectl delete pfp,gtj --all -A) and uninstall again, or keep geotrain by `{keep}`;"
        " with uninstall=Drain in the values, uninstalling suspends them itself"
    )


def jobs_remain(jobs: Sequence[Manifest], waited: float) -> str:
    """Why draining the hub did not end."""
    reasons = "; ".join(f"{_name(job)}: {_why(job)}" for job in jobs[:_MOST_NAMED])
    return (
        f"{_counted(len(jobs), 'job')} still had something in a cluster after {waited:.0f} s"
        f" ({reasons}): nothing was uninstalled; help or delete them, then uninstall again"
    )


def controller_remains(pods: Sequence[Manifest], waited: float) -> str:
    """Why the hub cannot be uninstalled although no job is live."""
    return (
        f"the controller was told to end and still ran after {waited:.0f} s"
        f" ({_named(map(_name, pods))}): nothing was uninstalled; see `kubectl describe pod`, then"
        " uninstall again"
    )


def pods_refused(pods: Sequence[Manifest], keep: str) -> str:
    """Why a member cannot be uninstalled; ``keep`` is the command that stays with geotrain."""
    return (
        f"{_counted(len(pods), 'pod')} of geotrain's jobs still"
        f" {'runs' if len(pods) == 1 else 'run'} in this cluster ({_named(_owners(pods))}), and the"
        " hub could no longer end them: take the cluster out at the hub (geotrain leave), or"
        f" suspend or delete these jobs there, and uninstall again, or keep geotrain by `{keep}`;"
        " with uninstall=Drain in the values, uninstalling deletes what jobs have here"
    )


def pods_remain(pods: Sequence[Manifest], waited: float) -> str:
    """Why draining a member did not end."""
    return (
        f"{_counted(len(pods), 'pod')} of geotrain's jobs had not ended after {waited:.0f} s"
        f" ({_named(map(_name, pods))}): see `kubectl describe pod`, then uninstall again"
    )


def _is_idle(job: Manifest) -> bool:
    if is_leaving(job):
        return False
    status = job.get("status") or {}
    if status.get("completionTime"):
        return True
    conditions = status.get("conditions") or ()
    suspended = any(c["type"] == "Suspended" and c["status"] == "True" for c in conditions)
    return bool(job["spec"].get("suspend")) and suspended


def _why(job: Manifest) -> str:
    conditions = (job.get("status") or {}).get("conditions") or ()
    reserved = next((c for c in conditions if c["type"] == "Reserved"), None)
    return f"{reserved['reason']}: {reserved['message']}" if reserved else "it says nothing"


def _owners(pods: Iterable[Manifest]) -> list[str]:
    counts = Counter(
        f"{pod['metadata'].get('namespace', '')}/"
        f"{(pod['metadata'].get('labels') or {}).get(labels.JOB, '?')}"
        for pod in pods
    )
    return [f"{owner}: {count}" for owner, count in sorted(counts.items())]


def _named(names: Iterable[str]) -> str:
    every = list(names)
    more = len(every) - _MOST_NAMED
    return ", ".join(every[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _name(resource: Manifest) -> str:
    return f"{resource['metadata'].get('namespace', '')}/{resource['metadata']['name']}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
