"""Which data centres a job may be planned with, and why not with the others. Pure.

A data centre that the job names is planned with whatever its namespace says: the job then waits
for it. One that is only there is left out, and the plan says why.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from geotrain.api.pod_template import (
    center_problems,
    job_problems,
    joined,
    refusal,
    unfit_centers,
)
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


def template_fault(job: GeoTrainingJob) -> PlanFault | None:
    """What is wrong with the job's pods wherever they would run."""
    problems = job_problems(job)
    return PlanFault(Reason.INVALID_SPEC, "; ".join(problems)) if problems else None


def eligible(job: GeoTrainingJob, members: Mapping[str, Member]) -> Eligible | PlanFault:
    """The data centres to plan with, or why there is none or a named one cannot be."""
    reachable = {name: member for name, member in members.items() if member.reachable}
    unfit = unfit_centers(job, (member.data_center for member in reachable.values()))
    if said := refusal(job, unfit, len(reachable)):
        return PlanFault(Reason.INVALID_SPEC, said)
    shut = {} if job.spec.placement.named else _shut(reachable)
    left_out = {**shut, **unfit}
    names = tuple(name for name in reachable if name not in left_out)
    if shut and not names:
        return PlanFault(Reason.NAMESPACE_NOT_ENABLED, joined(left_out))
    return Eligible(names, left_out)


def _shut(members: Mapping[str, Member]) -> dict[str, str]:
    return {name: member.obstacle for name, member in members.items() if member.obstacle}


def not_planned_with(
    job: GeoTrainingJob, members: Mapping[str, Member], planned: Planned
) -> list[dict[str, str]]:
    """``status.plan.leftOut``: what the job could have had and the plan was made without."""
    known = {center.name for center in planned.inputs.topology.data_centers}
    wanted = job.spec.placement.named
    return [
        {"dataCenter": name, "why": _why(job, member)}
        for name, member in sorted(members.items())
        if name not in known and (not wanted or name in wanted)
    ]


def _why(job: GeoTrainingJob, member: Member) -> str:
    problems = center_problems(job, member.data_center)
    return member.fault or "; ".join(problems) or member.obstacle or _SINCE
