"""A plan's iteration as a picture (PNG, SVG, PDF): ranks and WAN transfers by data centre.

``cli.page`` makes the HTML page to zoom in; both draw the rows of ``planning.schedule.charts``.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from geotrain.cli.reports import headline
from geotrain.errors import InputError
from geotrain.model.plan import Plan
from geotrain.planning.schedule.charts import Bar, BarKind, Lane, lanes

# Two shades a kind: neighbours of a micro-batch stay apart.
_COLORS: Final = {
    BarKind.FORWARD: ("#2f6db5", "#7fb0e3"),
    BarKind.BACKWARD: ("#2c8a4b", "#86cc9b"),
    BarKind.INPUT_GRADIENT: ("#2c8a4b", "#86cc9b"),
    BarKind.WEIGHT_GRADIENT: ("#7a4fa3", "#bfa3dd"),
    BarKind.STEP: ("#8a8f98", "#8a8f98"),
    BarKind.TRANSFER: ("#d9822b", "#f4bd7a"),
    BarKind.WINDOW: ("#f7e3ae", "#f7e3ae"),
    BarKind.BUBBLE: ("#e4e4e8", "#e4e4e8"),
}
_LABELS: Final = {
    BarKind.TRANSFER: "transfer over the wide area",
    BarKind.WINDOW: "window that a flow owns",
}
_HEIGHTS: Final = {BarKind.TRANSFER: 0.5}
_OTHER_HEIGHT: Final = 0.8
_MOST_LANES: Final = 48
_MOST_EDGED: Final = 400
_LEAST_TRANSFER: Final = 1 / 1800  # of the period: about a pixel, so that it can be seen
_LEAST_LABEL: Final = 0.012  # of the period: narrower bars have no room for a number


def draw(plan: Plan, path: Path) -> None:
    """Write the chart. Raises InputError for an unknown suffix, OSError where it cannot be written.

    Both are found out before the drawing, which may take seconds.
    """
    mpl.use("Agg")
    rows = _shown(plan)
    figure = Figure(figsize=(18, 1.8 + 0.32 * len(rows)), dpi=120, layout="constrained")
    form = path.suffix.removeprefix(".")
    if form not in figure.canvas.get_supported_filetypes():
        raise InputError(
            f"{path}: {path.suffix or 'no suffix'} is no format to draw in; name it .png, .svg,"
            " .pdf or .html"
        )
    with path.open("wb") as file:
        _fill(figure, plan, rows)
        figure.savefig(file, format=form)


def _fill(figure: Figure, plan: Plan, rows: Sequence[Lane]) -> None:
    axes = figure.add_subplot()
    for number, lane in enumerate(rows):
        _draw_lane(axes, number, lane, plan.iteration)
    _band(axes, rows)
    axes.set_yticks(range(len(rows)), [lane.name for lane in rows], fontsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    end = max((bar.end for row in rows for bar in row.bars), default=0.0)
    axes.set_xlim(0, max(plan.iteration, end) or 1)
    if end > plan.iteration:  # the next iteration begins before this one ends everywhere
        axes.axvline(plan.iteration, color="#667085", linewidth=1, linestyle="--")
    axes.set_xlabel("seconds from the start of stage 0")
    axes.set_title(headline(plan), fontsize=11, loc="left")
    kinds = [kind for kind in _COLORS if any(bar.kind == kind for row in rows for bar in row.bars)]
    handles = [Patch(facecolor=_COLORS[k][0], label=_LABELS.get(k, str(k))) for k in kinds]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)


def _shown(plan: Plan) -> list[Lane]:
    """All rows, or where they are too many those of replica 0, which stands for the others."""
    rows = list(lanes(plan))
    return rows if len(rows) <= _MOST_LANES else [row for row in rows if row.replica == 0]


def _draw_lane(axes: Axes, number: int, lane: Lane, period: float) -> None:
    """One row. Bars that look alike are one artist, which draws several times faster.

    Where bars are so many that edges and hatches would hide them, they go without.
    """
    is_dense = len(lane.bars) > _MOST_EDGED
    alike: dict[tuple[BarKind, int], list[Bar]] = {}
    for bar in lane.bars:
        alike.setdefault((bar.kind, bar.micro_batch % 2), []).append(bar)
    for (kind, shade), bars in alike.items():
        least = _LEAST_TRANSFER * period if kind == BarKind.TRANSFER else 0.0
        height = _HEIGHTS.get(kind, _OTHER_HEIGHT)
        axes.broken_barh(
            [(bar.begin, max(bar.end - bar.begin, least)) for bar in bars],
            (number - height / 2, height),
            facecolors=_COLORS[kind][shade],
            edgecolor="#c9a227" if kind == BarKind.WINDOW else "white",
            linewidth=0.0 if is_dense else 0.3,
            hatch="////" if kind == BarKind.BUBBLE and not is_dense else None,
            snap=False if is_dense else None,  # snapped to pixels, some of them would vanish
        )
        for bar in bars:
            if bar.label and bar.end - bar.begin >= _LEAST_LABEL * period:
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
