import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from geotrain.cli import gantt
from geotrain.planning.placement.choose import choose
from geotrain.planning.schedule.charts import BarKind, lanes
from support.planning import links, profile, topology, workload

PLACES = topology({"a": 2, "b": 2}, links(("a", "b"), capacity=1.6e9, round_trip=0.02))


def drawn(schedule, **values):
    job = workload(profile=profile(2, **values), pipeline=2, global_batch=8, schedule=schedule)
    plan, figure = choose(PLACES, job), Figure()
    gantt._fill(figure, plan, lanes(plan))
    return plan, figure.axes[0]


@pytest.mark.parametrize("schedule", ["GPipe", "ZeroBubble"])
def test_everything_is_shown_and_the_period_marked_where_some_ranks_end_later(schedule):
    plan, axes = drawn(schedule)
    end = max(bar.end for lane in lanes(plan) for bar in lane.bars)
    assert axes.get_xlim() == (0, end)
    marks = [line.get_xdata()[0] for line in axes.get_lines()]
    assert marks == ([plan.iteration] if end > plan.iteration else [])
    assert bool(marks) == (schedule == "ZeroBubble")


def test_a_transfer_is_wide_enough_to_be_seen():
    plan, axes = drawn("GPipe", forward=100.0)
    colors = [to_rgba(color) for color in gantt._COLORS[BarKind.TRANSFER]]
    orange = [each for each in axes.collections if tuple(each.get_facecolor()[0]) in colors]
    widths = [path.get_extents().width for each in orange for path in each.get_paths()]
    least = min(
        bar.end - bar.begin
        for lane in lanes(plan)
        for bar in lane.bars
        if bar.kind == BarKind.TRANSFER
    )
    assert least < plan.iteration / 1800 == pytest.approx(min(widths))
