"""Which data centres a job may be planned with, and why not with the others. Pure.

A data centre that the job names is planned with whatever its namespace says: the job then waits
for it. One that is only there is left out, and the plan says why.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from geotrain.api.pod_template import center_problems, job_problems
from geotrain.api.reasons import Reason
from geotrain.api.v1alpha1 import GeoTrainingJob
from geotrain.roles.controller.inputs import Planned
from geotrain.roles.controller.observed import Member, PlanFault

_SINCE = "it was not there, or not open to the job, when this plan was made"


@dataclass(frozen=True, slots=True)
class Eligible:
    """``names`` may be planned with; ``left_out`` may not, with why."""

    names: tuple[str, ...]
    left_out: Mapping[str, str]


def named(job: GeoTrainingJob) -> frozenset[str]:
    """The data centres that the job asks for by name; empty: any."""
    placement = job.spec.placement
    if placement.policy == "Fixed":
        return frozenset(each.data_center for each in placement.stages)
    return frozenset(placement.data_centers)


def template_fault(job: GeoTrainingJob) -> PlanFault | None:
    """What is wrong with the job's pods wherever they would run."""
    problems = job_problems(job)
    return PlanFault(Reason.INVALID_SPEC, "; ".join(problems)) if problems else None


def eligible(job: GeoTrainingJob, members: Mapping[str, Member]) -> Eligible | PlanFault:
    """The data centres to plan with, or why there is none or a named one cannot be."""
    wanted = named(job)
    unfit = _unfit(job, members)
    if wanted and unfit:
        return PlanFault(Reason.INVALID_SPEC, _joined(unfit))
    reachable = [name for name, member in members.items() if member.reachable]
    if unfit and len(unfit) == len(reachable):
        return PlanFault(Reason.INVALID_SPEC, _joined(unfit))
    shut = {
        name: members[name].obstacle
        for name in reachable
        if members[name].obstacle and name not in wanted | unfit.keys()
    }
    left_out = {**unfit, **({} if wanted else shut)}
    names = tuple(name for name in reachable if name not in left_out)
    if shut and not wanted and not names:
        return PlanFault(Reason.NAMESPACE_NOT_ENABLED, _joined(left_out))
    return Eligible(names, left_out)


def not_planned_with(
    job: GeoTrainingJob, members: Mapping[str, Member], planned: Planned
) -> list[dict[str, str]]:
    """``status.plan.leftOut``: what the job could have had and the plan was made without."""
    known = {center.name for center in planned.inputs.topology.data_centers}
    wanted = named(job)
    return [
        {"dataCenter": name, "why": _why(job, member)}
        for name, member in sorted(members.items())
        if name not in known and (not wanted or name in wanted)
    ]


def _why(job: GeoTrainingJob, member: Member) -> str:
    problems = center_problems(job, member.data_center)
    return member.fault or "; ".join(problems) or member.obstacle or _SINCE


def _unfit(job: GeoTrainingJob, members: Mapping[str, Member]) -> dict[str, str]:
    """Data centres whose kind of GPU or nodes the pods do not ask for."""
    wanted = named(job) or members.keys()
    found = {
        name: "; ".join(center_problems(job, member.data_center))
        for name, member in members.items()
        if name in wanted and member.reachable
    }
    return {name: problem for name, problem in found.items() if problem}


def _joined(reasons: Mapping[str, str]) -> str:
    """One sentence for all that share it."""
    names: dict[str, list[str]] = {}
    for name, reason in sorted(reasons.items()):
        names.setdefault(reason, []).append(name)
    return "; ".join(f"{', '.join(where)}: {reason}" for reason, where in names.items())
