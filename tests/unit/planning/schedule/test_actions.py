import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.errors import InputError
from geotrain.model.plan import Action, Kind
from geotrain.planning.schedule import actions, checks, orders
from geotrain.planning.schedule.timeline import program

DATA = Path(__file__).parents[1] / "data"

NUMBERS = st.integers(0, 999_999)


@given(st.builds(Action, NUMBERS, st.sampled_from(Kind), NUMBERS))
def test_an_action_is_read_back_as_written(action):
    assert actions.parse_action(str(action)) == action


@pytest.mark.parametrize(
    "text", ["", "F0", "2F", "2X0", "-1F0", "2F0 3F0", "2f0", "1234567F0", "2SENDF0", "٢F0x"]
)
def test_what_is_no_action_is_refused_with_its_place(text):
    with pytest.raises(InputError, match=r"^line 3 cell 4: .* is no action; write one like 2F0"):
        actions.parse_action(text, "line 3 cell 4")


@pytest.mark.parametrize("name", sorted(path.name for path in DATA.glob("*.csv")))
def test_schedules_of_pytorch_survive_a_round_trip(name):
    text = (DATA / name).read_text()
    assert actions.format_table(actions.parse_table(text)) == text


def test_the_older_form_means_input_gradient_by_b_and_backward_by_bw():
    table = actions.parse_table((DATA / "zb1p_2rank_2stagep_comms.csv").read_text())
    kinds = {action.kind for row in table.rows for cell in row for action in cell}
    assert table.legacy
    assert {Kind.BACKWARD, Kind.INPUT_GRADIENT, Kind.WEIGHT_GRADIENT} <= kinds
    assert Action(3, Kind.INPUT_GRADIENT, 0) in {a for c in table.rows[1] for a in c}


def test_zeros_before_a_number_do_not_hide_the_older_form():
    table = actions.parse_table("0F0,0B00\n0W0\n")
    assert table.legacy
    assert actions.parse_table(actions.format_table(table)) == table


def test_overlapped_pairs_share_a_cell_and_empty_cells_are_kept():
    table = actions.parse_table("0F0,,(0F1;1B0)OVERLAP_F_B\n")
    assert table.rows == (
        (
            (Action(0, Kind.FORWARD, 0),),
            (),
            (Action(0, Kind.FORWARD, 1), Action(1, Kind.BACKWARD, 0)),
        ),
    )
    assert not table.legacy


@pytest.mark.parametrize("text", ["", "0UNSHARD,0REDUCE_GRAD", "\n\n", ",,\n,"])
def test_an_empty_schedule_is_refused(text):
    with pytest.raises(InputError, match="the schedule is empty"):
        actions.parse_table(text)


def test_a_bad_cell_is_named_by_line_and_column():
    with pytest.raises(InputError, match="line 2 cell 3: 'nonsense' is no action"):
        actions.parse_table("0F0,0B0\n1F0,,nonsense\n")


def test_what_a_runtime_adds_about_sharding_and_sends_is_read_as_waiting():
    rows = ["0UNSHARD,0F0,0SEND_F0,0WAIT_SEND_F0,0B0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD,0RESHARD"]
    rows += ["1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0"]
    order = actions.compute_only(actions.read_order("\n".join(rows)))
    assert [[str(action) for action in row] for row in order] == [["0F0", "0B0"], ["1F0", "1B0"]]


@given(st.integers(1, 5), st.integers(1, 6))
def test_an_order_survives_a_round_trip(stages, micro_batches):
    order = orders.one_f_one_b(stages, micro_batches)
    assert actions.read_order(actions.write_order(order)) == order


def test_an_order_has_one_stage_a_row():
    with pytest.raises(InputError, match="line 2: 3F0 belongs to stage 3, but line 2 is stage 1"):
        actions.read_order("0F0,0B0\n3F0,3B0\n")


def test_compute_only_drops_messages():
    order = actions.read_order("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n")
    assert actions.write_order(actions.compute_only(order)) == "0F0,0B0\n1F0,1B0\n"


CELLS = st.one_of(
    st.builds(Action, st.integers(0, 3), st.sampled_from(Kind), st.integers(0, 3)).map(str),
    st.sampled_from(["", " ", "(0F1;1B0)OVERLAP_F_B", "0BW0", "(0F1)", "F", "0F", "99999999F1"]),
    st.text(st.characters(codec="utf-8"), max_size=6),
)


@given(st.lists(st.lists(CELLS, max_size=5), max_size=4))
def test_any_text_is_a_sound_table_or_refused_in_one_sentence(rows):
    text = "\n".join(",".join(row) for row in rows)
    try:
        table = actions.parse_table(text)
    except InputError as error:
        sentence = str(error)
    else:
        sentence = ""
        assert actions.parse_table(actions.format_table(table)) == table
    assert "\n" not in sentence


@given(st.lists(st.lists(CELLS, max_size=5), max_size=4))
def test_any_order_is_checked_and_replayed_or_refused(rows):
    text = "\n".join(",".join(row) for row in rows)
    with contextlib.suppress(InputError):
        order = actions.read_order(text)
        checks.require_sound(order)
        assert program(actions.compute_only(order)).devices == len(order)
