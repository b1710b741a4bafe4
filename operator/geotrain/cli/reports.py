"""A plan as tables for people and as a document for programs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from geotrain.cli.tables import Block, Prose, Style, Table, table
from geotrain.model.plan import Alternative, Plan
from geotrain.planning.placement.footprint import Footprint
from geotrain.planning.placement.idle import Better, Idle
from geotrain.planning.placement.what_if import Outcome
from geotrain.planning.schedule.breakdown import Utilisation
from geotrain.units import format_bytes, format_duration

MOST_LOSERS = 12
_MOST_ROWS = 16
"""Of stages that hold differently much, in a table that is not wide."""


@dataclass(frozen=True, slots=True)
class Extras:
    """What is worked out beside a plan: memory of its stages, idle GPUs and what would use them.

    ``use`` is what of the GPUs' peak the model uses, None where that is not known.
    """

    footprints: Sequence[Footprint] = ()
    use: Utilisation | None = None
    idle: Sequence[Idle] = ()
    better: Better | None = None


def tables(plan: Plan, plain: Plan | None, extras: Extras, *, wide: bool) -> Iterator[Block]:
    """The winner, where it runs and what that takes, and the losers with their reasons.

    Those and the stages are all there in ``wide`` tables alone.
    """
    yield from _summary(plan, plain)
    yield from _quality(plan, extras)
    yield _placement(plan)
    yield from _extras(plan, extras, wide=wide)
    if plan.connections:
        yield _links(plan)
    yield _alternatives(plan, None if wide else MOST_LOSERS)


def _extras(plan: Plan, extras: Extras, *, wide: bool) -> Iterator[Block]:
    yield _memory(plan, extras.footprints, wide=wide)
    if extras.idle:
        shown = table("Idle GPUs", "data centre", "GPUs", "why")
        for each in extras.idle:
            shown.add(each.data_center, str(each.gpus), each.why)
        yield shown
    if extras.better is not None:
        yield Prose(_use(plan, extras.better), Style.WARNING, lead="would use them: ")


def _use(plan: Plan, better: Better) -> str:
    """Which degrees, in the job's own words."""
    changed = [
        f"{name}: {value}"
        for name, value, now in (
            ("pipeline", better.pipeline, plan.placement.stages),
            ("data", better.data, plan.placement.data),
        )
        if value != now
    ]
    return (
        f"{', '.join(changed)} ({better.gpus} GPUs, {format_duration(better.iteration)} an"
        f" iteration, {better.samples_per_second:.4g} samples/s)"
    )


def _memory(plan: Plan, footprints: Sequence[Footprint], *, wide: bool) -> Table:
    shown = table(
        "Memory of a GPU", "stages", "data centre", *_kinds(footprints), "activations", "peak",
        "of", "headroom",
    )  # fmt: skip
    shown.caption = "headroom is left at the peak: prefill may use it"
    cells = [_memory_row(plan, footprints, stage) for stage in range(len(footprints))]
    first = 0
    for row, same in groupby(cells):
        last = first + len(list(same)) - 1
        shown.add(f"{first}" if first == last else f"{first}-{last}", *row)
        first = last + 1
    more = len(shown.rows) - _MOST_ROWS
    if more > 0 and not wide:
        del shown.rows[_MOST_ROWS:], shown.styles[_MOST_ROWS:]
        shown.caption += f"; and {more} more rows with -o wide"
    return shown


def _kinds(footprints: Sequence[Footprint]) -> tuple[str, ...]:
    """What is known of what stays: its three kinds, or all together."""
    is_whole = any(each.memory.state for each in footprints)
    return ("state",) if is_whole else ("weights", "gradients", "optimizer")


def _memory_row(plan: Plan, footprints: Sequence[Footprint], stage: int) -> tuple[str, ...]:
    each = footprints[stage]
    found = each.memory
    kept = [found.weights, found.gradients, found.optimizer]
    if _kinds(footprints) == ("state",):
        kept = [found.state + sum(kept)]
    sizes = [*kept, found.activations + found.transient, found.total]
    return (
        plan.placement.data_center_of(stage),
        *map(format_bytes, sizes),
        "" if each.limit is None else format_bytes(each.limit),
        "" if each.headroom is None else format_bytes(each.headroom),
    )


def extra_document(extras: Extras) -> dict[str, object]:
    """The same for programs."""
    better, use = extras.better, extras.use
    return {
        "mfu": None if use is None else use.model,
        "hfu": None if use is None else use.hardware,
        "memory": [
            {
                "stage": stage,
                "weightBytes": each.memory.weights,
                "gradientBytes": each.memory.gradients,
                "optimizerBytes": each.memory.optimizer,
                "stateBytes": each.memory.state,
                "activationBytes": each.memory.activations,
                "transientBytes": each.memory.transient,
                "peakBytes": each.memory.total,
                "limitBytes": each.limit,
                "headroomBytes": each.headroom,
            }
            for stage, each in enumerate(extras.footprints)
        ],
        "idle": [
            {"dataCenter": each.data_center, "gpus": each.gpus, "why": each.why}
            for each in extras.idle
        ],
        "wouldUseIdle": None
        if better is None
        else {
            "pipeline": better.pipeline,
            "data": better.data,
            "gpus": better.gpus,
            "iterationSeconds": better.iteration,
            "samplesPerSecond": better.samples_per_second,
        },
    }


def notes(plan: Plan) -> Iterator[Prose]:
    """What else there is to say about the choice."""
    return (Prose(note, Style.WARNING, lead="note: ") for note in plan.notes)


def front_table(front: Sequence[Outcome]) -> Iterator[Block]:
    """The Pareto front, where one was asked for."""
    if front:
        shown = table("Pareto front", "placement", "data", "samples/s", "price a sample")
        for each in front:
            shown.add(
                " ".join(f"{name}:{stages}" for name, stages in each.placement.segments),
                str(each.placement.data),
                f"{each.samples_per_second:.4g}",
                f"{each.price_per_sample:.4g}",
            )
        yield shown


def _front_document(front: Sequence[Outcome]) -> list[dict[str, object]]:
    """The Pareto front for programs."""
    return [
        {
            "placement": [{"dataCenter": n, "stages": s} for n, s in each.placement.segments],
            "data": each.placement.data,
            "schedule": each.schedule,
            "iterationSeconds": each.iteration,
            "samplesPerSecond": each.samples_per_second,
            "pricePerIteration": each.price,
            "pricePerSample": each.price_per_sample,
        }
        for each in front
    ]


def document(plan: Plan, plain: Plan | None, front: Sequence[Outcome] = ()) -> dict[str, object]:
    """Everything that the table shows and more: seconds, bytes, bit/s."""
    return {
        "schedule": plan.schedule,
        "sharing": plan.sharing,
        "data": plan.placement.data,
        "pipeline": plan.placement.stages,
        "tensor": plan.tensor,
        "microBatches": plan.micro_batches,
        "iterationSeconds": plan.iteration,
        "samplesPerSecond": plan.alternatives[0].samples_per_second,
        "gpuUse": plan.gpu_use,
        "bubbleShare": plan.bubble_share,
        "pricePerIteration": plan.price_per_iteration,
        "baselineSeconds": None if plain is None else plain.iteration,
        "speedup": _speedup(plan, plain),
        "proof": plan.proof and {"replayed": plan.proof.replayed, "loss": plan.proof.loss},
        "placement": [
            {"dataCenter": name, "stages": stages, "gpus": stages * _gpus_per_stage(plan)}
            for name, stages in plan.placement.segments
        ],
        "layers": list(plan.layers),
        "inFlight": list(plan.in_flight),
        "links": [
            {"from": a, "to": b, "connections": n, "bytesPerIteration": plan.wan_bytes[a, b]}
            for (a, b), n in plan.connections.items()
        ],
        "pareto": _front_document(front),
        "alternatives": [_alternative(each) for each in plan.alternatives],
        "error": None if plan.error is None else {"median": plan.error[0], "p90": plan.error[1]},
    }


def headline(plan: Plan) -> str:
    """The plan in one line."""
    return (
        f"{plan.schedule}, {plan.sharing.lower()} sharing: {format_duration(plan.iteration)} an "
        f"iteration, GPUs {plan.gpu_use:.0%} busy, {plan.micro_batches} micro-batches a replica"
    )


def _counted(count: int, one: str, ending: str = "s") -> str:
    return f"{count} {one}{ending if count != 1 else ''}"


def _summary(plan: Plan, plain: Plan | None) -> Iterator[Prose]:
    rate = plan.alternatives[0].samples_per_second or 0.0
    price = plan.price_per_iteration
    yield Prose(
        f", {plan.sharing.lower()} sharing: {format_duration(plan.iteration)}"
        f" an iteration of {_counted(plan.micro_batches, 'micro-batch', 'es')}"
        f" on {_counted(plan.placement.data, 'replica')}, "
        f"{rate:.4g} samples/s; GPUs {plan.gpu_use:.0%} busy, bubbles {plan.bubble_share:.0%}"
        + (f"; {price:.4g} an iteration" if price else ""),
        Style.GOOD,
        lead=plan.schedule,
    )
    if plain is not None:
        speedup = _speedup(plan, plain)
        yield Prose(
            f"1F1B over one connection a pair, without turns: {format_duration(plain.iteration)}"
            + ("" if speedup is None else f" ({speedup:.1f} times as long)")
        )


def _quality(plan: Plan, extras: Extras) -> Iterator[Prose]:
    """What the model uses of the peak, and how far such estimates were off."""
    parts = []
    if extras.use is not None:
        parts.append(f"MFU {extras.use.model:.1%}, HFU {extras.use.hardware:.1%}")
    if plan.error is not None:
        median, most = plan.error
        parts.append(
            f"such estimates were {median:.1%} off in the median, 9 of 10 within {most:.1%}"
        )
    if parts:
        yield Prose("; ".join(parts))


def _speedup(plan: Plan, plain: Plan | None) -> float | None:
    return plain.iteration / plan.iteration if plain is not None and plan.iteration else None


def _placement(plan: Plan) -> Table:
    shown = table("Placement", "data centre", "stages", "layers", "ranks", "GPUs", "in flight")
    first = 0
    for name, count in plan.placement.segments:
        stages = range(first, first + count)
        shown.add(
            name,
            f"{first}" if count == 1 else f"{first}-{first + count - 1}",
            " ".join(str(plan.layers[s]) for s in stages),
            str(count * plan.placement.data),
            str(count * _gpus_per_stage(plan)),
            " ".join(str(plan.in_flight[s]) for s in stages),
        )
        first += count
    return shown


def _gpus_per_stage(plan: Plan) -> int:
    return plan.placement.data * plan.tensor


def _links(plan: Plan) -> Table:
    shown = table("Wide area", "from", "to", "connections a pair", "bytes an iteration")
    for (source, target), count in plan.connections.items():
        shown.add(source, target, str(count), format_bytes(plan.wan_bytes[source, target]))
    return shown


def _alternatives(plan: Plan, most: int | None) -> Table:
    found = table("Choices", "placement", "data", "schedule", "iteration", "why it lost")
    best = {(a.segments, a.data, _family(a.schedule)): a for a in reversed(plan.alternatives)}
    families = [a for a in plan.alternatives if a in best.values()]
    shown = plan.alternatives if most is None else families[: most + 1]
    for number, each in enumerate(shown):
        found.add(
            " ".join(f"{name}:{stages}" for name, stages in each.segments),
            str(each.data),
            each.schedule,
            "" if each.iteration is None else format_duration(each.iteration),
            each.why or "chosen",
            style=Style.GOOD if number == 0 else Style.PLAIN,
        )
    left_out = len(plan.alternatives) - len(shown)
    if left_out:
        found.caption = f"and {left_out} more; -o wide or -o json lists all"
    return found


def _family(schedule: str) -> str:
    """The order's name without its warm-up: of each family the best is shown."""
    return schedule.partition(" ")[0]


def _alternative(each: Alternative) -> dict[str, object]:
    return {
        "placement": [{"dataCenter": name, "stages": n} for name, n in each.segments],
        "data": each.data,
        "schedule": each.schedule,
        "iterationSeconds": each.iteration,
        "samplesPerSecond": each.samples_per_second,
        "pricePerIteration": each.price_per_iteration,
        "why": each.why,
    }
