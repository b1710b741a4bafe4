import csv
import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from geotrain.cli import main as command
from geotrain.cli.main import app
from geotrain.cli.schedule import Work, text
from geotrain.cli.schedule import document as shown
from geotrain.errors import InputError
from geotrain.planning.schedule import orders
from geotrain.planning.schedule.actions import read_order
from geotrain.planning.schedule.policies import POLICIES
from geotrain.planning.schedule.timeline import program, replay
from geotrain.planning.schedule.uniform import Uniform

PLANNING = Path(__file__).parents[1] / "planning" / "data"
TIMES = [
    *("--forward", "18522us", "--input-gradient", "18086us", "--weight-gradient", "9337us"),
    *("--transfer", "601us"),
]
SIZE = ["--stages", "8", "--microbatches", "24"]


def run(*arguments):
    return CliRunner().invoke(app, ["schedule", *map(str, arguments)])


def fault(*arguments):
    result = run(*arguments)
    assert isinstance(result.exception, InputError), result.output
    return str(result.exception)


def document(*arguments):
    result = run(*arguments, "-o", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_json_has_makespan_ratio_and_each_ranks_bubbles_and_peak():
    plain = document("--policy", "1f1b", *SIZE, *TIMES)
    assert plain["bubble_ratio"] == pytest.approx(0.2431, abs=1e-4)
    assert plain["makespan"] == pytest.approx(1.456749)
    assert [rank["peak_in_flight"] for rank in plain["ranks"]] == list(range(8, 0, -1))
    for rank in plain["ranks"]:
        idle = sum(bubble["end"] - bubble["begin"] for bubble in rank["bubbles"])
        assert idle + rank["busy"] == pytest.approx(plain["makespan"])
    assert document("--policy", "zb-1p", *SIZE, *TIMES)["bubble_ratio"] <= 0.1585 + 0.005


def test_what_a_schedule_lacks_is_said_in_both_forms():
    times = Uniform(1.0, 1.0, 1.0).costs((0, 1))
    work = Work("greedy", orders.gpipe(2, 2), times, note="the best so far")
    timeline = replay(program(work.order), times, 1)
    assert text(work, timeline, 40).endswith("\nthe best so far")
    assert shown(work, timeline)["note"] == "the best so far"
    assert "note" not in document("--policy", "greedy", *SIZE, *TIMES)


def test_the_grid_has_a_row_a_rank():
    times = ["--forward", "1s", "--input-gradient", "1s", "--weight-gradient", "1s"]
    result = run("--policy", "zb-1p", "--stages", 2, "--microbatches", 3, *times, "--columns", 10)
    assert result.stdout.splitlines() == [
        "zb-1p: 10s an iteration, bubble ratio 0.1000",
        "rank 0 ab.A+cB+C+  10% idle, 2 in flight",
        "rank 1 .aAbB+cC++  10% idle, 2 in flight",
        "a forward, A backward or input gradient (a: micro-batch 0, b: 1, …), + weight gradient",
    ]


@pytest.mark.parametrize("name", POLICIES)
def test_every_schedule_survives_its_own_csv(name, tmp_path):
    path = tmp_path / "order.csv"
    result = run("--policy", name, "--stages", 2, "--microbatches", 4, *TIMES, "-o", "csv")
    path.write_text(result.stdout)
    assert read_order(path.read_text())
    made = document("--policy", name, "--stages", 2, "--microbatches", 4, *TIMES)
    again = document("--order", path, *TIMES)
    assert again.pop("schedule") == "order.csv"
    assert made.pop("schedule") == name
    made.pop("bound", None)  # only the policy knows it
    assert again == made


def test_messages_are_written_on_request_and_do_not_change_the_replay(tmp_path):
    path = tmp_path / "order.csv"
    size = ["--stages", 2, "--microbatches", 2]
    result = run("--policy", "gpipe", *size, *TIMES, "-o", "csv", "--messages")
    assert result.stdout.startswith("0F0,0SEND_F0,0F1,0SEND_F1,")
    path.write_text(result.stdout)
    made, again = document("--policy", "gpipe", *size, *TIMES), document("--order", path, *TIMES)
    assert made["ranks"] == again["ranks"]


@pytest.mark.parametrize("name", sorted(path.name for path in PLANNING.glob("*.csv")))
def test_schedules_of_torch_are_replayed(name):
    rows = list(csv.reader((PLANNING / name).read_text().splitlines()))
    found = document("--order", PLANNING / name, *TIMES)
    assert (found["stages"], found["chunks"]) == (len(rows), 2)
    assert 0 < found["bubble_ratio"] < 1


def test_the_wide_area_costs_latency_where_it_is_said():
    near = document("--policy", "1f1b", *SIZE, *TIMES)["makespan"]
    wide = [*TIMES, "--latency", "20ms", "--wan-boundary", "3,5"]
    far = document("--policy", "1f1b", *SIZE, *wide)["makespan"]
    assert far > near + 4 * 0.02
    assert document("--policy", "geopipe", *SIZE, *wide)["makespan"] < far
    local = document("--policy", "1f1b", *SIZE, *wide, "--local-transfer", "0s")["makespan"]
    assert local < far


def test_chunks_and_memory_are_the_users_choice():
    found = document("--policy", "interleaved", *SIZE, *TIMES, "--chunks", 4)
    assert found["ranks"][7]["stages"] == [7, 15, 23, 31]
    capped = document("--policy", "zb-2p", *SIZE, *TIMES, "--in-flight", 9)
    assert max(rank["peak_in_flight"] for rank in capped["ranks"]) <= 9


POLICY = ["--policy", "1f1b", *SIZE]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--forward", "-5ms"], "--forward: '-5ms' is not a duration; write one like 40ms"),
        (["--forward", "nan"], "--forward: 'nan' is not a duration"),
        (["--forward", "0s"], "--forward is 0s; it must take some time"),
        (["--forward", "9999999h"], "--forward is 9999999h, more than a day; check its unit"),
        (["--transfer", "601"], "--transfer: '601' is not a duration"),
        (["--stages", "0"], "--stages is 0; it must be at least 1"),
        (["--microbatches", "-3"], "--microbatches is -3; it must be at least 1"),
        (["--in-flight", "0"], "--in-flight is 0; it must be at least 1"),
        (["--stages", "99999999"], "the schedule has .* actions; at most 1000000 are replayed"),
        (["--chunks", "2"], "--policy 1f1b runs 1 stages a rank; --chunks says 2"),
        (["--latency", "20ms"], "--latency is that of a wide-area boundary; say which"),
        (["--wan-boundary", "a"], "--wan-boundary: 'a' is no list of ranks; write one like 1,3"),
        (["--wan-boundary", "7"], "--wan-boundary 7 is beyond the pipeline of 8 ranks; 0 to 6"),
        (["--stages", "1", "--wan-boundary", "0"], "a pipeline of one rank has none"),
        (["--recompute", "1s"], "--recompute is 1s, but it is a part of the --input-gradient"),
        (["--policy", "fastest"], "there is no schedule 'fastest'; known: gpipe"),
        (["--policy", "gpipe", "--in-flight", "4"], "more than the 4 that memory holds"),
        (["--order", "x.csv"], "give either --policy or --order"),
    ],
)
def test_a_wrong_option_is_one_sentence(arguments, message):
    assert re.search(message, fault(*POLICY, *TIMES, *arguments))


def test_what_lacks_is_named(capsys):
    assert "give either --policy or --order" in fault(*SIZE, *TIMES)
    assert fault("--policy", "1f1b", "--stages", 2, *TIMES) == "--policy 1f1b needs --microbatches"
    assert fault("--policy", "1f1b", *TIMES) == "--policy 1f1b needs --stages"
    missing = run("--policy", "1f1b", *SIZE)
    assert missing.exit_code == 2
    assert "Missing option '--forward'" in missing.output
    unknown = run(*POLICY, *TIMES, "--speed", "3")
    assert unknown.exit_code == 2
    assert "No such option" in unknown.output


def test_files_that_are_no_schedule_are_refused(tmp_path):
    path = tmp_path / "order.csv"
    assert "cannot be read: No such file" in fault("--order", path, *TIMES)
    path.write_bytes(b"\xff\xfe0F0")
    assert "order.csv cannot be read: it is not UTF-8 text" in fault("--order", path, *TIMES)
    path.write_text("0F1,0B1\n")
    assert "micro-batch 0 is on no line" in fault("--order", path, *TIMES)
    path.write_text("0F0,nonsense\n")
    assert "line 1 cell 2: 'nonsense' is no action" in fault("--order", path, *TIMES)
    shutil.copy(PLANNING / "dualpipev_4rank_10mb.csv", path)
    assert "has 4 ranks, but --stages is 8" in fault("--order", path, *TIMES, "--stages", 8)
    assert "has 2 stages a rank, but --chunks" in fault("--order", path, *TIMES, "--chunks", 3)
    assert "more than the 4 that memory" in fault("--order", path, *TIMES, "--in-flight", 4)


def test_an_order_may_begin_with_a_byte_order_mark_and_come_from_standard_input(tmp_path):
    order, path = "0F0,0B0\n1F0,1B0\n", tmp_path / "order.csv"
    path.write_text(order, encoding="utf-8-sig")
    whole = run("--order", path, *TIMES, "-o", "csv")
    piped = CliRunner().invoke(app, ["schedule", "--order", "-", *TIMES, "-o", "csv"], input=order)
    assert whole.stdout == piped.stdout == order


def test_a_deadlock_exits_with_2_and_prints_the_grid_with_the_place(tmp_path, monkeypatch, capsys):
    path = tmp_path / "order.csv"
    path.write_text("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n")
    monkeypatch.setattr(sys, "argv", ["geotrain", "schedule", "--order", str(path), *TIMES])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    shown = capsys.readouterr().err
    assert "the order deadlocks: 0B0 waits for micro-batch 0 of stage 1" in shown
    assert "stage 0 0F0 >0B0< 0F1 0B1" in shown
    assert "Traceback" not in shown


def test_an_optimum_comes_with_its_bound():
    """Where memory has room the bound is met, and no solver is needed."""
    found = document("--policy", "optimal", "--stages", 2, "--microbatches", 4, *TIMES)
    assert found["makespan"] == pytest.approx(found["bound"])
    result = run("--policy", "optimal", "--stages", 2, "--microbatches", 4, *TIMES)
    assert result.stdout.splitlines()[0].endswith(", at least 202.9ms")
    assert "bound" not in document("--policy", "greedy", *SIZE, *TIMES)


@pytest.mark.figures
def test_greedy_has_no_more_bubble_than_zb_2p_in_its_memory():
    theirs = document("--policy", "zb-2p", *SIZE, *TIMES)
    held = max(rank["peak_in_flight"] for rank in theirs["ranks"])
    ours = document("--policy", "greedy", *SIZE, *TIMES, "--in-flight", held)
    assert ours["bubble_ratio"] <= theirs["bubble_ratio"]
    assert ours["makespan"] <= theirs["makespan"]
