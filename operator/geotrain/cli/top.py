"""``geotrain top``: what jobs, prefill pools and data centres do now, from the hub's objects."""

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Final

import typer

from geotrain.api.objects import DATA_CENTERS, PREFILL_POOLS, TRAINING_JOBS
from geotrain.api.reasons import ConditionType
from geotrain.api.v1alpha1 import DataCenter, GeoTrainingJob, PrefillPool
from geotrain.api.v1alpha1.prefill_pool import BubbleTime
from geotrain.api.v1alpha1.training_status import LinkBytes
from geotrain.cli import answer, scope, screen
from geotrain.cli.answer import Listing
from geotrain.cli.scope import Scope
from geotrain.cli.tables import Block, Column, Table
from geotrain.units import Seconds, format_bytes, format_duration, parse_duration

_CLEAR: Final = "\033[H\033[2J"


class What(StrEnum):
    """What is shown."""

    ALL = "all"
    JOBS = "jobs"
    POOLS = "pools"
    DATA_CENTERS = "dc"


@dataclass(frozen=True, slots=True)
class Seen:
    """What the hub holds. None: it was not asked for, or may not be listed.

    ``bubbles`` are seconds that pools were offered and used, by the job's namespace and name.
    """

    jobs: Sequence[GeoTrainingJob] | None = None
    pools: Sequence[PrefillPool] | None = None
    centers: Sequence[DataCenter] | None = None
    bubbles: Mapping[tuple[str, str], BubbleTime] = field(default_factory=dict)


@scope.scoped(scope.NAMESPACED)
def top(
    wanted: Scope,
    what: Annotated[What, typer.Argument(help="jobs, pools, dc (data centres) or all.")] = What.ALL,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show it again and again, until Ctrl-C.")
    ] = False,
    interval: Annotated[
        str, typer.Option(metavar="TIME", help="With --watch: how often, like 5s.")
    ] = "2s",
    output: answer.ListForm = Listing.TABLE,
) -> None:
    """Show what jobs, prefill pools or data centres do now."""
    pause = answer.duration("--interval", interval)
    _once(what, wanted, output, clear=watch)
    while watch:
        time.sleep(pause)
        _once(what, wanted, output, clear=True)


def _once(what: What, wanted: Scope, output: Listing, *, clear: bool) -> None:
    seen = _ask(what, wanted)
    if clear and screen.is_terminal():
        sys.stdout.write(_CLEAR)
    _print(seen, output, many=wanted.all_namespaces)


def _ask(what: What, wanted: Scope) -> Seen:
    from geotrain.cli import hub  # the Kubernetes client takes half a second to import

    async def asked(session: hub.Session) -> Seen:
        space = session.namespace
        chosen = {What.JOBS, What.POOLS, What.DATA_CENTERS} if what == What.ALL else {what}
        jobs = pools = centers = None
        if chosen & {What.JOBS, What.POOLS}:
            pools = await session.allowed(PrefillPool, PREFILL_POOLS, space)
        if What.JOBS in chosen:
            jobs = await session.all(GeoTrainingJob, TRAINING_JOBS, space)
        if What.DATA_CENTERS in chosen:
            asking = session.allowed if what == What.ALL else session.all
            centers = await asking(DataCenter, DATA_CENTERS)
        bubbles = by_job(pools or ())
        return Seen(jobs, pools if What.POOLS in chosen else None, centers, bubbles)

    return hub.ask(wanted, "asking the hub", asked)


def _print(seen: Seen, output: Listing, *, many: bool) -> None:
    if output == Listing.NAME:
        for name in names(seen):
            typer.echo(name)
    elif output.is_text:
        wide = output == Listing.WIDE
        blocks = list(tables(seen, datetime.now(UTC), wide=wide, many=many))
        screen.show(*blocks, wide=wide)
        if not blocks:
            screen.tell("nothing to show")
    else:
        answer.print_document(document(seen), output)


def names(seen: Seen) -> list[str]:
    """What ``kubectl get`` takes."""
    listed: tuple[tuple[str, Sequence[GeoTrainingJob | PrefillPool | DataCenter] | None], ...] = (
        ("geotrainingjob", seen.jobs),
        ("prefillpool", seen.pools),
        ("datacenter", seen.centers),
    )
    return [f"{kind}.geotrain.io/{each.name}" for kind, found in listed for each in found or ()]


def tables(seen: Seen, now: datetime, *, wide: bool, many: bool) -> Iterable[Block]:
    """A table of each kind that there is some of. ``many``: of all namespaces, so they are told."""
    if seen.jobs:
        yield _jobs(seen.jobs, seen.bubbles, wide=wide, many=many)
    if seen.pools:
        yield _pools(seen.pools, wide=wide, many=many)
    if seen.centers:
        yield _centers(seen.centers, now, wide=wide)


def busy(job: GeoTrainingJob) -> float | None:
    """Share of the time in which the job's GPUs compute, None while no iteration is measured.

    It is the plan's computing time over the measured iteration.
    """
    plan, planned, measured = job.status.plan, planned_time(job), measured_time(job)
    if plan is None or not planned or not measured:
        return None
    return min(1.0, plan.gpu_use * planned / measured)


def planned_time(job: GeoTrainingJob) -> Seconds | None:
    """The planned length of an iteration."""
    return _time(job.status.plan.iteration_time if job.status.plan else None)


def measured_time(job: GeoTrainingJob) -> Seconds | None:
    """The measured length of an iteration."""
    return _time(job.status.observed.iteration_time if job.status.observed else None)


def _time(text: str | None) -> Seconds | None:
    try:
        return parse_duration(text) if text else None
    except ValueError:  # a status of another version
        return None


def _jobs(
    jobs: Iterable[GeoTrainingJob],
    bubbles: Mapping[tuple[str, str], BubbleTime],
    *,
    wide: bool,
    many: bool,
) -> Table:
    more = ("GPUS", "PLACEMENT", "IN-WINDOW", "LOSS", "LINKS") if wide else ()
    heads = ("JOB", "PHASE", "PLANNED", "MEASURED", "BUSY", "ITER", "RESTARTS", "WAN", "BUBBLES")
    table = Table([Column(each) for each in (*_space(many), *heads, *more)], "Jobs")
    for job in jobs:
        plan, seen = job.status.plan, job.status.observed
        share = busy(job)
        carried = seen.link_bytes if seen else ()
        cells = [
            *((job.namespace,) if many else ()),
            job.name,
            job.status.phase or "New",
            plan.iteration_time if plan else "-",
            (seen.iteration_time if seen else None) or "-",
            "-" if share is None else f"{share:.0%}",
            "-" if seen is None or seen.iteration is None else str(seen.iteration),
            str(seen.restarts if seen else 0),
            format_bytes(sum(each.bytes for each in carried)) if carried else "-",
            _used(bubbles.get((job.namespace, job.name))),
        ]
        table.add(*cells, *(_job_aside(job) if wide else ()))
    return table


def _job_aside(job: GeoTrainingJob) -> tuple[str, ...]:
    plan, seen = job.status.plan, job.status.observed
    share, loss = (seen.in_window_share, seen.loss) if seen else (None, None)
    return (
        str(sum(each.gpus for each in plan.stages)) if plan else "-",
        plan.placement.replace(" ", ",") if plan else "-",
        "-" if share is None else f"{share:.0%}",
        "-" if loss is None else f"{loss:.4g}",
        ",".join(map(_carried, seen.link_bytes)) if seen and seen.link_bytes else "-",
    )


def _carried(each: LinkBytes) -> str:
    return f"{each.source}>{each.target}:{format_bytes(each.bytes)}"


def by_job(pools: Iterable[PrefillPool]) -> dict[tuple[str, str], BubbleTime]:
    """Bubble seconds that pools were offered and used, added by namespace and job."""
    found: dict[tuple[str, str], BubbleTime] = {}
    for pool in pools:
        seen, job = pool.status.bubble_seconds, pool.status.job
        if seen is None or job is None:
            continue
        before = found.get((pool.namespace, job), BubbleTime(offered=0, used=0))
        found[pool.namespace, job] = BubbleTime(
            offered=before.offered + seen.offered, used=before.used + seen.used
        )
    return found


def _used(seconds: BubbleTime | None) -> str:
    if seconds is None:
        return "-"
    share = f" {seconds.used / seconds.offered:.0%}" if seconds.offered else ""
    return f"{format_duration(seconds.used)}/{format_duration(seconds.offered)}{share}"


def _pools(pools: Iterable[PrefillPool], *, wide: bool, many: bool) -> Table:
    more = ("P50", "P99", "WORKERS-BY-DC", "ENDPOINT") if wide else ()
    heads = ("POOL", "JOB", "PHASE", "WORKERS", "BUBBLES", "SERVED", "REFUSED", "P90", "STRETCH")
    table = Table([Column(each) for each in (*_space(many), *heads, *more)], "Prefill pools")
    for pool in pools:
        seen = pool.status
        desired = sum(each.desired for each in seen.workers)
        times = seen.time_to_first_token
        cells = [
            *((pool.namespace,) if many else ()),
            pool.name,
            seen.job or "-",
            seen.phase or "New",
            f"{seen.ready_workers or 0}/{desired}",
            _used(seen.bubble_seconds),
            str(seen.requests.admitted) if seen.requests else "-",
            str(seen.requests.refused) if seen.requests else "-",
            times.p90 if times else "-",
            "-" if seen.training_stretch is None else f"{seen.training_stretch:+.1%}",
        ]
        homes = (f"{each.data_center}:{each.ready}/{each.desired}" for each in seen.workers)
        aside = (
            times.p50 if times else "-",
            times.p99 if times else "-",
            ",".join(homes) or "-",
            seen.endpoint or "-",
        )
        table.add(*cells, *(aside if wide else ()))
    return table


def _centers(centers: Iterable[DataCenter], now: datetime, *, wide: bool) -> Table:
    more = ("READY-GPUS", "PRICE/GPUH", "POD-CIDRS", "KUBERNETES") if wide else ()
    heads = ("DC", "REACHABLE", "NODES", "GPUS", "USED", "FREE", "ACCELERATOR", "CONTACT")
    table = Table([Column(each) for each in (*heads, *more)], "Data centres")
    for center in centers:
        seen, gpus = center.status, center.status.gpus
        reachable = seen.condition(ConditionType.REACHABLE)
        contact = "-"
        if seen.last_contact is not None:
            contact = answer.age((now - seen.last_contact).total_seconds())
        cells = [
            center.name,
            reachable.status if reachable else "Unknown",
            "-" if seen.nodes is None else str(seen.nodes),
            *(("-",) * 3 if gpus is None else map(str, (gpus.capacity, *_shares(center)))),
            center.spec.accelerator or "-",
            contact,
        ]
        aside = (
            "-" if gpus is None else str(gpus.allocatable),
            f"{center.spec.cost_per_gpu_hour:g}",
            ",".join(seen.pod_cidrs) or "-",
            seen.kubernetes_version or "-",
        )
        table.add(*cells, *(aside if wide else ()))
    return table


def _shares(center: DataCenter) -> tuple[int, int]:
    """GPUs on ready nodes that somebody has, and those that nobody has."""
    gpus = center.status.gpus
    assert gpus is not None, "only asked where there are some"
    return max(0, gpus.allocatable - gpus.free), gpus.free


def _space(many: bool) -> tuple[str, ...]:
    return ("NAMESPACE",) if many else ()


def document(seen: Seen) -> dict[str, object]:
    """The same for programs: seconds, bytes, shares from 0 to 1."""
    content: dict[str, object] = {}
    if seen.jobs is not None:
        content["jobs"] = [_job_document(job, seen.bubbles) for job in seen.jobs]
    if seen.pools is not None:
        content["pools"] = [_pool_document(pool) for pool in seen.pools]
    if seen.centers is not None:
        content["dataCenters"] = [_center_document(center) for center in seen.centers]
    return content


def _job_document(
    job: GeoTrainingJob, bubbles: Mapping[tuple[str, str], BubbleTime]
) -> dict[str, object]:
    seen, plan = job.status.observed, job.status.plan
    found = bubbles.get((job.namespace, job.name))
    return {
        "namespace": job.namespace,
        "name": job.name,
        "phase": job.status.phase,
        "gpus": sum(each.gpus for each in plan.stages) if plan else None,
        "plannedSeconds": planned_time(job),
        "measuredSeconds": measured_time(job),
        "gpuBusy": busy(job),
        "iteration": seen.iteration if seen else None,
        "restarts": seen.restarts if seen else 0,
        "linkBytes": [
            each.model_dump(mode="json", by_alias=True)
            for each in (seen.link_bytes if seen else ())
        ],
        "inWindowShare": seen.in_window_share if seen else None,
        "bubbleSeconds": None if found is None else found.model_dump(mode="json"),
    }


def _pool_document(pool: PrefillPool) -> dict[str, object]:
    kept = pool.status.model_dump(mode="json", by_alias=True, exclude={"conditions"})
    return {"namespace": pool.namespace, "name": pool.name, **kept}


def _center_document(center: DataCenter) -> dict[str, object]:
    reachable = center.status.condition(ConditionType.REACHABLE)
    kept = center.status.model_dump(mode="json", by_alias=True, exclude={"conditions"})
    used = None if center.status.gpus is None else _shares(center)[0]
    return {
        "name": center.name,
        "reachable": reachable.status if reachable else "Unknown",
        **kept,
        "usedGpus": used,
    }
