import pytest

from geotrain.errors import InputError
from geotrain.planning.schedule import checks, orders
from geotrain.planning.schedule.actions import read_order


def sentences(text, caps=None):
    return [problem.sentence for problem in checks.problems(read_order(text), caps)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0F0,0F0,0B0\n", "stage 0, step 1: 0F0 is listed twice"),
        ("0B0,0F0\n", "stage 0, step 0: 0B0 comes before 0F0"),
        ("0F0,0W0,0I0\n", "stage 0, step 1: 0W0 comes before 0I0"),
        ("0F0\n", "stage 0, step 0: micro-batch 0 needs F and B, or F, I and W; it has 0F0"),
        (
            "0F0,0B0,0I0,0W0\n",
            "stage 0, step 3: micro-batch 0 needs F and B, or F, I and W; it has "
            "0B0, 0F0, 0I0, 0W0",
        ),
        (
            "0F0,0B0\n1F1,1B1\n",
            "stage 1, step 1: micro-batch 0 is on stage 0 or 1, but not on both",
        ),
        (
            "0F0,0B0\n,\n",
            "stage 1, step 0: micro-batch 0 is on stage 0 or 1, but not on both",
        ),
        (
            "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n",
            "stage 0, step 1: the order deadlocks: 0B0 waits for micro-batch 0 of stage 1",
        ),
        (
            "0F0,0RECV_B0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
            "stage 0, step 1: the order deadlocks: 0RECV_B0 waits for stage 1 to reach 1SEND_B0",
        ),
        (
            "0SEND_F0,0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
            "stage 0, step 0: the order deadlocks: 0SEND_F0 waits for stage 1 to reach 1RECV_F0",
        ),
        (
            "0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1RECV_F0,1B0,1SEND_B0\n",
            "stage 0, step 1: the order deadlocks: 0SEND_F0 waits for stage 1 to reach 1RECV_F0",
        ),
        (
            "0F0,0SEND_B0,0B0\n",
            "stage 0, step 1: the order deadlocks: 0SEND_B0 waits for stage -1 to reach -1RECV_B0",
        ),
    ],
)
def test_every_fault_is_one_sentence_with_its_place(text, expected):
    assert expected in sentences(text)


def test_a_stage_in_the_wrong_row_is_named():
    order = tuple(reversed(orders.gpipe(2, 1)))
    assert checks.problems(order)[0].sentence == ("stage 0, step 0: 1F0 is listed under stage 0")


def test_more_micro_batches_than_memory_holds_are_a_fault():
    assert sentences("0F0,0F1,0B0,0B1\n", [1]) == [
        "stage 0, step 1: 0F1 is one micro-batch more than the 1 that memory holds"
    ]
    assert sentences("0F0,0F1,0B0,0B1\n", [2]) == []


def test_a_weight_gradient_releases_what_its_forward_held():
    order = read_order("0F0,0I0,0F1,0W0,0I1,0W1\n")
    assert list(checks.in_flight(order[0])) == [1, 1, 2, 2, 1, 1]
    assert checks.peak_in_flight(order) == (2,)
    assert checks.peak_in_flight(((),)) == (0,)


def test_the_grid_shows_the_columns_around_the_fault():
    order = orders.gpipe(1, 30)
    problem = checks.problems(order, [20])[0]
    heads, row = problem.grid.splitlines()
    assert heads.split()[0:2] == ["step", "12"]
    assert ">0F20<" in row
    assert heads.split()[-1] == "28"


def test_an_action_that_can_never_run_is_told_as_such():
    order = read_order("0F0,0B0\n")
    assert "waits for an action before it" in checks.deadlock(order, [0]).sentence


def test_require_sound_raises_the_first_fault_with_its_grid():
    checks.require_sound(orders.gpipe(2, 2))
    with pytest.raises(InputError, match=r"(?s)^stage 0, step 0: .*>0F0<"):
        checks.require_sound(read_order("0F0\n"))
