import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.planning.schedule import checks, layouts
from geotrain.planning.schedule.backward_first import backward_first
from geotrain.planning.schedule.timeline import program, replay
from geotrain.planning.schedule.uniform import Uniform


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
