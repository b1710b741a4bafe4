"""Why a job does not run: its conditions in the order in which they come true. Pure."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from geotrain.api.reasons import ConditionType, Reason
from geotrain.api.v1alpha1 import DataCenter
from geotrain.api.v1alpha1.resource import StatusCondition
from geotrain.cli.answer import age
from geotrain.cli.why import Facts, Figures, Section, Statement, Verdict

MANAGER: Final = "geotrain.io/controller"
ADVICE: Final[dict[str, str]] = {
    Reason.NO_FEASIBLE_PLACEMENT: "free or add GPUs where the message says (geotrain top dc), lower"
    " parallelism.data, or cut the model into more, smaller stages; geotrain plan tries it without"
    " a cluster",
    Reason.LINK_MISSING: "apply a WanLink between the two data centres; geotrain links lists those"
    " that there are",
    Reason.PROFILE_MISSING: "apply the ConfigMap that spec.profileRef names, in the job's namespace"
    " on the hub",
    Reason.PROFILE_INVALID: "correct the profile where the message says; geotrain plan -f reads it"
    " too",
    Reason.INVALID_PARALLELISM: "choose parallelism and batch so that they divide as the message"
    " says; geotrain plan -f tries it without a cluster",
    Reason.NOT_ENOUGH_MEMORY: "raise schedule.memoryPerGpu if the GPUs have more, cut the model"
    " into more stages or a higher tensor degree, or take a smaller batch.micro",
    Reason.UNKNOWN_DATA_CENTER: "correct the name, or register the cluster: geotrain join NAME",
    Reason.NO_DATA_CENTERS: "register a cluster: geotrain join NAME; kubectl get dc shows which do"
    " not answer and why",
    Reason.UNKNOWN_ACCELERATOR: "set spec.accelerator of the DataCenters to a known GPU, or give"
    " the job a measured profile (spec.profileRef)",
    Reason.INVALID_SPEC: "correct the field that the message names and apply the job again",
    Reason.WAITING_FOR_CAPACITY: "it starts by itself as soon as the whole gang fits; to start"
    " sooner, free what the message names (geotrain top dc), or lower parallelism",
    Reason.RESERVE_TIMEOUT: "see why the pods did not run: the message, and geotrain logs; if"
    " images take long to pull, raise spec.reserveTimeout",
    Reason.MEMBER_UNREACHABLE: "see kubectl get dc -o wide; repair the connection, or leave the"
    " data centre out with placement.dataCenters",
    Reason.MEMBER_REFUSED: "correct what the member's API server refused; quotas and admission"
    " policies of its namespace apply",
    Reason.GANG_RESTARTING: "see why a pod ended: geotrain logs JOB --tail 50",
    Reason.SUSPENDED: "set spec.suspend to false: kubectl patch gtj JOB --type merge -p"
    ' \'{"spec":{"suspend":false}}\'',
    Reason.MAX_RESTARTS_EXCEEDED: "see geotrain logs JOB --tail 50; the pods stay until the job is"
    " deleted",
    Reason.DEADLINE_EXCEEDED: "raise spec.activeDeadline and create the job anew; it goes on from"
    " its checkpoint",
    Reason.PODS_STARTING: "if it lasts, the message names the pod that waits: an image that cannot"
    " be pulled, a volume that cannot be mounted",
}
"""Reason → what a person can do, where the controller's own message does not say so."""

_STEPS: Final = (
    (ConditionType.PLANNED, "a plan exists"),
    (ConditionType.RESERVED, "every pod exists and all fit together"),
    (ConditionType.PODS_READY, "all pods run"),
)
_LACKING: Final = {
    Reason.NO_FEASIBLE_PLACEMENT,
    Reason.WAITING_FOR_CAPACITY,
    Reason.NO_DATA_CENTERS,
    Reason.MEMBER_UNREACHABLE,
    Reason.RESERVE_TIMEOUT,
}


def headline(facts: Facts) -> str:
    """The job's state in one line."""
    job = facts.job
    phase = job.status.phase or "new"
    made = job.metadata.creation_timestamp
    since = f", created {age((facts.now - made).total_seconds())} ago" if made else ""
    return f"{job.namespace}/{job.name}: {phase}{since}"


def pending(facts: Facts) -> Section | None:
    """Why the job does not run; None where it does."""
    if facts.holds(ConditionType.PODS_READY) or facts.holds(ConditionType.COMPLETE):
        return None
    found = tuple(_findings(facts))
    lacking = any(each.code in _LACKING for each in found)
    title = "Why it failed" if facts.holds(ConditionType.FAILED) else "Why it does not run"
    return Section(title, found, _places(facts) if lacking else None)


def _findings(facts: Facts) -> Iterator[Statement]:
    job, status = facts.job, facts.job.status
    if job.metadata.deletion_timestamp is not None:
        yield Statement(Verdict.NOTE, "BeingDeleted", "it is being deleted")
    if job.spec.managed_by != MANAGER:
        yield Statement(
            Verdict.PROBLEM,
            "ManagedElsewhere",
            f"spec.managedBy gives it to {job.spec.managed_by}, so geotrain leaves it alone",
        )
        return
    if not status.conditions:
        yield Statement(
            Verdict.PROBLEM,
            "NotSeen",
            "no controller has looked at it yet",
            "see whether geotrain's controller runs on the hub: kubectl get deploy -A -l"
            " app.kubernetes.io/component=controller",
        )
        return
    if status.observed_generation is not None and (
        status.observed_generation < job.metadata.generation
    ):
        yield Statement(
            Verdict.NOTE,
            "Outdated",
            "the spec has changed since the controller last looked; what follows is of before",
        )
    ended = status.condition(ConditionType.FAILED)
    held = status.condition(ConditionType.SUSPENDED)
    for kind, said in ((ended, "the job is given up"), (held, "it is suspended")):
        if kind is not None and kind.status == "True":
            yield _finding(facts, kind, said, Verdict.PROBLEM)
            yield from _pods(facts)
            return
    yield from _steps(facts)
    yield from _pods(facts)


def _steps(facts: Facts) -> Iterator[Statement]:
    """The steps up to the first that is not done; the later ones wait for it."""
    stuck = False
    for kind, said in _STEPS:
        found = facts.job.status.condition(kind)
        if stuck or found is None:
            yield Statement(Verdict.OPEN, str(kind), f"{said}: waits for the step before")
            stuck = True
        elif found.status == "True":
            message = f": {found.message}" if found.message else ""
            yield Statement(Verdict.GOOD, found.reason, f"{said}{message}")
        else:
            yield _finding(facts, found, said, Verdict.PROBLEM)
            stuck = True


def _finding(facts: Facts, found: StatusCondition, said: str, level: Verdict) -> Statement:
    advice = ADVICE.get(found.reason, "")
    job = facts.job
    place = f"{job.name} -n {job.namespace}"
    since = _since(facts.now, found.last_transition_time)
    message = f": {found.message}" if found.message else ""
    return Statement(
        level, found.reason, f"{said} ({found.reason}, {since}){message}",
        advice.replace("JOB", place),
    )  # fmt: skip


def _since(now: datetime, time: datetime) -> str:
    return f"for {age((now - time).total_seconds())}"


def _pods(facts: Facts) -> Iterator[Statement]:
    """What the pods themselves show, and where nobody could look."""
    for pod in facts.pods:
        if pod.trouble:
            where = f"rank {pod.rank} in {pod.data_center}"
            node = f" on node {pod.node}" if pod.node else ""
            yield Statement(Verdict.NOTE, "PodTrouble", f"{where}{node}: {pod.trouble}")
    for sentence in facts.unseen.values():
        yield Statement(Verdict.NOTE, "NotLooked", sentence)


def _places(facts: Facts) -> Figures | None:
    """What each data centre has, beside what the job wants of it."""
    if not facts.centers:
        return None
    wanted = _wanted(facts)
    heads = ("DC", "REACHABLE", "FREE", "WANTED", "WHY")
    return Figures(heads, tuple(_place(facts, each, wanted) for each in facts.centers))


def _wanted(facts: Facts) -> dict[str, str]:
    """GPUs by data centre: what the plan takes, or what one stage would."""
    plan, spec = facts.job.status.plan, facts.job.spec.parallelism
    if plan is not None and plan.stages:
        return {each.data_center: str(each.gpus) for each in plan.stages}
    one = spec.tensor * (spec.data if isinstance(spec.data, int) else 1)
    allowed = facts.job.spec.placement.data_centers
    names = [center.name for center in facts.centers or ()]
    return {name: f"{one} a stage" for name in names if not allowed or name in allowed}


def _place(facts: Facts, center: DataCenter, wanted: dict[str, str]) -> tuple[str, ...]:
    reachable = center.status.condition(ConditionType.REACHABLE)
    agents = center.status.condition(ConditionType.AGENTS_READY)
    faults = [c for c in (reachable, agents) if c is not None and c.status != "True"]
    allowed = facts.job.spec.placement.data_centers
    why = "; ".join(f"{each.reason}: {each.message}" for each in faults)
    if allowed and center.name not in allowed:
        why = "not among placement.dataCenters"
    gpus = center.status.gpus
    return (
        center.name,
        reachable.status if reachable else "Unknown",
        "-" if gpus is None else f"{gpus.free}/{gpus.allocatable}",
        wanted.get(center.name, "-"),
        why or "-",
    )
