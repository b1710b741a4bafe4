"""``geotrain costs``: a table that people read and a document whose parts add up."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from geotrain.cli.main import app
from geotrain.errors import InputError
from support import measured

DATA = Path(__file__).parent / "data"
MEASURED = ("-f", DATA / "job.yaml", "--topology", DATA / "topology.yaml")


def run(*arguments):
    told = ["costs", *map(str, arguments)]
    return CliRunner().invoke(app, told, env={"COLUMNS": "200"}, catch_exceptions=False)


def estimated(folder, accelerator="A100", **network):
    model = {"layers": 8, "hiddenSize": 2048, "sequenceLength": 1024, "vocabularySize": 32_000}
    job = measured.job(model, (4, 2, 2), 16, 1, schedule={"policy": "OneFOneB"}, **network)
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump_all([job, measured.place(16, accelerator, {})]))
    return path


def test_an_estimate_is_shown_by_part_with_its_source_and_error(tmp_path):
    found = run("-f", estimated(tmp_path))
    assert found.exit_code == 0, found.output
    parts = ("matrices", "tensor exchange", "recompute", "output", "headroom", "optimizer")
    for text in (*parts, "MFU", "HFU", "all-reduce", "calibrated on A100: vTrain", "percentile"):
        assert text in found.output


def test_an_accelerator_that_nobody_measured_has_no_error_bar(tmp_path):
    found = run("-f", estimated(tmp_path, "L40S"))
    assert "percentile" not in found.output
    assert "times on L40S are estimated with what was measured on H200" in found.output


def test_sends_that_block_are_a_part(tmp_path):
    path = estimated(tmp_path, network={"sends": "Blocking"})
    first, last = json.loads(run("-f", path, "-o", "json").stdout)["stages"]
    assert first["seconds"]["sends"] > 0
    assert last["seconds"]["sends"] > 0


def test_measured_layers_are_a_whole():
    found = json.loads(run(*MEASURED, "-o", "json").stdout)
    assert found["mfu"] is None
    assert {stage["source"] for stage in found["stages"]} == {"measured profile"}
    for stage in found["stages"]:
        assert stage["seconds"]["measured"] > stage["seconds"]["matrices"] == 0
    assert run(*MEASURED).exit_code == 0


def test_no_plan_is_said_as_plan_says_it(tmp_path):
    path = estimated(tmp_path)
    text = path.read_text().replace("layers: 8", "layers: 4000")
    path.write_text(text.replace("hiddenSize: 2048", "hiddenSize: 16384"))
    found = run("-f", path)
    assert found.exit_code == 1
    assert "NotEnoughMemory" in found.output


def test_a_calibration_counts(tmp_path):
    given = tmp_path / "own.json"
    given.write_text(
        json.dumps({"accelerator": "A100", "source": "our own", "licence": "own",
                    "matrixShare": 0.2, "memoryShare": 0.2})
    )  # fmt: skip
    slow = run("-f", estimated(tmp_path), "--calibration", given)
    assert "our own" in slow.output


def test_a_calibration_may_be_in_a_config_map(tmp_path):
    path = estimated(tmp_path)
    job, *places = yaml.safe_load_all(path.read_text())
    content = {"accelerator": "A100", "source": "our own", "licence": "own", "matrixShare": 0.2,
               "memoryShare": 0.2}  # fmt: skip
    config = {
        "kind": "ConfigMap",
        "metadata": {"name": "own", "namespace": job["metadata"]["namespace"]},
        "data": {"calibration.json": json.dumps(content)},
    }
    job["spec"]["calibrationRef"] = {"name": "own"}
    path.write_text(yaml.safe_dump_all([job, *places]))
    with pytest.raises(InputError, match="ConfigMap own, which job takes its calibration from"):
        run("-f", path)
    path.write_text(yaml.safe_dump_all([job, *places, config]))
    assert "our own" in run("-f", path).output
