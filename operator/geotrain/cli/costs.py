"""``geotrain costs``: what each stage of a job's plan takes and holds, by part, with its source."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from geotrain.api import estimate
from geotrain.cli import answer, problem, scope, screen
from geotrain.cli.answer import Output
from geotrain.cli.manifests import Manifests
from geotrain.cli.scope import Scope
from geotrain.cli.tables import Block, Prose, Style, Table, table
from geotrain.model.decision import Infeasible
from geotrain.model.plan import Plan
from geotrain.planning.costs import accelerators, layers
from geotrain.planning.costs.layers import Parts
from geotrain.planning.placement.choose import choose
from geotrain.planning.placement.footprint import footprints
from geotrain.planning.schedule import breakdown
from geotrain.planning.schedule import costs as scheduled
from geotrain.planning.schedule.breakdown import StageMemory, StageTime, Utilisation
from geotrain.units import Bytes, Seconds, format_bytes, format_duration


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the plan."""

    number: int
    data_center: str
    accelerator: str
    layers: int
    in_flight: int
    source: str
    time: StageTime
    forward: Seconds
    backward: Seconds
    all_reduce: Seconds
    step: Seconds
    memory: StageMemory
    limit: Bytes | None


@scope.scoped(problem.HUB)
def costs(
    hub: Scope,
    files: problem.Files,
    topology: problem.Places = None,
    profile: problem.ProfileFile = None,
    calibration: problem.CalibrationFile = None,
    job: problem.JobName = None,
    output: answer.Form = Output.TABLE,
) -> None:
    """Show a stage's time and memory by part, where they are from, and the use of the GPUs."""
    given = problem.Given(files, topology, hub)
    asked = problem.read(given, profile, job, calibration)
    found, _ = problem.gather(given, profile, job)
    found = found.with_calibration(calibration)
    with screen.progress("planning"):
        chosen = choose(asked.topology, asked.workload)
    if isinstance(chosen, Infeasible):
        answer.refuse(chosen, output, asked.unused.sentences)
    stages = tuple(_stages(asked, found, chosen, profile))
    use = utilisation(asked, chosen)
    if output.is_text:
        screen.show(*_blocks(chosen, stages, use), wide=output == Output.WIDE)
    else:
        answer.print_document(_document(chosen, stages, use), output)


def _stages(
    asked: problem.Problem, found: Manifests, plan: Plan, profile: Path | None
) -> Iterator[Stage]:
    work = asked.workload
    whole = scheduled.costs(asked.topology, work, plan.placement, plan.layers)
    is_estimate = profile is None and asked.job.spec.profile_ref is None
    known = _parts(asked, found) if is_estimate else {}
    needed = footprints(asked.topology, work, plan)
    ends = [0, *accumulate(plan.layers)]
    for number, (begin, end) in enumerate(pairwise(ends)):
        name, cost = plan.placement.data_center_of(number), whole.stages[number]
        center = asked.topology.data_center(name)
        assert center is not None, "a plan runs in data centres of its topology"
        costs_here = work.profile_in(center)
        some = costs_here.layers[begin:end]
        parts = known.get(name) or (known.get("") if known else None)
        is_last = number == len(plan.layers) - 1
        split = None if parts is None else (parts[0], parts[1] if is_last else None)
        yield Stage(
            number,
            name,
            center.accelerator,
            len(some),
            plan.in_flight[number],
            "measured profile" if parts is None else parts[2],
            breakdown.time(cost, some, work.recompute, split),
            cost.forward,
            cost.backward,
            cost.all_reduce,
            cost.step,
            needed[number].memory,
            needed[number].limit,
        )


_Known = Mapping[str, tuple[layers.Block, Parts, str]]
"""By data centre ('': one that names no accelerator) a layer's parts, the output's, the source."""


def _parts(asked: problem.Problem, found: Manifests) -> _Known:
    job = asked.job
    shape, trained, split = estimate.decoder(job), estimate.training(job), estimate.split_of(job)
    places = estimate.places(job, found.data_centers, found.calibrated(job))
    usual = estimate.slowest(places)
    made = {}
    for place in (*places, usual):
        exchanges = layers.inside(place.node, job.spec.parallelism.tensor)
        constants = place.device.calibration
        made[place.name] = (
            layers.block(shape, place.device, trained, split, exchanges),
            layers.head(shape, place.device, split),
            f"estimated on {place.device.accelerator.name}; calibrated on"
            f" {constants.accelerator}: {constants.source}",
        )
    return made | {"": made[usual.name]}


def utilisation(asked: problem.Problem, plan: Plan) -> Utilisation | None:
    """What a plan uses of the peak of its GPUs; None where model or accelerator is not known."""
    if asked.job.spec.model is None:
        return None
    peak = 0.0
    for name, count in plan.placement.segments:
        center = asked.topology.data_center(name)
        one = accelerators.known(center.accelerator) if center else None
        if one is None:
            return None
        peak += count * plan.placement.data * plan.tensor * one.peak
    return breakdown.utilisation(
        estimate.decoder(asked.job),
        plan.micro_batches * plan.placement.data,
        asked.workload.recompute,
        plan.iteration,
        peak,
    )


_TIMES = {
    "matrices": "matrices",
    "attention": "attention",
    "memory": "memory traffic",
    "tensor": "tensor exchange",
    "experts": "expert exchange",
    "context": "context exchange",
    "sharding": "sharding",
    "overhead": "overheads",
    "contention": "contention",
}


def _seconds(stage: Stage) -> dict[str, Seconds]:
    """A micro-batch's parts, the zeroes too."""
    parts = {name: getattr(stage.time.layers, name) for name in _TIMES}
    return parts | {
        "measured": stage.time.measured,
        "recompute": stage.time.recompute,
        "output": stage.time.output,
        "sends": stage.time.sends,
    }


def _memory(stage: Stage) -> dict[str, Bytes]:
    return {each.name: getattr(stage.memory, each.name) for each in fields(StageMemory)}


def _blocks(plan: Plan, stages: tuple[Stage, ...], use: Utilisation | None) -> Iterator[Block]:
    used = "" if use is None else f"; MFU {use.model:.1%}, HFU {use.hardware:.1%}"
    yield Prose(f" an iteration, {plan.schedule}{used}", lead=format_duration(plan.iteration))
    if plan.error is not None:
        median, p90 = plan.error
        yield Prose(f"error of such estimates: {median:.1%} (median), {p90:.1%} (90th percentile)")
    yield from (Prose(note, Style.WARNING, lead="note: ") for note in plan.notes)
    yield _times_table(stages)
    yield _memory_table(stages)
    for source in dict.fromkeys(stage.source for stage in stages):
        yield Prose(source, Style.FAINT, lead="source: ")


def _heads(stages: tuple[Stage, ...]) -> list[str]:
    return [f"{each.number} {each.data_center}" for each in stages]


def _times_table(stages: tuple[Stage, ...]) -> Table:
    found = table("Time of one micro-batch, forward and backward", "part", *_heads(stages))
    found.add("layers", *(str(stage.layers) for stage in stages))
    rows = [_seconds(stage) for stage in stages]
    for name in rows[0]:
        if any(row[name] > 0 for row in rows):
            found.add(_TIMES.get(name, name), *(format_duration(row[name]) for row in rows))
    found.add("all", *(format_duration(stage.time.total) for stage in stages))
    found.add("all-reduce", *(format_duration(stage.all_reduce) for stage in stages))
    found.add("optimizer", *(format_duration(stage.step) for stage in stages))
    found.caption = "all-reduce and optimizer: once an iteration"
    return found


def _memory_table(stages: tuple[Stage, ...]) -> Table:
    found = table("Memory of each GPU", "part", *_heads(stages))
    rows = [_memory(stage) for stage in stages]
    for name in rows[0]:
        if any(row[name] > 0 for row in rows):
            found.add(name, *(format_bytes(row[name]) for row in rows))
    found.add("all", *(format_bytes(stage.memory.total) for stage in stages))
    if any(stage.limit is not None for stage in stages):
        found.add("headroom", *(_headroom(stage) for stage in stages))
    found.add("in flight", *(str(stage.in_flight) for stage in stages))
    return found


def _headroom(stage: Stage) -> str:
    return "" if stage.limit is None else format_bytes(max(0, stage.limit - stage.memory.total))


def _document(plan: Plan, stages: tuple[Stage, ...], use: Utilisation | None) -> dict[str, Any]:
    error = plan.error
    return {
        "iterationSeconds": plan.iteration,
        "schedule": plan.schedule,
        "microBatches": plan.micro_batches,
        "data": plan.placement.data,
        "tensor": plan.tensor,
        "mfu": None if use is None else use.model,
        "hfu": None if use is None else use.hardware,
        "error": None if error is None else {"median": error[0], "p90": error[1]},
        "notes": list(plan.notes),
        "stages": [_stage(each) for each in stages],
    }


def _stage(stage: Stage) -> dict[str, Any]:
    limit, needed = stage.limit, stage.memory.total
    return {
        "stage": stage.number,
        "dataCenter": stage.data_center,
        "accelerator": stage.accelerator,
        "source": stage.source,
        "layers": stage.layers,
        "inFlight": stage.in_flight,
        "forwardSeconds": stage.forward,
        "backwardSeconds": stage.backward,
        "seconds": {**_seconds(stage), "all": stage.time.total},
        "allReduceSeconds": stage.all_reduce,
        "optimizerSeconds": stage.step,
        "memoryBytes": {**_memory(stage), "all": needed},
        "limitBytes": limit,
        "headroomBytes": None if limit is None else max(0, limit - needed),
    }
