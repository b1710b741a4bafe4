import pytest

from examples.trainer.schedule import Action, Schedule, ScheduleError, one_f_one_b
from geotrain.planning.schedule import actions, lowering, orders


def read(text, micro_batches):
    return Schedule.from_csv(text.splitlines(), micro_batches)


def names(row):
    return [str(action) for action in row]


def test_empty_cells_are_bubbles():
    schedule = read("0F0,,0B0\n,1F0,1B0,\n", 1)
    assert [names(row) for row in schedule.rows] == [["0F0", "0B0"], ["1F0", "1B0"]]


def test_sends_and_receives_are_left_out():
    schedule = read("0F0,0SEND_F0,0RECV_B0,0BW0\n1RECV_F0,1F0,1I0,1SEND_B0,1W0\n", 1)
    assert [names(row) for row in schedule.rows] == [["0F0", "0B0"], ["1F0", "1I0", "1W0"]]


@pytest.mark.parametrize("lower", [False, True])
def test_what_the_planner_writes_is_read(lower):
    order = orders.one_f_one_b(4, 8)
    schedule = read(actions.write_order(lowering.lower(order) if lower else order), 8)
    assert [names(row) for row in schedule.rows] == [[str(a) for a in row] for row in order]


def test_the_order_of_messages_is_the_order_of_their_actions():
    schedule = read("0F1,0F0,0B0,0B1\n1F1,1I1,1F0,1I0,1W1,1W0\n", 2)
    assert schedule.sent_forward(0) == [1, 0]
    assert schedule.sent_backward(1) == [1, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0F0,0X0\n", "row 0, cell 1: '0X0' is no action such as 2F0"),
        ("0F0,1B0\n", "row 0, cell 1: '1B0' belongs to another stage"),
        ("0F0,0B0,0F1,0B1\n", "row 0: 0F1 is beyond 1 micro-batches"),
        ("0F0\n", "row 0: micro-batch 0 has 0F0; it needs F, then B or I and W"),
        ("0B0,0F0\n", "row 0: micro-batch 0 has 0B0, 0F0; it needs F, then B or I and W"),
        ("0F0,0W0,0I0\n", "row 0: micro-batch 0 has 0F0, 0W0, 0I0; it needs F"),
        (",\n", "row 0: micro-batch 0 has nothing; it needs F"),
    ],
)
def test_a_plan_that_cannot_run_is_refused(text, message):
    with pytest.raises(ScheduleError) as error:
        read(text, 1)
    assert message in str(error.value)


@pytest.mark.parametrize(("stages", "micro_batches"), [(1, 1), (3, 2), (4, 8)])
def test_without_a_plan_the_order_is_the_planners_1f1b(stages, micro_batches):
    expected = actions.write_order(orders.one_f_one_b(stages, micro_batches))
    assert one_f_one_b(stages, micro_batches).split() == expected.split()


def test_an_action_prints_as_its_cell():
    assert str(Action(2, "F", 0)) == "2F0"
