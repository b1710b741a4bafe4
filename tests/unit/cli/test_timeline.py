import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from geotrain.cli.main import app

DATA = Path(__file__).parent / "data"
PLANS = Path(__file__).parents[3] / "examples" / "plans"
COMMAND = ["timeline", "-f", str(DATA / "job.yaml"), "--topology", str(DATA / "topology.yaml")]


def run(*arguments):
    return CliRunner().invoke(app, [*COMMAND, *map(str, arguments)])


def timed():
    result = run("-o", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_table_shows_the_grid_the_ranks_and_the_flows():
    result = run("--columns", "60")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert "an iteration" in lines[0]
    assert len(next(line for line in lines if line.startswith("dc-west 0 "))) <= 75
    assert "Ranks" in result.stdout
    assert "Wide area" in result.stdout


def test_every_rank_is_accounted_for():
    found = timed()
    assert [rank["rank"] for rank in found["ranks"]] == list(range(12))
    for rank in found["ranks"]:
        whole = rank["computeSeconds"] + rank["bubbleSeconds"]
        assert whole == pytest.approx(found["iterationSeconds"])
        assert len(rank["actions"]) == 2 * found["microBatches"]


def test_every_transfer_lies_in_a_window_of_its_flow():
    for flow in timed()["flows"]:
        assert flow["transfers"]
        for sent in flow["transfers"]:
            assert any(
                w["begin"] <= sent["begin"] and sent["end"] <= w["end"] + 1e-9
                for w in flow["windows"]
            )


def test_yaml_is_the_same_document():
    assert yaml.load(run("-o", "yaml").stdout, Loader=yaml.CSafeLoader) == timed()


def test_one_data_centre_has_no_flows_and_nothing_that_fits_has_no_timeline(tmp_path):
    text = (DATA / "topology.yaml").read_text().split("---")[1]
    for gpus, code in (("12", 0), ("1", 1)):
        places = tmp_path / f"{gpus}.yaml"
        places.write_text(text.replace('"4"', f'"{gpus}"'))
        result = CliRunner().invoke(app, [*COMMAND[:3], "--topology", str(places)])
        assert result.exit_code == code
        assert "Wide area" not in result.stdout


def test_files_are_written(tmp_path):
    html, other, trace, csv = (tmp_path / n for n in ("a.html", "b.htm", "c.json", "d.csv"))
    result = run("--gantt", html, "--gantt", other, "--trace", trace, "--csv", csv)
    assert result.exit_code == 0, result.output
    assert html.read_text().startswith("<!doctype html>")
    assert other.read_text() == html.read_text()
    assert json.loads(trace.read_text())["traceEvents"]
    assert csv.read_text().startswith("0F0,")


def test_a_calibration_counts_as_it_does_for_a_plan(tmp_path):
    job = PLANS / "llama-8b-two-nodes.yaml"
    given = tmp_path / "own.json"
    own = {"accelerator": "A100", "source": "ours", "licence": "own"}
    given.write_text(json.dumps({**own, "matrixShare": 0.3, "memoryShare": 0.5}))
    options = ["-f", str(job), "-o", "json", "--calibration", str(given)]
    plan, times = (CliRunner().invoke(app, [name, *options]) for name in ("plan", "timeline"))
    seconds = json.loads(times.stdout)["iterationSeconds"]
    assert seconds == json.loads(plan.stdout)["iterationSeconds"]
