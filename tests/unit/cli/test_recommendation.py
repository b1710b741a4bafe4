"""``geotrain explore -o job``: a job that the API takes and that ``geotrain plan`` plans."""

import json
from dataclasses import replace

import yaml
from typer.testing import CliRunner

from geotrain.api.pod_template import job_problems
from geotrain.api.v1alpha1 import GeoTrainingJob
from geotrain.cli import recommendation
from geotrain.cli.main import app
from geotrain.planning.explore.search import Allowance, Explorer, whole_space
from support import exploring

JOB = """
apiVersion: geotrain.io/v1alpha1
kind: GeoTrainingJob
metadata: {name: gpt, namespace: team-a, labels: {team: a}}
spec:
  model: {layers: 8, hiddenSize: 4096, sequenceLength: 2048, vocabularySize: 32000}
  parallelism: {data: 2, pipeline: 4, tensor: 2}
  batch: {global: 32, micro: 1}
  schedule: {memoryPerGpu: 60G}
  ttlAfterFinished: 1h
  template:
    spec:
      hostNetwork: false
      containers:
        - {name: t, image: a, resources: {limits: {nvidia.com/gpu: 2, cpu: 4}}}
"""
PLACES = """
---
apiVersion: geotrain.io/v1alpha1
kind: DataCenter
metadata: {name: dc-west, annotations: {geotrain.io/gpus: "8"}}
spec: {cluster: {local: true}, accelerator: H100}
---
apiVersion: geotrain.io/v1alpha1
kind: DataCenter
metadata: {name: dc-east, annotations: {geotrain.io/gpus: "8"}}
spec: {cluster: {local: true}, accelerator: H100}
---
apiVersion: geotrain.io/v1alpha1
kind: WanLink
metadata: {name: west-east}
spec: {from: dc-west, to: dc-east, capacity: 100G, roundTripTime: 10ms}
"""


def run(command, path, *arguments):
    return CliRunner().invoke(app, [command, "-f", str(path), *arguments])


def explored(tmp_path, text):
    path = tmp_path / "files.yaml"
    path.write_text(text)
    result = run("explore", path, "-o", "job")
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout, yaml.safe_load(result.stdout)


def planned(tmp_path, manifest):
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(manifest))
    (tmp_path / "places.yaml").write_text(PLACES)
    places = ("--topology", str(tmp_path / "places.yaml"), "-o", "json")
    result = run("plan", tmp_path / "job.yaml", *places)
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


def test_the_job_is_valid_and_is_planned_as_it_says(tmp_path):
    text, made = explored(tmp_path, JOB + PLACES)
    assert text.startswith("# By geotrain explore ")
    job = GeoTrainingJob.from_manifest(made)
    assert not job_problems(job)
    cut = made["spec"]["parallelism"]
    assert cut["data"] * cut["pipeline"] * cut["tensor"] == 16
    container = made["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": cut["tensor"], "cpu": 4}
    plan = planned(tmp_path, made)
    assert {key: plan[key] for key in ("data", "pipeline", "tensor")} == cut
    assert f"by geotrain plan {text.partition('by geotrain plan ')[2].split()[0]}" in text
    before = planned(tmp_path, yaml.safe_load(JOB))
    assert plan["iterationSeconds"] <= before["iterationSeconds"]


def test_what_the_layout_says_nothing_of_stays(tmp_path):
    text = JOB.replace("spec:\n  model", "spec:\n  suspend: true\n  model")
    _, made = explored(tmp_path, text + PLACES)
    assert made["metadata"] == yaml.safe_load(JOB)["metadata"]
    assert made["spec"]["suspend"] is True
    assert made["spec"]["ttlAfterFinished"] == "1h"
    assert made["spec"]["schedule"]["memoryPerGpu"] == "60G"
    assert made["spec"]["template"]["spec"]["hostNetwork"] is False
    assert made["spec"]["model"] == yaml.safe_load(JOB)["spec"]["model"]


def test_what_is_put_in_place_of_something_is_remarked(tmp_path):
    fixed = JOB.replace(
        "  ttlAfter",
        "  profileRef: {name: measured}\n  placement: {policy: Fixed, objective: Cost, stages:"
        " [{dataCenter: dc-west, stages: 4}]}\n  ttlAfter",
    )
    fixed = fixed.replace("tensor: 2", "tensor: 4").replace("gpu: 2", "gpu: 4")
    fixed = fixed.replace("pipeline: 4", "pipeline: 2").replace("stages: 4", "stages: 2")
    text, made = explored(tmp_path, fixed + PLACES)
    assert "# placement.stages is left out: geotrain chooses among the data centres.\n" in text
    assert made["spec"]["placement"]["policy"] == "Atlas"
    assert made["spec"]["placement"]["objective"] == "Cost"
    assert "profileRef measured is left out: its times are of tensor 4" in text
    assert "profileRef" not in made["spec"]


def test_what_was_said_of_other_stages_is_left_out(tmp_path):
    said = "tensor: 2, sequenceParallel: true, layersPerStage: [2, 2, 2, 2]}"
    text, made = explored(tmp_path, JOB.replace("tensor: 2}", said) + PLACES)
    cut = made["spec"]["parallelism"]
    assert cut["sequenceParallel"] is True
    if cut["pipeline"] == 4:
        assert cut["layersPerStage"] == [2, 2, 2, 2]
    else:
        assert "layersPerStage" not in cut
        assert "# layersPerStage is left out: it has 4 stages.\n" in text


def test_a_better_layout_that_no_job_can_say_is_remarked(tmp_path):
    one = PLACES.split("---")[1].replace('"8"', '"16"')
    text, _ = explored(tmp_path, f"{JOB}---{one}")
    assert "# the best layout of all takes " in text
    assert ", which no job can say.\n" in text


def test_a_measured_profile_that_stays_is_asked_for(tmp_path):
    """Nothing else fits than what was measured, and its times are not among the files."""
    text = JOB.replace("  ttlAfter", "  profileRef: {name: measured}\n  ttlAfter")
    text = text.replace("data: 2, pipeline: 4, tensor: 2", "data: 1, pipeline: 1, tensor: 1")
    text = text.replace("gpu: 2", "gpu: 1").replace("global: 32", "global: 1")
    said, made = explored(tmp_path, text + PLACES)
    assert "geotrain plan needs the profile that profileRef names" in said
    assert made["spec"]["profileRef"] == {"name": "measured"}


def test_where_nothing_that_a_job_can_say_fits_there_is_none(tmp_path):
    path = tmp_path / "files.yaml"
    path.write_text(JOB.replace("60G", "1G") + PLACES)
    result = run("explore", path, "-o", "job")
    assert result.exit_code == 1
    assert "no job: no layout that a job can express fits" in result.stderr
    assert result.stdout == ""


def test_where_only_layouts_fit_that_no_job_can_say_they_are_told(tmp_path):
    path = tmp_path / "files.yaml"
    path.write_text(JOB.replace("60G", "2500M") + PLACES)
    result = run("explore", path, "-o", "job")
    assert result.exit_code == 1
    assert "the best layout of all takes " in result.stderr
    assert "over several nodes, which no job can say" in " ".join(result.stderr.split())


def test_what_cannot_be_planned_is_refused_with_the_plans_reason(tmp_path):
    """A plan replays every action, and an exploration moves on by what repeats."""
    path = tmp_path / "files.yaml"
    text = JOB.replace("data: 2, pipeline: 4, tensor: 2", "data: 1, pipeline: 2, tensor: 1")
    text = text.replace("gpu: 2", "gpu: 1").replace(
        "global: 32, micro: 1", "global: 8000000, micro: 8"
    )
    path.write_text(text.replace("60G", "24G") + PLACES)
    result = run("explore", path, "-o", "job")
    assert result.exit_code == 2
    assert "no plan: InvalidParallelism" in result.stderr


def test_data_centres_that_the_pods_are_not_for_are_left_out(tmp_path):
    other = PLACES.replace("dc-east, annotations", "dc-odd, annotations").replace(
        "{local: true}, accelerator: H100}", "{local: true}, accelerator: H100, gpuResource: a/b}"
    )
    places = PLACES.replace('"8"', '"16"') + "---" + other.split("---")[2]
    text, made = explored(tmp_path, JOB + places)
    assert "# dc-odd is left out: " in text
    assert "dc-odd" not in made["spec"]["placement"]["dataCenters"]


def test_where_only_other_layouts_fit_they_are_named():
    task = exploring.problem(exploring.machine(units=(4, 2, 2)))
    given = exploring.given(task, recompute="full")
    explorer = Explorer(task, given)
    layouts = [replace(given, degrees=each) for each in whole_space(task, given).degrees]
    least = min(explorer.evaluate(each).memory for each in layouts)
    tight = exploring.problem(task.network, memory=round(least))
    best = recommendation.recommend([(("dc-west",), tight, given)], Allowance())
    assert best.found is None
    (remark,) = best.remarks
    assert remark.startswith("the best layout of all takes ")
    assert remark.endswith(", which no job can say")


def test_a_search_that_was_stopped_says_so_and_has_the_best_so_far(tmp_path):
    path = tmp_path / "files.yaml"
    path.write_text(JOB + PLACES)
    result = run("explore", path, "-o", "job", "--budget", "1ns")
    assert result.exit_code == 0
    assert "# the search was stopped before it was complete.\n" in result.stdout
    made, given = yaml.safe_load(result.stdout), yaml.safe_load(JOB)
    assert made["spec"]["parallelism"] == given["spec"]["parallelism"]


def test_an_exploration_has_no_pods(tmp_path):
    path = tmp_path / "files.yaml"
    path.write_text("a: 1\n")
    path.write_text(
        "model: {layers: 4, hiddenSize: 2048, sequenceLength: 2048, feedForward: 8192, heads: 16}\n"
        "batch: {global: 8}\naccelerator: {flops: 100T, memory: 12G}\n"
        "network: {tiers: [{name: node, units: 2, rate: 800G, latency: 1us}]}\n"
    )
    result = run("explore", path, "-o", "job")
    assert "-o job needs a job in -f" in str(result.exception)
