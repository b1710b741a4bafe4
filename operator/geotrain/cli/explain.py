"""``geotrain explain``: gathers what is known of a job, and prints what it means."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from geotrain.api import labels
from geotrain.api.objects import CONFIG_MAPS, DATA_CENTERS, PREFILL_POOLS, WAN_LINKS, Object
from geotrain.api.reasons import ConditionType
from geotrain.api.v1alpha1 import DataCenter, GeoTrainingJob, PrefillPool, WanLink
from geotrain.cli import answer, hub, loglines, members, scope, screen, sources, why
from geotrain.cli.answer import Document
from geotrain.cli.hub import Session
from geotrain.cli.logs import MemberContexts
from geotrain.cli.members import Member
from geotrain.cli.scope import Scope
from geotrain.cli.why import Facts, Pod, Section
from geotrain.cli.why_here import here
from geotrain.cli.why_pending import headline, pending
from geotrain.cli.why_slow import slow
from geotrain.errors import ClusterError, Forbidden, InputError, NotFound
from geotrain.model.plan import Placement
from geotrain.planning.placement.attribution import Attribution, attribution
from geotrain.roles.controller.children.config import INPUTS, ledger_name
from geotrain.roles.controller.inputs import Inputs
from geotrain.units import Seconds

_PATIENCE: Final[Seconds] = 3.0
_LARGEST: Final = 20_000
"""Micro-batches times ranks that are replayed; more would take minutes."""
_MOST_ASKED: Final = 64


@dataclass(frozen=True, slots=True)
class Gathered:
    """The facts, and from what the plan was made, where that may be read."""

    facts: Facts
    inputs: Inputs | None = None


@scope.scoped(scope.NAMESPACED)
def explain(
    wanted: Scope,
    job: Annotated[str, typer.Argument(help="Name of the job.", autocompletion=sources.jobs)],
    look: Annotated[
        bool,
        typer.Option("--members/--no-members", help="Look at the pods in the members too."),
    ] = True,
    replay: Annotated[
        bool, typer.Option(help="Replay the plan without each part, to see which part binds.")
    ] = True,
    output: answer.DocumentForm = Document.TEXT,
    member_context: MemberContexts = None,
) -> None:
    """Say why a job is pending, why it runs where it does, why it is slow."""

    async def asked(session: Session) -> Gathered:
        return await _gather(session, job, member_context or [], look=look)

    found = hub.ask(wanted, "asking the hub and the members", asked)
    facts = found.facts
    if replay and found.inputs is not None:
        with screen.progress("replaying the plan"):
            facts = replace(facts, parts=_parts(facts.job, found.inputs))
    line, sections = headline(facts), explanation(facts)
    if output == Document.TEXT:
        screen.show(*why.blocks(line, sections))
    else:
        answer.print_document(why.document(facts, line, sections), output)


def explanation(facts: Facts) -> list[Section]:
    """What is said, in the order in which a person asks."""
    found = (pending(facts), here(facts), slow(facts))
    return [section for section in found if section is not None]


async def _gather(session: Session, name: str, entries: Sequence[str], *, look: bool) -> Gathered:
    job = await session.job(name)
    facts = Facts(
        job,
        datetime.now(UTC),
        await session.allowed(DataCenter, DATA_CENTERS),
        await session.allowed(WanLink, WAN_LINKS),
        await session.allowed(PrefillPool, PREFILL_POOLS, job.namespace),
    )
    if look and members.homes(job):
        facts = await _with_pods(session, facts, entries)
    return Gathered(facts, await _inputs(session, job))


async def _inputs(session: Session, job: GeoTrainingJob) -> Inputs | None:
    """What the plan was made from, if the user may read it."""
    try:
        kept = await session.cluster.get(CONFIG_MAPS, job.namespace, ledger_name(job.name))
        return Inputs.from_text((kept.get("data") or {}).get(INPUTS, ""))
    except (NotFound, Forbidden, InputError):
        return None


def _parts(job: GeoTrainingJob, inputs: Inputs) -> Attribution | None:
    plan = job.status.plan
    if plan is None or plan.micro_batches * plan.data * plan.pipeline > _LARGEST:
        return None
    segments = tuple((each.data_center, each.stages) for each in plan.stages)
    return attribution(inputs.topology, inputs.workload, Placement(segments, plan.data))


async def _with_pods(session: Session, facts: Facts, entries: Sequence[str]) -> Facts:
    async with members.reached(session, facts.job, entries) as found:
        pods = [_pod(each.data_center, pod) for each in found.found.values() for pod in each.pods]
        reports = {}
        if any(c.type == ConditionType.PODS_READY for c in facts.job.status.conditions):
            reports = await _reports(list(found.found.values()))
        ordered = tuple(sorted(pods, key=lambda pod: pod.rank))
        return replace(facts, pods=ordered, reports=reports, unseen=dict(found.missed))


def _pod(data_center: str, pod: Object) -> Pod:
    source = loglines.source(data_center, pod, "")
    assert source is not None, "a pod has a first container"
    status = pod.get("status") or {}
    statuses = status.get("containerStatuses") or ()
    ends = [
        f"{each['name']} ended with {end.get('exitCode')} ({end.get('reason', 'Error')})"
        for each in statuses
        if (end := (each.get("state") or {}).get("terminated")) and end.get("exitCode")
    ]
    unscheduled = [
        each.get("message", "")
        for each in status.get("conditions") or ()
        if each["type"] == "PodScheduled" and each["status"] == "False"
    ]
    gated = bool(pod["spec"].get("schedulingGates"))
    trouble = "" if gated else "; ".join([*ends, *filter(None, unscheduled)]) or source.waiting
    return Pod(
        source.rank,
        data_center,
        str(status.get("phase", "Pending")),
        str(pod["spec"].get("nodeName") or ""),
        trouble,
        sum(int(each.get("restartCount", 0)) for each in statuses),
    )


async def _reports(found: Sequence[Member]) -> dict[int, Mapping[str, Any]]:
    """What the sidecars say of themselves; those that do not answer are left out."""
    reports: dict[int, Mapping[str, Any]] = {}

    async def ask(member: Member, pod: Object) -> None:
        meta = pod["metadata"]
        try:
            async with asyncio.timeout(_PATIENCE):
                answered = await member.cluster.pod_proxy_get(
                    meta["namespace"], meta["name"], labels.PORT_STATUS, "status"
                )
        except (ClusterError, TimeoutError):
            return
        reports[int(meta["labels"][labels.RANK])] = answered

    pods = [(member, pod) for member in found for pod in member.pods]
    running = [each for each in pods if (each[1].get("status") or {}).get("phase") == "Running"]
    await asyncio.gather(*(ask(member, pod) for member, pod in running[:_MOST_ASKED]))
    return reports
