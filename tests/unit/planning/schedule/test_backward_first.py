import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.errors import InputError
from geotrain.planning.schedule import checks, layouts, orders
from geotrain.planning.schedule.actions import write_order
from geotrain.planning.schedule.backward_first import backward_first
from geotrain.planning.schedule.timeline import program, replay
from geotrain.planning.schedule.uniform import Uniform
from support.planning import pipeline, wan


def test_without_communication_and_with_the_same_room_it_is_one_f_one_b():
    order = backward_first(pipeline(4), [4, 3, 2, 1], 8)
    assert order == orders.one_f_one_b(4, 8)


def test_backwards_that_arrive_together_run_together():
    order = backward_first(pipeline(2, {0: wan(0.1, 6.0)}), [4, 4], 6)
    assert write_order(order).splitlines()[0].startswith("0F0,0F1,0F2,0F3,0B0,0F4,0B1")


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=5),
    st.integers(1, 9),
    st.floats(0, 5),
    st.floats(0, 5),
)
def test_its_orders_are_sound_and_it_replays_them_itself(caps, micro_batches, transfer, delay):
    costs = pipeline(len(caps), {b: wan(transfer, delay) for b in range(len(caps) - 1)})
    order = backward_first(costs, caps, micro_batches)
    assert checks.problems(order, caps) == []
    assert replay(program(order), costs, 1).period >= 3.0 * micro_batches


@pytest.mark.parametrize(("caps", "micro_batches"), [([1, 0], 3), ([1], 0)])
def test_no_room_and_no_micro_batch_are_refused(caps, micro_batches):
    with pytest.raises(InputError, match=r"room for one of each|give at least one"):
        backward_first(pipeline(len(caps)), caps, micro_batches)


def period(times, micro_batches=4, cap=4):
    costs = times.costs(layouts.one_stage_each(3))
    return replay(program(backward_first(costs, [cap] * 3, micro_batches)), costs, 1).period


def test_a_recompute_runs_while_its_gradient_is_waited_for():
    """The last gradient passes two stages, which have recomputed by the time it comes."""
    assert period(Uniform(1.0, 2.0, 1.0, 1.5, recompute=1.0)) == pytest.approx(
        period(Uniform(1.0, 2.0, 1.0, 1.5)) - 2.0
    )


@given(st.integers(1, 5), st.integers(1, 8), st.floats(0, 3), st.floats(0, 3), st.data())
def test_every_order_is_sound_and_an_early_recompute_never_slower(p, m, transfer, latency, data):
    caps = data.draw(st.lists(st.integers(1, 6), min_size=p, max_size=p))
    plain, early = (
        Uniform(1.0, 2.0, 1.0, transfer, latency=latency, boundaries=range(p - 1), recompute=part)
        for part in (0.0, 1.0)
    )
    order = backward_first(early.costs(layouts.one_stage_each(p)), caps, m)
    assert checks.problems(order, caps) == []
    times = [
        replay(program(order), each.costs(layouts.one_stage_each(p)), 1, iterations=1).period
        for each in (early, plain)
    ]
    assert times[0] <= times[1] + 1e-9
