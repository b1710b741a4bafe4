import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.errors import InputError
from geotrain.model.plan import Kind
from geotrain.planning.schedule import checks, orders
from geotrain.planning.schedule.actions import compute_only, read_order, write_order
from geotrain.planning.schedule.lowering import lower


def test_every_message_gets_a_send_and_a_receive():
    assert write_order(lower(orders.one_f_one_b(2, 2))) == (
        "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
        "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n"
    )


def test_input_gradients_are_what_is_sent_back():
    order = read_order("0F0,0I0,0W0\n1F0,1I0,1W0\n")
    assert write_order(lower(order)) == (
        "0F0,0SEND_F0,0RECV_B0,0I0,0W0\n1RECV_F0,1F0,1I0,1SEND_B0,1W0\n"
    )


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.integers(1, 9))
def test_lowered_orders_finish_even_where_sends_block(depths, micro_batches):
    order = orders.atlas(micro_batches, depths, [9] * len(depths))
    lowered = lower(order)
    assert compute_only(lowered) == order
    assert checks.problems(lowered) == []
    sends = [a for row in lowered for a in row if a.kind == Kind.SEND_FORWARD]
    assert len(sends) == (len(depths) - 1) * micro_batches


def test_a_deadlock_is_refused_with_the_grid():
    order = read_order("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n")
    with pytest.raises(InputError) as refused:
        lower(order)
    assert str(refused.value) == (
        "stage 0, step 1: the order deadlocks: 0B0 waits for micro-batch 0 of stage 1\n"
        "step    0   1     2   3\n"
        "stage 0 0F0 >0B0< 0F1 0B1\n"
        "stage 1 1F0 1F1   1B0 1B1"
    )
