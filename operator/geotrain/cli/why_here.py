"""Why a job runs where it does: the plan that was chosen, and what lost. Pure."""

from collections.abc import Iterator
from typing import Final

from geotrain.api.reasons import ConditionType
from geotrain.api.v1alpha1.training_status import PlanStatus
from geotrain.cli.why import Facts, Figures, Section, Statement, Verdict

_MOST: Final = 6


def here(facts: Facts) -> Section | None:
    """Where the stages lie and why; None while there is no plan."""
    plan = facts.job.status.plan
    if plan is None:
        return None
    best = {(a.placement, a.data, _family(a.schedule)): a for a in reversed(plan.alternatives)}
    shown = [each for each in plan.alternatives if each in best.values()][:_MOST]
    rows = tuple(
        (each.placement, str(each.data), each.schedule, each.iteration_time or "-", each.why)
        for each in shown
    )
    heads = ("PLACEMENT", "DATA", "SCHEDULE", "ITERATION", "WHY IT LOST")
    return Section(
        "Why here",
        (*_chosen(facts, plan), *_unused(facts, plan)),
        Figures(heads, rows) if rows else None,
    )


def _chosen(facts: Facts, plan: PlanStatus) -> Iterator[Statement]:
    spec = facts.job.spec.placement
    runs = facts.holds(ConditionType.PODS_READY)
    gpus = "1 GPU" if plan.tensor == 1 else f"{plan.tensor} GPUs"
    by_price = spec.objective == "Cost"
    price = f", {plan.price_per_iteration:.4g} an iteration" if plan.price_per_iteration else ""
    yield Statement(
        Verdict.GOOD,
        "Chosen",
        f"{'it runs' if runs else 'planned'} as {plan.placement},"
        f" {plan.data * plan.pipeline} ranks ({plan.data} x {plan.pipeline}) of {gpus},"
        f" by {plan.schedule}: {plan.iteration_time} an iteration,"
        f" {plan.samples_per_second:.4g} samples/s{price}",
    )
    if spec.policy == "Fixed":
        said = "spec.placement.stages says so; nothing else was tried"
        yield Statement(Verdict.NOTE, "Fixed", said, "placement.policy: Atlas lets geotrain choose")
        return
    best = "the cheapest sample" if by_price else "the most samples a second"
    count = len(plan.alternatives)
    yield Statement(
        Verdict.GOOD,
        "Objective",
        f"of what fits, it gives {best} (placement.objective: {spec.objective});"
        f" {count} other{'' if count == 1 else 's'} lost",
    )


def _unused(facts: Facts, plan: PlanStatus) -> Iterator[Statement]:
    """Data centres that the plan leaves out, and what they lack."""
    used = {each.data_center for each in plan.stages}
    allowed = facts.job.spec.placement.data_centers
    tried = {name for each in plan.alternatives for name in _names(each.placement)}
    for center in facts.centers or ():
        if center.name in used:
            continue
        reachable = center.status.condition(ConditionType.REACHABLE)
        free = center.status.gpus.free if center.status.gpus else 0
        if allowed and center.name not in allowed:
            why = "it is not among placement.dataCenters"
        elif reachable is not None and reachable.status != "True":
            why = f"it cannot be reached ({reachable.message})"
        elif free < plan.data * plan.tensor:
            why = f"it has {free} free GPUs now, and a stage takes {plan.data * plan.tensor}"
        elif center.name in tried:
            why = "plans with it lost, see below"
        else:
            why = "no plan that uses it is among the best"
        yield Statement(Verdict.NOTE, "NotUsed", f"{center.name} is not used: {why}")


def _family(schedule: str) -> str:
    """The order's name without its warm-up: of each family the best is shown."""
    return schedule.partition(" ")[0]


def _names(placement: str) -> list[str]:
    return [part.rpartition(":")[0] for part in placement.split()]
