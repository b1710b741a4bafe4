"""A plan's iteration as a Gantt chart (PNG): ranks and WAN transfers by data centre."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from geotrain.errors import InputError
from geotrain.model.plan import Plan
from geotrain.planning.schedule.render import Bar, Lane, lanes
from geotrain.units import format_duration

# Two shades a kind: neighbours of a micro-batch stay apart.
_COLORS: Final = {
    "forward": ("#2f6db5", "#7fb0e3"),
    "backward": ("#2c8a4b", "#86cc9b"),
    "transfer": ("#d9822b", "#f4bd7a"),
    "bubble": ("#e4e4e8", "#e4e4e8"),
}
_LABELS: Final = {
    "forward": "forward",
    "backward": "backward",
    "transfer": "transfer over the wide area",
    "bubble": "bubble",
}
_MOST_LANES: Final = 48
_LEAST_LABEL: Final = 0.012  # of the period: narrower bars have no room for a number


def draw(plan: Plan, path: Path) -> None:
    """Write the chart. Raises InputError where matplotlib does not know the file's suffix."""
    mpl.use("Agg")
    rows = _shown(plan)
    figure = Figure(figsize=(18, 1.8 + 0.32 * len(rows)), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    for number, lane in enumerate(rows):
        _draw_lane(axes, number, lane, plan.iteration)
    _band(axes, rows)
    axes.set_yticks(range(len(rows)), [lane.name for lane in rows], fontsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, plan.iteration or 1)
    axes.set_xlabel("seconds from the start of stage 0")
    axes.set_title(_title(plan), fontsize=11, loc="left")
    handles = [Patch(facecolor=_COLORS[kind][0], label=text) for kind, text in _LABELS.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    try:
        figure.savefig(path)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error


def _shown(plan: Plan) -> list[Lane]:
    """All rows, or where they are too many those of replica 0, which stands for the others."""
    rows = list(lanes(plan))
    return rows if len(rows) <= _MOST_LANES else [r for r in rows if r.name.endswith("replica 0")]


def _draw_lane(axes: Axes, number: int, lane: Lane, period: float) -> None:
    """One row. Bars that look alike are one artist, which draws several times faster."""
    alike: dict[tuple[str, int], list[Bar]] = {}
    for bar in lane.bars:
        alike.setdefault((bar.kind, bar.micro_batch % 2), []).append(bar)
    for (kind, shade), bars in alike.items():
        height = 0.5 if kind == "transfer" else 0.8
        axes.broken_barh(
            [(bar.begin, bar.end - bar.begin) for bar in bars],
            (number - height / 2, height),
            facecolors=_COLORS[kind][shade],
            edgecolor="white",
            linewidth=0.3,
            hatch="////" if kind == "bubble" else None,
        )
        for bar in bars:
            if kind != "bubble" and bar.end - bar.begin >= _LEAST_LABEL * period:
                _number(axes, number, bar)


def _number(axes: Axes, number: int, bar: Bar) -> None:
    axes.text(
        (bar.begin + bar.end) / 2,
        number,
        str(bar.micro_batch),
        ha="center",
        va="center",
        fontsize=6,
        color="white" if bar.micro_batch % 2 == 0 else "black",
        clip_on=True,
    )


def _band(axes: Axes, rows: Sequence[Lane]) -> None:
    """A background and a name for each data centre."""
    names = list(dict.fromkeys(lane.data_center for lane in rows))
    for number, name in enumerate(names):
        own = [i for i, lane in enumerate(rows) if lane.data_center == name]
        axes.axhspan(
            own[0] - 0.5, own[-1] + 0.5, color="#f3f6fa" if number % 2 else "#fbf7ef", zorder=0
        )
        axes.text(
            1.005,
            (own[0] + own[-1]) / 2,
            name,
            transform=axes.get_yaxis_transform(),
            rotation=270,
            va="center",
            fontsize=10,
            fontweight="bold",
        )


def _title(plan: Plan) -> str:
    return (
        f"{plan.schedule}, {plan.sharing.lower()} sharing: {format_duration(plan.iteration)} an "
        f"iteration, GPUs {plan.gpu_use:.0%} busy, {plan.micro_batches} micro-batches a replica"
    )
