"""Constants that made some iterations are found again from them."""

from dataclasses import replace

import pytest

from geotrain.model.topology import Lan
from geotrain.planning.costs.accelerators import Accelerator
from geotrain.planning.costs.calibrations import Calibration, Device
from geotrain.planning.costs.layers import Training
from geotrain.planning.costs.shapes import Shape
from geotrain.planning.explore import fitting
from geotrain.planning.explore.fitting import Cluster, Run
from geotrain.planning.explore.layouts import Degrees, Layout, Placement

SHEET = Accelerator("one", 100e12, 80 * 2**30, 1e12)
MADE = Calibration("one", matrix_share=0.6, memory_share=0.5, overhead=3e-4, contention=0.08)
CLUSTER = Cluster(Device(SHEET, MADE), Lan(200e9))


def run(hidden, tensor, data, pipeline, micro):
    layout = Layout(
        Degrees(tensor, 1, data, pipeline),
        Placement(("tensor", "context", "data", "pipeline")),
        micro_batch=micro,
        transport="tcp",
    )
    bare = Run(Shape(8, hidden, 16, 1024, 8192), layout, Training(), 32, 1.0)
    return replace(bare, measured=fitting.predicted(bare, CLUSTER))


RUNS = [
    run(hidden, *degrees, micro)
    for hidden in (1024, 4096)
    for degrees in ((1, 2, 1), (4, 2, 2), (8, 2, 2), (2, 4, 2))
    for micro in (1, 4)
]


def test_what_was_made_with_some_constants_is_off_by_nothing():
    assert [fitting.error(each, CLUSTER) for each in RUNS] == [0.0] * len(RUNS)
    assert fitting.loss(RUNS, CLUSTER) == 0
    found = fitting.residual(RUNS, CLUSTER)
    assert (found.rows, found.median, found.p90) == (16, 0, 0)


def test_a_search_comes_near_the_constants_that_made_the_runs():
    start = replace(CLUSTER, device=fitting.plain(CLUSTER.device))
    found = fitting.fit(RUNS, start, pod_rate=False)
    assert fitting.loss(RUNS, found) < fitting.loss(RUNS, start) / 4
    assert fitting.residual(RUNS, found).p90 < 0.03
    assert found.device.calibration.matrix_share == pytest.approx(0.6, rel=0.05)
    assert found.lan == start.lan


def test_what_pods_reach_may_be_fitted_too():
    start = replace(CLUSTER, lan=Lan(100e9))
    found = fitting.fit(RUNS, start, pod_rate=True)
    assert found.lan.rate == pytest.approx(200e9, rel=0.1)


def test_a_share_never_becomes_more_than_all():
    full = replace(MADE, matrix_share=1.0, memory_share=1.0)
    start = replace(CLUSTER, device=replace(CLUSTER.device, calibration=full))
    found = fitting.fit(RUNS[:2], start, pod_rate=False)
    assert found.device.calibration.matrix_share <= 1


def test_a_large_error_counts_sevenfold_up_to_where_it_is_cut():
    off = [replace(RUNS[0], measured=RUNS[0].measured / 1.12)]
    wild = [replace(RUNS[0], measured=RUNS[0].measured / 3)]
    assert fitting.loss(off, CLUSTER) == pytest.approx(0.1133 + 6 * 0.0133, abs=1e-3)
    assert fitting.loss(wild, CLUSTER) == pytest.approx(0.13 + 6 * 0.03)


def test_quantiles_are_of_rows():
    errors = [-0.1, 0.2, 0.05, -0.4]
    assert (fitting.quantile(errors, 0.5), fitting.quantile(errors, 0.9)) == (0.1, 0.4)


def test_a_constant_that_helps_nothing_and_one_at_its_end_stay():
    """No contention cannot grow by a factor, and a share of all cannot grow at all."""
    made = replace(MADE, matrix_share=1.0, contention=0.0)
    start = replace(CLUSTER, device=Device(SHEET, made))
    fast = [replace(each, measured=each.measured / 3) for each in RUNS]
    found = fitting.fit(fast, start, pod_rate=False).device.calibration
    assert (found.matrix_share, found.contention) == (1.0, 0.0)


def test_what_would_leap_beyond_all_is_found_step_by_step():
    whole = replace(CLUSTER, device=Device(SHEET, replace(MADE, matrix_share=1.0)))
    runs = [replace(each, measured=fitting.predicted(each, whole)) for each in RUNS[::3]]
    found = fitting.fit(runs, CLUSTER, pod_rate=False)
    assert found.device.calibration.matrix_share == pytest.approx(1.0, rel=0.1)
    assert fitting.loss(runs, found) < fitting.loss(runs, CLUSTER) / 4
