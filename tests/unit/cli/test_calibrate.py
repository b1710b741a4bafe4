"""``geotrain calibrate``: a file that plans read, and the error on what was held out."""

import json

import pytest
from typer.testing import CliRunner

from geotrain.api import calibrations
from geotrain.cli.main import app, main

HEADS = (
    "layers,hiddenSize,heads,sequenceLength,vocabularySize,microBatch,globalBatch,tensor,data,"
    "pipeline,iterationSeconds"
)
ROWS = [
    f"8,{hidden},16,1024,8192,{micro},16,{tensor},2,1,{seconds}"
    for hidden, tensor, micro, seconds in (
        (1024, 1, 1, 0.11), (1024, 1, 4, 0.09), (2048, 1, 1, 0.3), (2048, 2, 2, 0.17),
        (4096, 4, 1, 0.42), (4096, 8, 2, 0.3), (4096, 2, 4, 0.7), (1024, 2, 4, 0.06),
        (2048, 8, 4, 0.08),
    )
]  # fmt: skip
OPTIONS = ("--accelerator", "h100", "--source", "ours", "--pod-rate", "400G")


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "measured.csv"
    path.write_text("\n".join([HEADS, *ROWS]))
    return path


def run(*arguments):
    return CliRunner().invoke(app, ["calibrate", *map(str, arguments)])


def test_it_writes_what_a_plan_reads_and_says_the_error_of_what_was_held_out(rows, tmp_path):
    path = tmp_path / "h100.json"
    found = run(rows, *OPTIONS, "--licence", "own", "-o", path)
    assert found.exit_code == 0, found.output
    assert "held out" in found.output
    assert "podRate: 400G" in found.output
    read = calibrations.read(json.loads(path.read_text()))
    assert (read.accelerator, read.source, read.licence) == ("H100", "ours", "own")
    assert read.residual is not None
    assert read.residual.rows == 3


def test_without_a_file_it_prints_the_calibration_alone(rows):
    found = run(rows, *OPTIONS)
    assert json.loads(found.stdout)["residual"]["rows"] == 3


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--accelerator", "H900", "--source", "x"), "accelerator 'H900' is not known"),
        ((*OPTIONS[:4], "--pod-rate", "fast"), "--pod-rate: 'fast' is not a rate"),
        ((*OPTIONS, "--hold-out", "2"), "with one in 2 held out 4 are left"),
        ((*OPTIONS, "-o", "/nowhere/at/all.json"), "cannot be written"),
    ],
)
def test_a_wrong_wish_is_one_sentence(rows, options, says, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["geotrain", "calibrate", str(rows), *options])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert says in " ".join(capsys.readouterr().err.split())
