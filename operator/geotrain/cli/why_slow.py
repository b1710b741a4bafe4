"""Why a job is slow: what an iteration is made of, and what keeps it from its plan. Pure."""

from collections.abc import Iterator
from math import fsum
from typing import Any, Final

from geotrain.api.reasons import ConditionType, Reason
from geotrain.api.v1alpha1 import WanLink
from geotrain.api.v1alpha1.training_status import PlanStatus
from geotrain.cli.answer import age
from geotrain.cli.links import degraded
from geotrain.cli.top import measured_time, planned_time
from geotrain.cli.why import Facts, Figures, Section, Statement, Verdict
from geotrain.planning.placement.attribution import Attribution, Part
from geotrain.units import Seconds, bits, format_duration, parse_bytes, parse_rate

_SLOWER: Final = 1.05
"""Beyond this, an iteration is slower than planned and not just unsteady."""
_FULL: Final = 0.8
"""Share of an iteration from which on a link that is busy so long binds."""
_GAIN: Final = 0.02
_CLEARLY: Final = 1.5
_STALE: Final[Seconds] = 60.0
_SILENT: Final = 3.0
"""A rank whose last signal is so many iterations old is late."""

_PART_ADVICE: Final = {
    Part.COMPUTE: "more replicas (parallelism.data) or faster GPUs; that is what a good plan is"
    " bound by",
    Part.PIPELINE: "more micro-batches (a larger batch.global or a smaller batch.micro) or fewer"
    " stages make fill and drain a smaller share; prefill can use the bubbles (PrefillPool)",
    Part.WAN: "raise the link's capacity or perPodCapacity if more is leased, or leave a data"
    " centre out: geotrain plan --topology cluster shows what that gives",
    Part.SYNC: "a faster network inside the data centre (spec.network of the DataCenter), or fewer"
    " replicas",
}
_PART_NAMES: Final = {
    Part.COMPUTE: "computing",
    Part.PIPELINE: "pipeline fill and drain",
    Part.WAN: "waiting for the wide area",
    Part.SYNC: "all-reduce and optimizer step",
}
_WINDOW_ADVICE: Final[dict[str, str]] = {
    Reason.NO_SIGNAL: "let the trainer signal where its iteration is (geotrain.progress); until"
    " then shares are spatial",
    Reason.WINDOWS_MISSED: "ranks send outside their turns: compare geotrain timeline with the"
    " trainer's own order of work, and see late ranks here",
    Reason.NOT_INTERCEPTED: "see geotrain logs JOB -c geotrain-sidecar --tail 20",
    Reason.NOT_SHAPED: "the node's kernel needs sch_htb; see geotrain logs JOB -c geotrain-sidecar"
    " --tail 20",
    Reason.NO_REPORT: "the sidecar's /status could not be read: see geotrain logs JOB -c"
    " geotrain-sidecar --tail 20",
}
_FINE_WITHOUT: Final = {Reason.NO_WINDOWS, Reason.DISABLED, Reason.NOT_RUNNING}


def slow(facts: Facts) -> Section | None:
    """What an iteration takes and why; None while there is no plan."""
    plan = facts.job.status.plan
    if plan is None:
        return None
    found = (
        *_pace(facts),
        *_binding(facts, plan),
        *_windows(facts),
        *_links(facts),
        *_ranks(facts),
        *_prefill(facts),
        *_costs(facts),
    )
    return Section("Why slow", found, _figures(facts, plan))


def _pace(facts: Facts) -> Iterator[Statement]:
    planned, measured = planned_time(facts.job), measured_time(facts.job)
    seen = facts.job.status.observed
    if planned is None:
        return
    if measured is None:
        why = "it does not run" if not facts.holds(ConditionType.PODS_READY) else ""
        yield Statement(
            Verdict.OPEN,
            "NotMeasured",
            f"planned {format_duration(planned)} an iteration; none is measured yet"
            + (f" ({why})" if why else ""),
        )
        return
    ratio = measured / planned
    sentence = (
        f"measured {format_duration(measured)} an iteration, planned {format_duration(planned)}"
        f" ({ratio - 1:+.0%})"
    )
    if ratio > _SLOWER:
        yield Statement(Verdict.PROBLEM, "SlowerThanPlanned", sentence)
    else:
        yield Statement(Verdict.GOOD, "AsPlanned", sentence)
    old = (facts.now - seen.time).total_seconds() if seen and seen.time else 0.0
    if old > _STALE and facts.holds(ConditionType.PODS_READY):
        yield Statement(Verdict.NOTE, "Stale", f"measured {age(old)} ago; nothing new was reported")


def _binding(facts: Facts, plan: PlanStatus) -> Iterator[Statement]:
    """Which part of the planned iteration is the largest; by replay, or else from the status."""
    parts = facts.parts
    if parts is None:
        yield _estimated(facts, plan)
        return
    largest = max(parts.parts, key=lambda each: parts.parts[each])
    told = ", ".join(
        f"{format_duration(seconds)} {_PART_NAMES[part]}" for part, seconds in parts.parts.items()
    )
    where = _pair(parts) if largest == Part.WAN else ""
    yield Statement(
        Verdict.NOTE,
        f"BoundBy{largest}",
        f"the plan is bound by {_PART_NAMES[largest]}{where}: of"
        f" {format_duration(parts.iteration)}, {told} (by replay)",
        _PART_ADVICE[largest],
    )
    if parts.memory > _GAIN * parts.iteration:
        gain = format_duration(parts.memory)
        yield Statement(
            Verdict.NOTE,
            "BoundByMemory",
            f"memory for more micro-batches in flight would save {gain} an iteration",
            "raise schedule.memoryPerGpu if the GPUs have more, or turn on schedule.recompute",
        )


def _pair(parts: Attribution) -> str:
    """The data centres between which most of the waiting is, where one pair stands out."""
    ranked = sorted(parts.links, key=lambda pair: parts.links[pair], reverse=True)
    if not ranked or (
        len(ranked) > 1 and _CLEARLY * parts.links[ranked[1]] > parts.links[ranked[0]]
    ):
        return ""
    one, other = ranked[0]
    return f" between {one} and {other}"


def _estimated(facts: Facts, plan: PlanStatus) -> Statement:
    """From the status alone: use, bubbles and how long each link is busy."""
    busiest = max(_busy(facts, plan), default=None, key=lambda row: row[1])
    fill = (plan.pipeline - 1) / (plan.micro_batches + plan.pipeline - 1)
    said = f"GPUs compute {plan.gpu_use:.0%} and wait {plan.bubble_share:.0%} of the time"
    if busiest is not None and busiest[1] >= _FULL:
        code, why = "BoundByWan", f"the wide area {busiest[0]} is busy {busiest[1]:.0%} of the time"
        advice = _PART_ADVICE[Part.WAN]
    elif plan.gpu_use >= _FULL:
        code, why, advice = "BoundByCompute", "computing is what it takes", ""
    elif plan.bubble_share > 1.5 * fill:
        code = "BoundByWan"
        why = f"fill and drain alone would be {fill:.0%}: the rest waits for the wide area"
        advice = _PART_ADVICE[Part.WAN]
    else:
        code, why = "BoundByPipeline", f"fill and drain alone are {fill:.0%}"
        advice = _PART_ADVICE[Part.PIPELINE]
    return Statement(Verdict.NOTE, code, f"by the plan {said}; {why}", advice)


def _busy(facts: Facts, plan: PlanStatus) -> Iterator[tuple[str, float]]:
    """How large a share of the iteration each link carries something at its full rate."""
    planned = planned_time(facts.job)
    for each in plan.links:
        link = _link(facts, each.source, each.target)
        if link is not None and planned:
            size = parse_bytes(each.bytes_per_iteration)
            yield f"{each.source} to {each.target}", bits(size) / _rate(link) / planned


def _rate(link: WanLink) -> float:
    seen = link.status.measured
    rates = [link.spec.capacity, *((seen.capacity,) if seen and seen.capacity else ())]
    return min(map(parse_rate, rates)) * link.spec.reservable


def _link(facts: Facts, source: str, target: str) -> WanLink | None:
    for link in facts.links or ():
        ends = (link.spec.source, link.spec.target)
        if ends == (source, target) or (link.spec.symmetric and ends == (target, source)):
            return link
    return None


def _windows(facts: Facts) -> Iterator[Statement]:
    found = facts.job.status.condition(ConditionType.WINDOWS_ENFORCED)
    if found is None or found.reason in _FINE_WITHOUT:
        return
    seen = facts.job.status.observed
    share = seen.in_window_share if seen else None
    inside = "" if share is None else f"; {share:.0%} of the bytes were sent inside their windows"
    if found.status == "True":
        yield Statement(Verdict.GOOD, found.reason, f"windows are kept: {found.message}{inside}")
        return
    job = facts.job
    yield Statement(
        Verdict.PROBLEM,
        found.reason,
        f"windows are not kept ({found.reason}): {found.message}{inside}",
        _WINDOW_ADVICE.get(found.reason, "").replace("JOB", f"{job.name} -n {job.namespace}"),
    )


def _links(facts: Facts) -> Iterator[Statement]:
    plan = facts.job.status.plan
    used = {
        link.name: link
        for each in (plan.links if plan else ())
        if (link := _link(facts, each.source, each.target)) is not None
    }
    for link in used.values():
        for sentence in degraded(link):
            ends = f"{link.spec.source} and {link.spec.target}"
            yield Statement(
                Verdict.PROBLEM, "LinkDegraded", f"between {ends}, {sentence}",
                "ask whoever runs the network; a job that is planned anew counts with it",
            )  # fmt: skip


def _ranks(facts: Facts) -> Iterator[Statement]:
    """Ranks that are behind, by their own sidecars, and pods that were restarted."""
    latest = max((_number(each.get("iteration")) for each in facts.reports.values()), default=0.0)
    length = measured_time(facts.job) or planned_time(facts.job) or 0.0
    homes = {pod.rank: pod.data_center for pod in facts.pods}
    for rank, report in sorted(facts.reports.items()):
        where = f"rank {rank} in {homes.get(rank, '?')}"
        behind = latest - _number(report.get("iteration"))
        quiet = _number(report.get("secondsSinceSignal"))
        if behind > 1:
            yield Statement(
                Verdict.PROBLEM, "LateRank", f"{where} is {behind:.0f} iterations behind"
            )
        elif length and quiet > max(_SILENT * length, 1.0) and not report.get("done"):
            yield Statement(
                Verdict.PROBLEM, "LateRank", f"{where} has not signalled for {age(quiet)}",
                f"see geotrain logs {facts.job.name} -n {facts.job.namespace} --rank {rank}",
            )  # fmt: skip
    restarts = facts.job.status.observed.restarts if facts.job.status.observed else 0
    if restarts:
        times = "once" if restarts == 1 else f"{restarts} times"
        yield Statement(
            Verdict.NOTE, "Restarted", f"the gang was restarted {times}; each costs time"
        )
    for sentence in facts.unseen.values() if facts.holds(ConditionType.PODS_READY) else ():
        yield Statement(Verdict.NOTE, "NotLooked", f"late ranks are not looked for: {sentence}")


def _number(value: Any) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if good else 0.0


def _prefill(facts: Facts) -> Iterator[Statement]:
    job = facts.job
    mine = [
        p for p in facts.pools or () if (p.namespace, p.status.job) == (job.namespace, job.name)
    ]
    for pool in mine:
        found = pool.status.condition(ConditionType.TRAINING_PROTECTED)
        if found is not None and found.status == "False":
            yield Statement(
                Verdict.PROBLEM, found.reason, f"prefill of {pool.name}: {found.message}",
                "raise the pool's guard, or lower placement.maxPerGpu",
            )  # fmt: skip


def _costs(facts: Facts) -> Iterator[Statement]:
    planned, measured = planned_time(facts.job), measured_time(facts.job)
    guessed = facts.job.spec.profile_ref is None
    if guessed and planned and measured and abs(measured / planned - 1) > _SLOWER - 1:
        yield Statement(
            Verdict.NOTE,
            "CostsEstimated",
            "layer times are estimated from spec.model, not measured, so the plan may be off",
            "measure a profile and give it by spec.profileRef",
        )


def _figures(facts: Facts, plan: PlanStatus) -> Figures | None:
    """Each link of the plan: what crosses it, for how long, and what it costs."""
    if not plan.links:
        return None
    shares = dict(_busy(facts, plan))
    gains = facts.parts.links if facts.parts else {}
    seen = facts.job.status.observed
    carried = {(e.source, e.target): e.bytes for e in seen.link_bytes} if seen else {}
    total = fsum(carried.values())
    rows = []
    for each in plan.links:
        ends = (each.source, each.target)
        share = shares.get(f"{each.source} to {each.target}")
        gain = gains.get(_unordered(ends))
        rows.append(
            (
                *ends,
                str(each.connections),
                each.bytes_per_iteration,
                "-" if share is None else f"{share:.0%}",
                "-" if gain is None else format_duration(gain),
                f"{carried[ends] / total:.0%}" if total and ends in carried else "-",
            )
        )
    heads = ("FROM", "TO", "CONNS", "BYTES/ITER", "BUSY", "COSTS", "OF-TRAFFIC")
    caption = "BUSY: share of the iteration at the link's full rate"
    if gains:
        caption += "; COSTS: what an endless link would save, alone"
    return Figures(heads, tuple(rows), caption)


def _unordered(ends: tuple[str, str]) -> tuple[str, str]:
    one, other = sorted(ends)
    return one, other
