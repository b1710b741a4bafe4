"""Measured iterations as CSV: ours, vTrain's, and whatever else is put in their place."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.api import measured_runs
from geotrain.errors import InputError
from geotrain.planning.costs.memory import Recompute

DATA = Path(__file__).parents[2] / "data"
HEADS = (
    "layers,hiddenSize,heads,sequenceLength,vocabularySize,microBatch,globalBatch,tensor,data,"
    "pipeline,iterationSeconds"
)
ROW = "24,4096,32,2048,50304,2,64,8,2,4,3.5"


def test_a_row_is_a_run():
    (run,) = measured_runs.runs(f"{HEADS}\n\n{ROW}\n", "a.csv")
    assert (run.shape.layers, run.shape.micro_batch, run.batch, run.measured) == (24, 2, 64, 3.5)
    assert run.layout.degrees.axes == (8, 1, 2, 4)
    assert run.layout.recompute == Recompute.NOTHING
    assert run.shape.fused
    assert not run.training.blocking


def test_columns_that_follow_say_what_is_unusual():
    heads = (
        f"{HEADS},keyValueHeads,feedForward,attention,recompute,sends,gradientBytes,chunks,gated"
    )
    text = f"{heads}\n{ROW},8,14336,Unfused,full,Blocking,4,2,\n{ROW},,,,,,,,True\n"
    first, second = measured_runs.runs(text, "a.csv")
    assert (first.shape.kv_heads, first.shape.width, first.shape.gated) == (8, 14336, True)
    assert (first.layout.schedule, first.layout.chunks) == ("Interleaved", 2)
    assert first.training.state.gradient == 4
    assert first.training.blocking
    assert (second.shape.kv_heads, second.layout.schedule) == (0, "OneFOneB")
    assert second.shape.gated


def test_vtrains_table_is_read_as_it_is():
    text = (DATA / "vtrain" / "ground_truth_multi.csv").read_text(encoding="utf-8")
    found = measured_runs.runs(text, "ground_truth_multi.csv")
    assert len(found) == 73
    assert found[0].measured == 3.5665
    assert found[0].layout.degrees.axes == (1, 1, 64, 1)
    assert not found[0].shape.fused


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "a.csv has no row below its heads"),
        (HEADS, "a.csv has no row below its heads"),
        (f"{HEADS}\n1,2\n", "a.csv line 2: 2 cells under 11 heads"),
        (f"{HEADS}\n{ROW.replace('24', 'x')}\n", "a.csv line 2: layers: 'x' is no number"),
        (f"{HEADS}\n{ROW.replace('3.5', '-1')}\n", "line 2: iterationSeconds: "),
        (f"{HEADS}\n{ROW.replace('3.5', '')}\n", "line 2: iterationSeconds: Field required"),
        (f"{HEADS},speed\n{ROW},1\n", "line 2: speed: "),
        (f"{HEADS},keyValueHeads\n{ROW},5\n", "5 key-value heads do not divide 32 heads"),
        (f"{HEADS},gated\n{ROW},maybe\n", "gated: 'maybe' is neither true nor false"),
        (f'{HEADS}\n"1\n', "a.csv is not CSV"),
        ("iteration time (ms)\nfast\n", "iteration time 'fast' is no number of ms"),
    ],
)
def test_a_wrong_table_is_refused_in_one_sentence(text, says):
    with pytest.raises(InputError) as refusal:
        measured_runs.runs(text, "a.csv")
    assert says in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_too_many_rows_are_refused():
    with pytest.raises(InputError, match="more than 10000"):
        measured_runs.runs("\n".join([HEADS, *[ROW] * 10_001]), "a.csv")


@given(st.text(max_size=40), st.text(max_size=20))
def test_whatever_a_table_holds_it_is_read_or_refused(cell, head):
    said = ""
    for text in (f"{HEADS},{head}\n{ROW},{cell}", f"{HEADS}\n{ROW.replace('24', cell)}", cell):
        try:
            measured_runs.runs(text, "a.csv")
        except InputError as error:
            said += str(error)
    assert "\n" not in said
