import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from geotrain.cli.main import app, main

DENSE = """
model: {layers: 4, hiddenSize: 2048, sequenceLength: 2048, feedForward: 8192, heads: 16}
batch: {global: 8}
accelerator: {flops: 100T, memory: 12G}
network:
  rings: oblivious
  tiers:
    - {name: node, units: 2, rate: 800G, latency: 1us}
    - {name: region, units: 2, rate: 10G, port: 100G, latency: 1ms}
layout: {pipeline: 2}
"""
EXAMPLES = Path(__file__).parents[3] / "examples" / "explore"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "explore.yaml"
    path.write_text(DENSE)
    return path


def run(*arguments):
    return CliRunner().invoke(app, ["explore", *map(str, arguments)], env={"COLUMNS": "200"})


def fault(monkeypatch, capsys, *arguments):
    monkeypatch.setattr("sys.argv", ["geotrain", "explore", *map(str, arguments)])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def test_the_optimum_stands_beside_what_was_given_and_each_axis(file):
    result = run("-f", file)
    assert result.exit_code == 0, result.output
    for text in (
        "oblivious rings", "given", "best single axis", "One axis alone", "all degrees",
        "Two axes together", "interaction", "micro-batch",
        "placement data node:2; pipeline region:2",
    ):  # fmt: skip
        assert text in result.stdout


def test_json_and_yaml_are_one_document(file):
    found = json.loads(run("-f", file, "-o", "json").stdout)
    assert yaml.safe_load(run("-f", file, "-o", "yaml").stdout) == found
    best, given = found["best"][0], found["given"]
    assert found["complete"]
    assert found["devices"] == 4
    assert found["speedup"] == given["iterationSeconds"] / best["iterationSeconds"] > 1
    assert 1 <= found["speedupOverBestSingle"] <= found["speedup"]
    assert given["placement"]["data"] == {"region": 2}
    assert len(found["singles"]) == 10
    assert all(pair["speedup"] <= found["speedup"] for pair in found["pairs"])


def test_a_given_layout_without_room_is_said_and_nothing_at_all_is_no_plan(file):
    file.write_text(DENSE.replace("12G", "1500M"))
    result = run("-f", file)
    assert result.exit_code == 0, result.output
    assert "the given layout does not fit: it needs" in result.stdout
    assert "does not fit into memory" in result.stdout
    file.write_text(DENSE.replace("12G", "1M"))
    result = run("-f", file)
    assert result.exit_code == 1
    assert "no layout fits into memory" in result.stdout
    found = json.loads(run("-f", file, "-o", "json").stdout)
    assert found["best"] == []
    assert found["speedup"] is found["bestSingle"] is found["speedupOverBestSingle"] is None


def test_the_budget_ends_the_search(file):
    result = run("-f", file, "--budget", "1ns")
    assert result.exit_code == 0
    assert "stopped before the search was complete" in result.stdout
    file.write_text(DENSE.replace("12G", "1500M"))
    result = run("-f", file, "--budget", "1ns")
    assert result.exit_code == 1
    assert "stopped too soon" in result.stdout


def test_wrong_input_is_one_sentence(monkeypatch, capsys, file):
    for budget, says in (("soon", "'soon' is not a duration"), ("0s", "is 0s; give the search")):
        assert says in fault(monkeypatch, capsys, "-f", file, "--budget", budget)
    assert "belong to a job, but -f gives an exploration" in fault(
        monkeypatch, capsys, "-f", file, "--topology", "places.yaml"
    )
    file.write_text("[1, 2]")
    assert "not a Kubernetes object" in fault(monkeypatch, capsys, "-f", file)
    file.write_text("a: [")
    assert "is not YAML" in fault(monkeypatch, capsys, "-f", file)
    file.write_text(DENSE.replace("global: 8", "global: 3"))
    assert "the given layout cannot run: data 2 x micro-batch 1" in fault(
        monkeypatch, capsys, "-f", file
    )
    assert "cannot be read" in fault(monkeypatch, capsys, "-f", file.parent / "none.yaml")


@pytest.mark.parametrize("example", ["dense-405b.yaml", "moe-671b.yaml"])
def test_the_examples_can_run_as_given(example):
    found = json.loads(run("-f", EXAMPLES / example, "--budget", "1ns", "-o", "json").stdout)
    assert found["given"]["fits"]


JOB = """
apiVersion: geotrain.io/v1alpha1
kind: GeoTrainingJob
metadata: {name: gpt, namespace: team-a}
spec:
  model: {layers: 4, hiddenSize: 1024, sequenceLength: 1024, vocabularySize: 32000}
  parallelism: {data: DATA, pipeline: 2}
  batch: {global: 8, micro: 1}
  schedule: {memoryPerGpu: 10Gi}
  template: {spec: {containers: [{name: t, image: a, resources: {limits: {nvidia.com/gpu: 1}}}]}}
---
apiVersion: geotrain.io/v1alpha1
kind: DataCenter
metadata: {name: dc-west, annotations: {geotrain.io/gpus: "4"}}
spec: {cluster: {local: true}, accelerator: H100}
---
apiVersion: geotrain.io/v1alpha1
kind: DataCenter
metadata: {name: dc-east, annotations: {geotrain.io/gpus: "2"}}
spec: {cluster: {local: true}, accelerator: A100}
---
apiVersion: geotrain.io/v1alpha1
kind: WanLink
metadata: {name: west-east}
spec: {from: dc-west, to: dc-east, capacity: 1G, perPodCapacity: 500M, roundTripTime: 40ms}
"""


@pytest.fixture
def job(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(JOB.replace("DATA", "2"))
    return path


def test_a_job_is_explored_on_the_largest_data_centres(job):
    found = json.loads(run("-f", job, "-o", "json").stdout)
    assert found["devices"] == 4
    assert found["dataCenters"] == ["dc-west"]
    assert [other["dataCenters"] for other in found["others"]] == [["dc-west", "dc-east"]]
    assert found["others"][0]["iterationSeconds"] > found["best"][0]["iterationSeconds"]
    assert found["given"]["recompute"] == "full"
    assert found["given"]["placement"]["pipeline"] == {"data-centre": 2}
    table = run("-f", job.parent, "--budget", "30s").stdout
    assert "on dc-west\n" in table
    assert "on dc-west, dc-east: " in table


def test_where_nothing_fits_every_choice_says_so(job):
    job.write_text(JOB.replace("DATA", "2").replace("10Gi", "10Mi"))
    result = run("-f", job)
    assert result.exit_code == 1
    assert "nothing fits" in result.stdout
    found = json.loads(run("-f", job, "-o", "json").stdout)
    assert found["others"][0]["iterationSeconds"] is None


def test_replicas_left_to_the_planner_take_the_room_there_is(job):
    job.write_text(JOB.replace("DATA", "auto").replace("recompute: true", ""))
    found = json.loads(run("-f", job, "-o", "json", "--budget", "1ns").stdout)
    assert found["given"]["data"] == 2  # three replicas do not divide the batch


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("data: DATA", "data: 64", "tensor 1 x pipeline 2 x data 64 finds no data centres"),
        (
            "  model: {",
            "  profileRef: {name: p} # {",
            "spec.model: explore needs the model's shape",
        ),
        (
            "apiVersion: geotrain.io/v1alpha1\nkind: DataCenter",
            "kind: ConfigMap",
            "there is no DataCenter",
        ),
    ],
)
def test_a_job_that_cannot_be_explored_is_one_sentence(monkeypatch, capsys, job, old, new, says):
    job.write_text(JOB.replace(old, new).replace("DATA", "2"))
    assert says in fault(monkeypatch, capsys, "-f", job)


def test_standard_input_holds_an_exploration():
    result = CliRunner().invoke(app, ["explore", "-f", "-"], input=DENSE)
    assert result.exit_code == 0, result.output
    result = CliRunner().invoke(app, ["explore", "-f", "-"], input=JOB)
    assert "must hold one exploration" in str(result.exception)
