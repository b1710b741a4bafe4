"""``geotrain schedule``: one schedule by hand, without a job, a topology or a cluster."""

import json
from enum import StrEnum
from math import fsum
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from geotrain.api.profiles import LONGEST
from geotrain.cli import answer, screen
from geotrain.cli.texts import text_of
from geotrain.errors import InputError
from geotrain.model.plan import Order
from geotrain.planning.schedule import actions, checks, layouts
from geotrain.planning.schedule.bubbles import bubble_ratio, makespan, waits
from geotrain.planning.schedule.costs import Costs
from geotrain.planning.schedule.lowering import lower
from geotrain.planning.schedule.policies import POLICIES, Policy, policy
from geotrain.planning.schedule.render import rows_in_time
from geotrain.planning.schedule.timeline import Timeline, program, replay
from geotrain.planning.schedule.uniform import Uniform
from geotrain.units import Seconds, format_duration, parse_duration

MOST_ACTIONS: Final = 1_000_000
MOST_CELLS: Final = 2 * MOST_ACTIONS
"""Of a file, with those in which a rank waits: some three seconds."""


class Output(StrEnum):
    """How the schedule is printed."""

    GRID = "grid"
    JSON = "json"
    CSV = "csv"


class Work(NamedTuple):
    """What is replayed, and under what name."""

    name: str
    order: Order
    costs: Costs
    bound: Seconds | None = None
    note: str = ""


def schedule(
    forward: Annotated[str, typer.Option(help="A rank's forward of a micro-batch, like 18522us.")],
    input_gradient: Annotated[str, typer.Option(help="Its input gradient, recompute included.")],
    weight_gradient: Annotated[str, typer.Option(help="Its weight gradient.")],
    policy_name: Annotated[
        str | None, typer.Option("--policy", help=f"One of {', '.join(POLICIES)}.")
    ] = None,
    order: Annotated[
        Path | None,
        typer.Option(help="Replay this order instead: torch.distributed.pipelining CSV; or -."),
    ] = None,
    stages: Annotated[int | None, typer.Option(help="Pipeline ranks.")] = None,
    microbatches: Annotated[int | None, typer.Option(help="Micro-batches an iteration.")] = None,
    chunks: Annotated[int | None, typer.Option(help="Stages a rank runs (interleaved: 2).")] = None,
    transfer: Annotated[str, typer.Option(help="A message's time on its link.")] = "0s",
    local_transfer: Annotated[
        str | None, typer.Option(help="The same inside a data centre, where it differs.")
    ] = None,
    latency: Annotated[
        str | None, typer.Option(help="One way over a wide-area boundary, after the last byte.")
    ] = None,
    wan_boundary: Annotated[
        str | None,
        typer.Option(help="Ranks after which the wide area is crossed, from 0, like 1,3."),
    ] = None,
    recompute: Annotated[
        str, typer.Option(help="Of the input gradient, what needs no message and may run early.")
    ] = "0s",
    in_flight: Annotated[
        int | None, typer.Option(help="Stage activations a rank may hold, F to B or W.")
    ] = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="Form.")] = Output.GRID,
    messages: Annotated[
        bool, typer.Option("--messages", help="With -o csv: sends and receives too.")
    ] = False,
    columns: answer.Columns = None,
) -> None:
    """Make a schedule from integers and times, or take one from a file, and replay it exactly."""
    counts = {
        "--stages": stages,
        "--microbatches": microbatches,
        "--chunks": chunks,
        "--in-flight": in_flight,
    }
    for option, count in counts.items():
        if count is not None and count < 1:
            raise InputError(f"{option} is {count}; it must be at least 1")
    uniform = Uniform(
        _duration("--forward", forward, positive=True),
        _duration("--input-gradient", input_gradient, positive=True),
        _duration("--weight-gradient", weight_gradient),
        _duration("--transfer", transfer),
        None if local_transfer is None else _duration("--local-transfer", local_transfer),
        0.0 if latency is None else _duration("--latency", latency),
        _boundaries(wan_boundary),
        _duration("--recompute", recompute),
    )
    _require_agreement(uniform, latency, wan_boundary)
    if (order is None) == (policy_name is None):
        raise InputError("give either --policy or --order, to say which schedule is meant")
    if order is not None:
        work = _given(order, uniform, counts)
    else:
        work = _made(policy(policy_name or ""), policy_name or "", uniform, counts)
    _print(work, output, columns, messages=messages)


def _duration(option: str, text: str, *, positive: bool = False) -> Seconds:
    try:
        value = parse_duration(text)
    except ValueError as error:
        raise InputError(f"{option}: {error}") from error
    if value > LONGEST:
        raise InputError(f"{option} is {text}, more than a day; check its unit")
    if positive and not value:
        raise InputError(f"{option} is {text}; it must take some time")
    return value


def _boundaries(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 7 for part in parts):
        raise InputError(f"--wan-boundary: {text!r} is no list of ranks; write one like 1,3")
    return tuple(sorted({int(part) for part in parts}))


def _require_agreement(uniform: Uniform, latency: str | None, boundary: str | None) -> None:
    if latency is not None and boundary is None:
        raise InputError("--latency is that of a wide-area boundary; say which: --wan-boundary 1,3")
    if uniform.recompute > uniform.input_gradient:
        raise InputError(
            f"--recompute is {format_duration(uniform.recompute)}, but it is a part of the "
            f"--input-gradient, which takes {format_duration(uniform.input_gradient)}"
        )


def _made(chosen: Policy, name: str, uniform: Uniform, counts: dict[str, int | None]) -> Work:
    """A schedule of a policy."""
    devices, micro_batches = counts["--stages"], counts["--microbatches"]
    if devices is None or micro_batches is None:
        lacking = "--stages" if devices is None else "--microbatches"
        raise InputError(f"--policy {name} needs {lacking}")
    stages_each = _chunks(chosen, name, counts["--chunks"])
    _require_size(3 * devices * stages_each * micro_batches)
    _require_boundaries(uniform, devices)
    cap = counts["--in-flight"]
    costs = uniform.costs(chosen.layout(devices, stages_each))
    caps = None if cap is None else (cap,) * devices
    answer = chosen.answer(costs, caps, micro_batches)
    return Work(name, answer.order, costs, answer.bound, answer.note)


def _chunks(chosen: Policy, name: str, wanted: int | None) -> int:
    if chosen.chunks is None:
        return 2 if wanted is None else wanted
    if wanted not in (None, chosen.chunks):
        raise InputError(
            f"--policy {name} runs {chosen.chunks} stages a rank; --chunks says {wanted}"
        )
    return chosen.chunks


def _given(path: Path, uniform: Uniform, counts: dict[str, int | None]) -> Work:
    """Somebody else's order."""
    text = text_of(path)
    cells = text.count(",") + text.count("\n")
    if cells > MOST_CELLS:
        raise InputError(f"{path} has {cells} cells; at most {MOST_CELLS} are read")
    order = actions.read_order(text)
    _require_size(sum(map(len, order)))
    layout = layouts.layout_of(order)
    cap = counts["--in-flight"]
    checks.require_sound(order, None if cap is None else (cap,) * len(order))
    found = {
        "--stages": (len(order), "ranks"),
        "--microbatches": (len({a.micro_batch for a in order[0]}), "micro-batches"),
        "--chunks": (len(layout) // len(order), "stages a rank"),
    }
    for option, (count, what) in found.items():
        if counts[option] not in (None, count):
            raise InputError(f"{path} has {count} {what}, but {option} is {counts[option]}")
    _require_boundaries(uniform, len(order))
    return Work(path.name, actions.compute_only(order), uniform.costs(layout))


def _require_size(count: int) -> None:
    if count > MOST_ACTIONS:
        raise InputError(
            f"the schedule has {count} actions; at most {MOST_ACTIONS} are replayed: give fewer "
            "micro-batches, since what comes after the warm-up repeats, or fewer stages"
        )


def _require_boundaries(uniform: Uniform, devices: int) -> None:
    beyond = [boundary for boundary in uniform.boundaries if boundary > devices - 2]
    if beyond:
        right = f"0 to {devices - 2}" if devices > 1 else "a pipeline of one rank has none"
        raise InputError(
            f"--wan-boundary {beyond[0]} is beyond the pipeline of {devices} ranks; {right}"
        )


def _print(work: Work, output: Output, columns: int | None, *, messages: bool) -> None:
    if output == Output.CSV:
        typer.echo(actions.write_order(lower(work.order) if messages else work.order), nl=False)
        return
    timeline = replay(program(work.order), work.costs, 1, iterations=1)
    if output == Output.JSON:
        typer.echo(json.dumps(document(work, timeline), indent=2))
    else:
        typer.echo(screen.fitted(lambda width: text(work, timeline, width), columns))


def document(work: Work, timeline: Timeline) -> dict[str, object]:
    """Makespan, bubble ratio and each rank's bubbles; seconds from the iteration's start."""
    layout = timeline.program.layout
    peaks = checks.peak_in_flight(work.order)
    return {
        "schedule": work.name,
        "stages": timeline.program.devices,
        "chunks": len(layout) // timeline.program.devices,
        "microbatches": len({action.micro_batch for action in work.order[0]}),
        "makespan": makespan(timeline),
        "bubble_ratio": bubble_ratio(timeline),
        **({} if work.bound is None else {"bound": work.bound}),
        **({"note": work.note} if work.note else {}),
        "ranks": [
            {
                "rank": rank,
                "stages": [stage for stage, device in enumerate(layout) if device == rank],
                "busy": _busy(timeline, rank),
                "bubbles": [{"begin": begin, "end": end} for begin, end in idle],
                "peak_in_flight": peak,
            }
            for rank, (idle, peak) in enumerate(zip(waits(timeline), peaks, strict=True))
        ],
    }


def text(work: Work, timeline: Timeline, columns: int) -> str:
    """The schedule over time, a row a rank, with how much of it each waits and holds."""
    length = makespan(timeline)
    ranks = range(timeline.program.devices)
    rows = [(f"rank {rank}", timeline.compute(rank, 0)) for rank in ranks]
    grid = rows_in_time(rows, length, columns).splitlines()
    peaks = checks.peak_in_flight(work.order)
    sides = [
        f"{1 - _busy(timeline, rank) / length:>4.0%} idle, {peak} in flight"
        for rank, peak in zip(ranks, peaks, strict=True)
    ]
    head = (
        f"{work.name}: {format_duration(length)} an iteration, "
        f"bubble ratio {bubble_ratio(timeline):.4f}"
    )
    if work.bound is not None:
        head += f", at least {format_duration(work.bound)}"
    legend = (
        "a forward, A backward or input gradient (a: micro-batch 0, b: 1, …), + weight gradient"
    )
    body = [f"{line} {side}" for line, side in zip(grid, sides, strict=True)]
    notes = [work.note] if work.note else []
    return "\n".join([head, *body, legend, *notes])


def _busy(timeline: Timeline, rank: int) -> Seconds:
    return fsum(work.end - work.begin for work in timeline.compute(rank, 0))
