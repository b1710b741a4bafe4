from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from geotrain.model.plan import Kind
from geotrain.planning.schedule import checks
from geotrain.planning.schedule.actions import read_order, write_order
from geotrain.planning.schedule.layouts import one_stage_each
from geotrain.planning.schedule.uniform import Uniform
from geotrain.planning.schedule.weights import put_off
from geotrain.planning.schedule.zero_bubble import zero_bubble


def made(stages, micro_batches, cap):
    costs = Uniform(1.0, 1.0, 1.0, 0.5).costs(one_stage_each(stages))
    return zero_bubble(costs, (cap,) * stages, micro_batches)


def most_waiting(row):
    waiting = most = 0
    for action in row:
        waiting += action.kind == Kind.INPUT_GRADIENT
        waiting -= action.kind == Kind.WEIGHT_GRADIENT
        most = max(most, waiting)
    return most


def test_one_too_many_lets_the_oldest_run_first():
    order = read_order("0F0,0F1,0F2,0I0,0I1,0I2,0W1,0W0,0W2")
    assert write_order(put_off(order, [2])) == "0F0,0F1,0F2,0I0,0I1,0W0,0I2,0W1,0W2\n"
    assert put_off(order, [3]) == order


def test_where_none_may_wait_the_backward_stays_whole():
    order = read_order("0F0,0F1,0I0,0I1,0W0,0W1")
    assert write_order(put_off(order, [0])) == "0F0,0F1,0B0,0B1\n"


@given(st.integers(1, 4), st.integers(1, 8), st.integers(1, 6), st.data())
def test_an_order_stays_complete_sound_and_no_deeper(stages, micro_batches, cap, data):
    order = made(stages, micro_batches, cap)
    limits = data.draw(st.lists(st.integers(0, 4), min_size=stages, max_size=stages))
    found = put_off(order, limits)
    assert checks.problems(found, (cap,) * stages) == []
    for row, before, limit in zip(found, order, limits, strict=True):
        assert most_waiting(row) <= limit
        kinds, were = Counter(a.kind for a in row), Counter(a.kind for a in before)
        assert kinds[Kind.FORWARD] == were[Kind.FORWARD] == micro_batches
        assert kinds[Kind.BACKWARD] + kinds[Kind.WEIGHT_GRADIENT] == micro_batches
