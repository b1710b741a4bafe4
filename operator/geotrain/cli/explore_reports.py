"""An exploration as tables for people and as a document for programs."""

from collections.abc import Iterator, Mapping

from geotrain.cli.tables import Block, Column, Prose, Style, Table, table
from geotrain.planning.explore.layouts import AXES, KNOBS, Knob, Layout
from geotrain.planning.explore.report import Report, Turned
from geotrain.planning.explore.search import Found
from geotrain.units import format_bytes, format_duration

MOST_PAIRS = 6


def tables(report: Report, most: int | None = MOST_PAIRS) -> Iterator[Block]:
    """The optimum and runners-up beside the given layout, each axis alone, and ``most`` pairs."""
    yield from _summary(report)
    yield _layouts(report)
    yield _singles(report)
    if report.pairs:
        yield _pairs(report, most)


Names = tuple[str, ...]
"""Data centres that share the devices evenly; none for an exploration."""


def regions(names: Names, others: Mapping[Names, Report]) -> Iterator[Block]:
    """On which data centres the best is, and what the others would give."""
    if not names:
        return
    yield Prose(f"on {', '.join(names)}")
    for other, report in others.items():
        found = format_duration(report.best[0].seconds) if report.best else "nothing fits"
        yield Prose(f"on {', '.join(other)}: {found}")


def document(
    report: Report, names: Names = (), others: Mapping[Names, Report] | None = None
) -> dict[str, object]:
    """Everything that was found: seconds, bytes, and speedups against the given layout."""
    single = report.best_single
    best = report.best[0] if report.best else None
    return {
        "devices": report.problem.network.devices,
        "rings": report.problem.network.rings,
        "given": {**_layout(report, report.given), "fits": report.given_fits},
        "best": [_layout(report, found) for found in report.best],
        "speedup": None if best is None else report.speedup(best),
        "bestSingle": None if single is None else list(single.knobs),
        "speedupOverBestSingle": _over(best, single),
        "speedupOverDegrees": _over(best, report.degrees),
        "singles": [_turned(report, each) for each in report.singles],
        "degrees": _turned(report, report.degrees),
        "pairs": [_turned(report, each) for each in report.pairs],
        "dataCenters": list(names),
        "others": [
            {
                "dataCenters": list(other),
                "iterationSeconds": each.best[0].seconds if each.best else None,
            }
            for other, each in (others or {}).items()
        ],
        "complete": report.complete,
        "steps": report.steps,
        "replays": report.replays,
    }


def _over(best: Found | None, turned: Turned | None) -> float | None:
    if best is None or turned is None or turned.found is None:
        return None
    return turned.found.seconds / best.seconds


def _layout(report: Report, found: Found) -> dict[str, object]:
    layout = found.layout
    return {
        "iterationSeconds": found.seconds,
        "tokensPerSecond": report.problem.tokens / found.seconds,
        "memoryBytes": round(found.memory),
        "tensor": layout.degrees.tensor,
        "context": layout.degrees.context,
        "data": layout.degrees.data,
        "pipeline": layout.degrees.pipeline,
        "expert": layout.degrees.expert,
        "shard": layout.degrees.shard,
        "placement": _placement(report, layout),
        "schedule": layout.schedule,
        "chunks": layout.chunks,
        "microBatch": layout.micro_batch,
        "recompute": layout.recompute.value,
        "transport": layout.transport,
    }


def _placement(report: Report, layout: Layout) -> dict[str, dict[str, int]]:
    """For each axis the tiers that it crosses, and by how many members."""
    names = [tier.name for tier in report.problem.network.tiers]
    return {
        axis: {name: factor for name, factor in zip(names, row, strict=True) if factor > 1}
        for axis, row in zip(AXES, report.table(layout), strict=True)
    }


def _turned(report: Report, each: Turned) -> dict[str, object]:
    found = each.found
    return {
        "knobs": list(each.knobs),
        "iterationSeconds": None if found is None else found.seconds,
        "speedup": None if found is None else report.speedup(found),
        "interaction": each.interaction,
        "change": None if found is None else _change(report, found.layout, each.knobs),
    }


def _summary(report: Report) -> Iterator[Prose]:
    given = report.given
    if not report.best:
        why = "no layout fits into memory" if report.complete else "the search was stopped too soon"
        yield Prose(f": {why}", Style.BAD, lead="no layout")
        return
    best, single = report.best[0], report.best_single
    yield Prose(
        f" an iteration, {report.problem.tokens / best.seconds:.4g} tokens/s on "
        f"{report.problem.network.devices} devices; given: {format_duration(given.seconds)}, "
        f"{report.speedup(best) - 1:+.2%}",
        Style.GOOD,
        lead=format_duration(best.seconds),
    )
    if not report.given_fits:
        yield Prose(
            f"the given layout does not fit: it needs {format_bytes(round(given.memory))} of "
            f"{format_bytes(report.problem.device.memory)}",
            Style.WARNING,
        )
    if single is not None and single.found is not None:
        gain = single.found.seconds / best.seconds - 1
        yield Prose(f"best single axis: {single.knobs[0]}, {gain:+.2%} left to gain jointly")
    yield Prose(
        f"{report.steps} steps, {report.replays} replays, {report.problem.network.rings} rings"
        + ("" if report.complete else "; stopped before the search was complete")
    )


def _layouts(report: Report) -> Table:
    shown = (report.given, *report.best)
    heads = ("layout", "given", "best", *map(str, range(2, len(shown))))
    columns = [Column(head, optional=number > 2) for number, head in enumerate(heads)]
    found = Table(columns, "Layouts")
    rows = {
        "iteration": [format_duration(each.seconds) for each in shown],
        "memory": [format_bytes(round(each.memory)) for each in shown],
    }
    for axis in AXES:
        rows[axis] = [_crossing(report, each.layout, axis) for each in shown]
    rows["expert, shard"] = [
        f"{each.layout.degrees.expert}, {each.layout.degrees.shard}" for each in shown
    ]
    for knob in KNOBS[6:]:
        rows[knob] = [_setting(report, each.layout, knob) for each in shown]
    for name, cells in rows.items():
        found.add(name, *cells)
    return found


def _crossing(report: Report, layout: Layout, axis: str) -> str:
    crossed = _placement(report, layout)[axis]
    return " ".join(f"{name}:{factor}" for name, factor in crossed.items()) or "1"


def _singles(report: Report) -> Table:
    found = _turned_table("One axis alone, all else as given", "axis")
    for each in report.singles:
        found.add(each.knobs[0], *_cells(report, each))
    found.add("all degrees", *_cells(report, report.degrees))
    return found


def _pairs(report: Report, most: int | None) -> Table:
    found = _turned_table("Two axes together", "axes", "interaction")
    for each in report.pairs[:most]:
        found.add(" + ".join(each.knobs), *_cells(report, each), f"{each.interaction - 1:+.1%}")
    found.caption = "interaction: speedup beyond the product of both alone"
    return found


def _turned_table(title: str, *columns: str) -> Table:
    return table(title, columns[0], "iteration", "gain", "change", *columns[1:])


def _cells(report: Report, each: Turned) -> tuple[str, str, str]:
    if each.found is None:
        return "", "", "does not fit into memory"
    gain = report.speedup(each.found) - 1
    change = _change(report, each.found.layout, each.knobs)
    return format_duration(each.found.seconds), f"{gain:+.2%}", change


def _change(report: Report, layout: Layout, knobs: tuple[Knob, ...]) -> str:
    """What a layout does differently from the given one."""
    turned = [knob for knob in layout.differs(report.given.layout) if knob in knobs]
    return ", ".join(f"{knob} {_setting(report, layout, knob)}" for knob in turned) or "none"


def _setting(report: Report, layout: Layout, knob: Knob) -> str:
    if knob == "placement":
        return "; ".join(
            f"{axis} {_crossing(report, layout, axis)}"
            for axis in AXES
            if _placement(report, layout)[axis]
        )
    if knob == "schedule":
        chunks = f" x{layout.chunks}" if layout.chunks > 1 else ""
        return f"{layout.schedule}{chunks}"
    return str(layout.settings[KNOBS.index(knob)])
