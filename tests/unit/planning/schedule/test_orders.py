import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.errors import InputError
from geotrain.planning.schedule import checks, orders
from geotrain.planning.schedule.actions import write_order


def test_gpipe_runs_all_forwards_first():
    assert write_order(orders.gpipe(2, 3)) == "0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1F1,1F2,1B0,1B1,1B2\n"


def test_one_f_one_b_alternates_after_its_warm_up():
    assert write_order(orders.one_f_one_b(3, 4)) == (
        "0F0,0F1,0F2,0B0,0F3,0B1,0B2,0B3\n"
        "1F0,1F1,1B0,1F2,1B1,1F3,1B2,1B3\n"
        "2F0,2B0,2F1,2B1,2F2,2B2,2F3,2B3\n"
    )


def test_atlas_warms_up_further_as_far_as_memory_allows():
    order = orders.atlas(8, caps=[5, 5, 5], extra=orders.warm_up(3, {0: 1, 1: 2}))
    assert checks.peak_in_flight(order) == (5, 4, 1)


def test_extras_of_all_boundaries_behind_a_stage_add_up():
    assert orders.warm_up(4, {0: 1, 2: 3}) == (4, 3, 3, 0)


def test_a_depth_never_grows_along_the_pipeline():
    assert orders.atlas_depths([2, 9, 9], [0, 0, 5]) == (2, 2, 2)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 12), st.data())
def test_every_atlas_order_is_sound_within_its_caps(caps, micro_batches, data):
    extra = data.draw(st.lists(st.integers(0, 9), min_size=len(caps), max_size=len(caps)))
    order = orders.atlas(micro_batches, caps, extra)
    assert checks.problems(order, caps) == []


@pytest.mark.parametrize(("stages", "micro_batches"), [(0, 1), (1, 0), (-1, 3)])
def test_an_empty_pipeline_is_refused(stages, micro_batches):
    with pytest.raises(InputError, match="give at least one of each"):
        orders.gpipe(stages, micro_batches)


def test_a_stage_without_room_is_refused():
    with pytest.raises(InputError, match="give more memory"):
        orders.atlas(4, caps=[2, 0], extra=[0, 0])
