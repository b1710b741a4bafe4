"""What the sidecars of a running gang report, as status and as the condition WindowsEnforced.

Reports come from inside pods that users fill, so every value is looked at before it is believed.
"""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from geotrain.api.conditions import FALSE, TRUE, UNKNOWN, Status, format_time
from geotrain.api.reasons import ConditionType, Reason
from geotrain.model.plan import Plan
from geotrain.roles.controller import carrying
from geotrain.roles.controller.draft import Draft
from geotrain.roles.controller.inputs import Planned
from geotrain.roles.controller.observed import Observed
from geotrain.roles.controller.roll import Roll
from geotrain.units import Seconds, format_duration

PERIOD: Final[Seconds] = 5.0
"""How often the sidecars are asked, and the status is at most written for what they say."""
_OLD: Final[Seconds] = 3 * PERIOD

_Verdict = tuple[Status, Reason, str]


def asked(plan: Plan) -> tuple[int, ...]:
    """The ranks whose sidecars are asked: those that send over the WAN, the first and the last.

    Iterations are counted by the first, and the loss is known to the last.
    """
    return tuple(sorted({0, plan.ranks - 1, *(flow.source for flow in plan.flows)}))


def report(observed: Observed, planned: Planned, roll: Roll, draft: Draft) -> None:
    """Put what is measured into the draft."""
    fresh = {r: v.content for r, v in observed.reports.items() if draft.now - v.time <= _OLD}
    draft.set(ConditionType.WINDOWS_ENFORCED, *_verdict(observed, planned.plan, roll, fresh, draft))
    if draft.reason(ConditionType.PODS_READY) != Reason.PODS_RUNNING or not fresh:
        return
    before = observed.job.status.observed
    if before and before.time and draft.now - before.time.timestamp() < PERIOD:
        return
    restarts = before.restarts if before else 0
    seen = _summary(planned.plan, fresh)
    ready = sum(pod.ready for pod in roll.current.values())
    held = draft.held.get("observed", {})
    wanted = {**held, **seen, "ranksReady": ready, "restarts": restarts}
    if wanted != held:
        draft.fields["observed"] = {**wanted, "time": format_time(draft.time)}


def _verdict(
    observed: Observed,
    plan: Plan,
    roll: Roll,
    fresh: Mapping[int, Mapping[str, Any]],
    draft: Draft,
) -> _Verdict:
    spec = observed.job.spec
    if spec.network.enforcement == "None":
        return FALSE, Reason.DISABLED, "network.enforcement is None"
    if not plan.flows:
        return FALSE, Reason.NO_WINDOWS, "the plan crosses no wide-area link"
    if draft.reason(ConditionType.PODS_READY) != Reason.PODS_RUNNING:
        return FALSE, Reason.NOT_RUNNING, "the gang does not run"
    strays = carrying.strays(observed, plan, roll)
    if strays:
        return FALSE, Reason.NOT_INTERCEPTED, strays
    return _measured(plan, fresh)


def _measured(plan: Plan, fresh: Mapping[int, Mapping[str, Any]]) -> _Verdict:
    sources = sorted({flow.source for flow in plan.flows})
    silent = [rank for rank in sources if rank not in fresh]
    if silent:
        return UNKNOWN, Reason.NO_REPORT, f"no report from rank {', '.join(map(str, silent))}"
    for rank in sources:
        if fresh[rank].get("windowsEnforced") is not True:
            said = str(fresh[rank].get("reason") or "the windows were not kept")
            return FALSE, _reason(said), f"rank {rank}: {said}"
    return TRUE, Reason.WINDOWS_MEASURED, f"{len(sources)} ranks send inside their windows"


def _reason(said: str) -> Reason:
    """The sidecar's reason begins with one of our words, or else it is about missed windows."""
    word = said.partition(":")[0]
    return next((reason for reason in Reason if reason == word), Reason.WINDOWS_MISSED)


def _summary(plan: Plan, fresh: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    length = _number(fresh.get(0, {}).get("iterationSeconds"))
    iteration = _number(fresh.get(0, {}).get("iteration"))
    losses = [_number(fresh[rank].get("loss")) for rank in sorted(fresh)]
    loss = next((each for each in reversed(losses) if each is not None), None)
    return {
        # Without signals a sidecar counts from 0 for ever: no iteration has been told to it.
        **({} if iteration is None or length is None else {"iteration": int(iteration)}),
        **({} if not length else _timing(plan, length)),
        **({} if loss is None else {"loss": _rounded(loss)}),
        **_traffic(plan, fresh),
    }


def _timing(plan: Plan, length: Seconds) -> dict[str, Any]:
    error = abs(length - plan.iteration) / plan.iteration
    return {"iterationTime": format_duration(length), "planError": _rounded(error)}


def _traffic(plan: Plan, fresh: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    links: Counter[tuple[str, str]] = Counter()
    inside = outside = 0.0
    for rank, content in fresh.items():
        for target, size in _mapping(content.get("linkBytes")).items():
            links[plan.data_center_of(rank), str(target)] += int(_number(size) or 0)
        for flow in _mapping(content.get("flows")).values():
            inside += _number(_mapping(flow).get("bytesInWindow")) or 0
            outside += _number(_mapping(flow).get("bytesOutside")) or 0
    carried = [
        {"from": source, "to": target, "bytes": size}
        for (source, target), size in sorted(links.items())
    ]
    share = {"inWindowShare": _rounded(inside / (inside + outside))} if inside + outside else {}
    return {"linkBytes": carried, **share}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float | None:
    good = isinstance(value, int | float) and math.isfinite(value) and value >= 0
    return float(value) if good else None


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
