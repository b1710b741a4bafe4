"""``geotrain links``: the wide-area links, what they carry, and what is wrong with them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import typer

from geotrain.api.objects import DATA_CENTERS, TRAINING_JOBS, WAN_LINKS
from geotrain.api.reasons import ConditionType, Reason
from geotrain.api.v1alpha1 import DataCenter, GeoTrainingJob, WanLink
from geotrain.cli import answer, scope, screen
from geotrain.cli.answer import Listing
from geotrain.cli.scope import Scope
from geotrain.cli.tables import Column, Table
from geotrain.units import parse_duration, parse_rate

_DEGRADED: Final = 0.9
"""A link that reaches less than this share of what is declared is told of."""
_SLOWER: Final = 1.1
_NAME: Final = "wanlink.geotrain.io"

Direction = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Use:
    """What a job (``namespace/name``) has of a link: bit/s reserved, and planned connections."""

    job: str
    rate: str = ""
    connections: dict[Direction, int] | None = None

    @property
    def most(self) -> int:
        """Connections between a pair of ranks, of the direction that has more."""
        return max((self.connections or {}).values(), default=0)


@scope.scoped(scope.HUB)
def links(wanted: Scope, output: answer.ListForm = Listing.TABLE) -> None:
    """List the wide-area links: rates, round trips, who has reserved what."""
    from geotrain.cli import hub  # the Kubernetes client takes half a second to import

    async def asked(
        session: hub.Session,
    ) -> tuple[Sequence[WanLink], Sequence[GeoTrainingJob], Sequence[DataCenter] | None]:
        found = await session.all(WanLink, WAN_LINKS)
        jobs = await session.allowed(GeoTrainingJob, TRAINING_JOBS) or ()
        return found, jobs, await session.allowed(DataCenter, DATA_CENTERS)

    found, jobs, centers = hub.ask(wanted, "asking the hub", asked)
    uses = {link.name: uses_of(link, jobs) for link in found}
    told = list(warnings(found, centers))
    if output == Listing.NAME:
        for link in found:
            typer.echo(f"{_NAME}/{link.name}")
    elif output.is_text:
        if not found:
            screen.tell("no WanLinks found")
            return
        wide = output == Listing.WIDE
        screen.show(shown(found, uses, wide=wide), wide=wide)
    else:
        items = [_document(link, uses[link.name]) for link in found]
        answer.print_document({"items": items, "warnings": told}, output)
    if output.is_text:
        for sentence in told:
            screen.warn(sentence)


def uses_of(link: WanLink, jobs: Iterable[GeoTrainingJob]) -> tuple[Use, ...]:
    """The jobs that have reserved a part of a link or plan to cross it, by name."""
    rates = {each.job: each.rate for each in link.status.reserved}
    planned: dict[str, dict[Direction, int]] = defaultdict(dict)
    for job in jobs:
        for each in job.status.plan.links if job.status.plan else ():
            if (each.source, each.target) in _directions(link):
                direction = (each.source, each.target)
                planned[f"{job.namespace}/{job.name}"][direction] = each.connections
    return tuple(
        Use(name, rates.get(name, ""), planned.get(name)) for name in sorted({*rates, *planned})
    )


def shown(found: Iterable[WanLink], uses: dict[str, tuple[Use, ...]], *, wide: bool) -> Table:
    """The links as a table; ``wide`` adds what is seldom looked at."""
    heads = ["FROM", "TO", "CAPACITY", "PER-POD", "RTT", "MEASURED", "CONNS", "RESERVED"]
    table = Table([Column(each) for each in (*heads, *(_WIDE if wide else ()))])
    for link in found:
        spec, seen = link.spec, link.status.measured
        jobs = uses[link.name]
        measured = "" if seen is None else f"{seen.capacity or '?'} {seen.round_trip_time or '?'}"
        cells = [
            spec.source,
            spec.target,
            spec.capacity,
            spec.per_pod_capacity or "-",
            spec.round_trip_time,
            measured or "-",
            ",".join(dict.fromkeys(str(use.most) for use in jobs if use.most)) or "-",
            _reserved(link, jobs),
        ]
        table.add(*cells, *(_aside(link) if wide else ()))
    return table


def warnings(found: Sequence[WanLink], centers: Sequence[DataCenter] | None) -> Iterator[str]:
    """What is wrong with links, a sentence each. ``centers`` of None: they may not be listed."""
    known = None if centers is None else sorted(center.name for center in centers)
    for link in found:
        ends = (link.spec.source, link.spec.target)
        missing = [] if known is None else [end for end in ends if end not in known]
        if missing:
            there = ", ".join(known or ()) or "none"
            yield (
                f"WanLink {link.name}: there is no DataCenter {' and no '.join(missing)};"
                f" there is {there}"
            )
        valid = link.status.condition(ConditionType.VALID)
        is_invalid = valid is not None and valid.status == "False"
        if valid is not None and is_invalid and valid.reason != Reason.UNKNOWN_DATA_CENTER:
            yield f"WanLink {link.name}: {valid.message}"
        yield from (f"WanLink {link.name}: {said}" for said in degraded(link))


def degraded(link: WanLink) -> Iterator[str]:
    """In what a link is measured to be clearly worse than it is declared to be."""
    seen, spec = link.status.measured, link.spec
    if seen is None:
        return
    pairs = (
        ("capacity", seen.capacity, spec.capacity),
        ("perPodCapacity", seen.per_pod_capacity, spec.per_pod_capacity or spec.capacity),
    )
    for name, measured, declared in pairs:
        if measured and parse_rate(measured) < _DEGRADED * parse_rate(declared):
            yield f"{name} is measured as {measured}, and {declared} is declared"
    if seen.round_trip_time:
        measured_trip, trip = map(parse_duration, (seen.round_trip_time, spec.round_trip_time))
        if measured_trip > _SLOWER * trip:
            yield (
                f"a round trip is measured as {seen.round_trip_time}, and"
                f" {spec.round_trip_time} is declared"
            )


_WIDE: Final = ("NAME", "BOTH-WAYS", "WINDOW", "RESERVABLE", "PRICE/GB", "VALID")


def _aside(link: WanLink) -> tuple[str, ...]:
    spec = link.spec
    valid = link.status.condition(ConditionType.VALID)
    return (
        link.name,
        "yes" if spec.symmetric else "no",
        spec.tcp_window or "-",
        f"{spec.reservable:.0%}",
        f"{spec.cost_per_gigabyte:g}",
        valid.status if valid else "Unknown",
    )


def _reserved(link: WanLink, uses: Sequence[Use]) -> str:
    """The sum and who has it; a job that only plans to cross the link has none yet."""
    holders = [use for use in uses if use.rate]
    total = link.status.reserved_rate or "0"
    if len(holders) == 1:
        return f"{total} {holders[0].job}"
    parts = [f"{use.job}={use.rate}" for use in holders]
    return f"{total} {', '.join(parts)}".strip() if parts else total


def _directions(link: WanLink) -> tuple[Direction, ...]:
    there = (link.spec.source, link.spec.target)
    return (there, there[::-1]) if link.spec.symmetric else (there,)


def _document(link: WanLink, uses: Iterable[Use]) -> dict[str, object]:
    """Rates, times and sizes as they are written in the WanLink."""
    spec = link.spec
    content = {
        "name": link.name,
        **spec.model_dump(mode="json", by_alias=True, exclude_none=True),
        "measured": None
        if link.status.measured is None
        else link.status.measured.model_dump(mode="json", by_alias=True, exclude_none=True),
        "reserved": link.status.reserved_rate or "0",
    }
    return {**content, "jobs": [_use(each) for each in uses]}


def _use(use: Use) -> dict[str, object]:
    planned = [
        {"from": source, "to": target, "connections": count}
        for (source, target), count in (use.connections or {}).items()
    ]
    return {"job": use.job, "reserved": use.rate or "0", "planned": planned}
