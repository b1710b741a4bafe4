"""WanLink: are its ends there, who has reserved what, was it measured? Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from math import fsum

from geotrain.api.conditions import FALSE, TRUE
from geotrain.api.reasons import ConditionType, Reason
from geotrain.api.v1alpha1 import BandwidthSchedule, WanLink
from geotrain.roles.controller.decision import Decision
from geotrain.roles.controller.draft import Draft
from geotrain.units import BitsPerSecond, Seconds, format_rate, parse_duration, parse_rate

Direction = tuple[str, str]
"""Names of the sending and the receiving data centre."""

_FRESH: Seconds = 24 * 3600.0


def decide(
    link: WanLink,
    data_centers: Iterable[str],
    links: Iterable[WanLink],
    schedules: Iterable[BandwidthSchedule],
    now: Seconds,
) -> Decision:
    """The link's status."""
    draft = Draft(link.metadata, link.status, now)
    _judge(link, set(data_centers), links, draft)
    _measured(link, draft)
    by_job = reserved_by_job(schedules)
    shares = {job: _most(rates, link) for job, rates in sorted(by_job.items())}
    taken = {job: rate for job, rate in shares.items() if rate}
    draft.fields["reserved"] = [
        {"job": job, "rate": format_rate(rate)} for job, rate in taken.items()
    ]
    draft.fields["reservedRate"] = format_rate(fsum(taken.values()))
    return draft.decision()


def reserved_by_job(
    schedules: Iterable[BandwidthSchedule],
) -> dict[str, dict[Direction, BitsPerSecond]]:
    """What the windows of each job (``namespace/name``) hand out at most at one time."""
    found: dict[str, dict[Direction, BitsPerSecond]] = defaultdict(dict)
    for each in schedules:
        job = f"{each.namespace}/{each.spec.job}"
        for target, rate in _peaks(each).items():
            found[job][each.spec.data_center, target] = rate
    return dict(found)


def reserved_by_others(
    schedules: Iterable[BandwidthSchedule], job: str
) -> dict[Direction, BitsPerSecond]:
    """What all jobs but ``job`` have reserved of each direction."""
    total: dict[Direction, BitsPerSecond] = defaultdict(float)
    for other, rates in reserved_by_job(schedules).items():
        if other != job:
            for direction, rate in rates.items():
                total[direction] += rate
    return dict(total)


def _peaks(schedule: BandwidthSchedule) -> dict[str, BitsPerSecond]:
    """The highest sum of rates to each data centre; a flow takes its own path and its mates'."""
    flows = {flow.id: flow for flow in schedule.spec.flows}
    steps: dict[str, list[tuple[Seconds, BitsPerSecond]]] = defaultdict(list)
    for window in schedule.spec.windows:
        flow = flows[window.flow]
        rate = parse_rate(window.rate) * (1 + len(flow.mates))
        begin = parse_duration(window.offset)
        steps[flow.target_data_center] += [
            (begin, rate),
            (begin + parse_duration(window.length), -rate),
        ]
    return {target: _highest(found) for target, found in steps.items()}


def _highest(steps: list[tuple[Seconds, BitsPerSecond]]) -> BitsPerSecond:
    """Ends come before begins of the same moment: windows that touch do not overlap.

    Moments are compared by the microsecond, the precision of a BandwidthSchedule.
    """
    level = highest = 0.0
    for _, change in sorted((round(time * 1e6), change) for time, change in steps):
        level += change
        highest = max(highest, level)
    return highest


def _most(rates: Mapping[Direction, BitsPerSecond], link: WanLink) -> BitsPerSecond:
    ends = (link.spec.source, link.spec.target)
    back = rates.get(ends[::-1], 0.0) if link.spec.symmetric else 0.0
    return max(rates.get(ends, 0.0), back)


def _judge(link: WanLink, known: set[str], links: Iterable[WanLink], draft: Draft) -> None:
    missing = [end for end in (link.spec.source, link.spec.target) if end not in known]
    other = next((o for o in sorted(links, key=_by_name) if _precedes(o, link)), None)
    if missing:
        there = ", ".join(sorted(known)) or "none"
        message = f"there is no DataCenter {' and no '.join(missing)}; there is {there}"
        draft.set(ConditionType.VALID, FALSE, Reason.UNKNOWN_DATA_CENTER, message)
    elif other is not None:
        message = f"WanLink {other.name} already goes from {link.spec.source} to {link.spec.target}"
        draft.set(ConditionType.VALID, FALSE, Reason.OVERLAPPING_LINK, message)
    else:
        draft.set(ConditionType.VALID, TRUE, Reason.LINK_VALID, "both data centres exist")


def _precedes(other: WanLink, link: WanLink) -> bool:
    """Whether ``other`` describes the same direction and wins by its name."""
    same = (other.spec.source, other.spec.target) == (link.spec.source, link.spec.target)
    return same and other.name < link.name


def _by_name(link: WanLink) -> str:
    return link.name


def _measured(link: WanLink, draft: Draft) -> None:
    seen = link.status.measured
    if seen is not None and draft.now - seen.time.timestamp() < _FRESH:
        draft.set(
            ConditionType.MEASURED, TRUE, Reason.MEASUREMENT_FRESH, "measured values are used"
        )
    else:
        message = "nobody has measured it lately; the declared values hold"
        draft.set(ConditionType.MEASURED, FALSE, Reason.NOT_MEASURED, message)
