from pathlib import Path

import pytest

from geotrain.errors import InputError
from geotrain.planning.schedule import checks
from geotrain.planning.schedule.actions import format_table, read_order
from geotrain.planning.schedule.dual_pipe_v import dual_pipe_v, dual_pipe_v_table

TORCH = Path(__file__).parents[1] / "data" / "dualpipev_4rank_10mb.csv"


def test_it_is_the_order_of_torch():
    assert format_table(dual_pipe_v_table(4, 10)) == TORCH.read_text()
    assert dual_pipe_v(4, 10) == read_order(TORCH.read_text())


@pytest.mark.parametrize("devices", range(1, 7))
@pytest.mark.parametrize("more", [0, 1, 5])
def test_every_order_is_sound_in_the_memory_of_1f1b_and_one_stage(devices, more):
    order = dual_pipe_v(devices, 2 * devices + more)
    assert checks.problems(order) == []
    assert set(checks.peak_in_flight(order)) == {2 * devices + 1}


@pytest.mark.parametrize("numbers", [(0, 4), (3, 5)])
def test_too_few_micro_batches_are_refused(numbers):
    with pytest.raises(InputError, match="needs at least"):
        dual_pipe_v(*numbers)
