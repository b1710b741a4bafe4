import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.errors import InputError
from geotrain.planning.schedule import checks, layouts, orders
from geotrain.planning.schedule.actions import write_order
from geotrain.planning.schedule.interleaved import interleaved_1f1b
from geotrain.planning.schedule.timeline import program, replay
from geotrain.planning.schedule.uniform import Uniform


def test_the_order_of_torch_on_two_ranks():
    assert write_order(interleaved_1f1b(2, 2, 4)) == (
        "0F0,0F1,2F0,2F1,0F2,2B0,0F3,2B1,2F2,0B0,2F3,0B1,2B2,2B3,0B2,0B3\n"
        "1F0,1F1,3F0,3B0,3F1,3B1,1F2,1B0,1F3,1B1,3F2,3B2,3F3,3B3,1B2,1B3\n"
    )


def test_one_chunk_is_1f1b():
    assert interleaved_1f1b(3, 1, 5) == orders.one_f_one_b(3, 5)


@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 4))
def test_every_order_is_sound_and_its_bubble_a_share_of_1f1bs(devices, chunks, rounds):
    order = interleaved_1f1b(devices, chunks, rounds * devices)
    assert checks.problems(order) == []
    costs = Uniform(4.0, 4.0, 4.0).costs(layouts.interleaved(devices, chunks))
    spent = replay(program(order), costs, 1).period - 12 * rounds * devices
    assert spent == pytest.approx(12 * (devices - 1) / chunks)
    assert max(checks.peak_in_flight(order)) <= (chunks - 1) * devices + 2 * (devices - 1) + 1


def test_micro_batches_that_make_no_equal_rounds_are_refused():
    with pytest.raises(InputError, match="cannot divide 7 micro-batches into 3 equal rounds"):
        interleaved_1f1b(2, 2, 7)


@pytest.mark.parametrize("numbers", [(0, 2, 2), (2, 0, 2), (2, 2, 0)])
def test_an_empty_pipeline_is_refused(numbers):
    with pytest.raises(InputError, match="give at least one of each"):
        interleaved_1f1b(*numbers)
