"""Constants that cannot be are refused, and contention counts where groups share a node."""

import pytest

from geotrain.planning.costs.accelerators import ACCELERATORS
from geotrain.planning.costs.calibrations import Calibration, Device, Residual

USUAL = Calibration(contention=0.1)


@pytest.mark.parametrize(
    ("tensor", "pipeline", "factor"),
    [(1, 2, 1.0), (8, 2, 1.0), (4, 1, 1.0), (4, 2, 1.1), (2, 8, 1.2)],
)
def test_contention_counts_where_tensor_groups_share_a_node_of_a_pipeline(tensor, pipeline, factor):
    assert USUAL.contended(tensor, pipeline) == pytest.approx(factor)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"matrix_share": 0.0}, "matrix_share is 0.0; give a share above 0 to 1"),
        ({"memory_share": 1.5}, "memory_share is 1.5"),
        ({"overhead": -1.0}, "overhead is -1.0; give 0 or more"),
        ({"contention": float("nan")}, "contention is nan"),
        ({"fixed": -1.0}, "fixed is -1.0"),
        ({"node": 0}, "a node of 0 devices"),
    ],
)
def test_constants_that_cannot_be_are_refused(changes, says):
    with pytest.raises(ValueError, match=says):
        Calibration(**changes)


@pytest.mark.parametrize("values", [(0, 0.1, 0.2), (5, 0.3, 0.2), (5, -0.1, 0.2)])
def test_a_residual_that_cannot_be_is_refused(values):
    with pytest.raises(ValueError, match="a residual has rows"):
        Residual(*values)


def test_a_device_reaches_shares_of_its_data_sheet():
    device = Device(ACCELERATORS["A100"], Calibration(matrix_share=0.5, memory_share=0.25))
    assert (device.operations, device.moved) == (156e12, 2.039e12 / 4)
    assert device.limited(7).memory == 7
