"""Whole iterations against public measurements, without a fit per row (docs/costs.md)."""

from dataclasses import replace

import pytest

from benchmarks import calibration
from benchmarks.calibration import quantile
from geotrain.planning.costs.clusters import SELENE, VTRAIN
from geotrain.planning.costs.iterations import Layout, iteration
from geotrain.planning.costs.layers import Training
from geotrain.planning.costs.memory import Recompute
from geotrain.planning.costs.shapes import Shape

ERRORS = [run.error(VTRAIN) for run in calibration.vtrain()]


def test_vtrains_iterations_are_met():
    assert len(ERRORS) == 73
    assert quantile(ERRORS, 0.5) <= 0.06
    assert quantile(ERRORS, 0.9) <= 0.12


def test_runs_that_did_not_calibrate_are_met_less_well():
    """Every second row from the first on; the others calibrated the constants."""
    unseen = ERRORS[::2]
    assert quantile(unseen, 0.5) <= 0.04
    assert quantile(unseen, 0.9) <= 0.14


@pytest.mark.parametrize("name", calibration.calculon())
def test_four_models_of_another_cluster_are_met_with_the_same_constants(name):
    assert abs(calibration.calculon()[name].error(SELENE)) <= 0.12


SHAPE = Shape(12, 1024, 16, 512, 50_000, 2)
FULL = Training(recompute=Recompute.ALL)


def seconds(layout, cluster=VTRAIN, training=FULL):
    return iteration(SHAPE, layout, cluster, training)


def test_chunks_shorten_fill_and_drain():
    one, two = (seconds(Layout(8, 1, 4, 32, chunks=v)) for v in (1, 2))
    assert two < one
    alone = [seconds(Layout(8, 1, 1, 32, chunks=v)) for v in (1, 2)]
    assert alone[0] == alone[1]


def test_layers_that_do_not_divide_are_balanced():
    assert seconds(Layout(8, 1, 5, 32)) > 0


def test_contention_counts_where_tensor_groups_share_a_node_of_a_pipeline():
    def factor(tensor, pipeline):
        layout = Layout(tensor, 1, pipeline, 32)
        return seconds(layout) / seconds(layout, replace(VTRAIN, contention=0.0))

    assert factor(1, 2) == factor(8, 2) == factor(4, 1) == 1
    assert 1 < factor(4, 2) < factor(2, 2)


def test_more_replicas_take_longer_for_the_same_micro_batches():
    assert seconds(Layout(8, 4, 2, 128)) > seconds(Layout(8, 1, 2, 32))


@pytest.mark.parametrize("batch", [0, 33])
def test_a_batch_that_does_not_divide_is_refused(batch):
    with pytest.raises(ValueError, match="does not divide"):
        seconds(Layout(8, 1, 2, batch))
