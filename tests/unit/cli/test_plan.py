import json
import shutil
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from geotrain.cli.main import app, main
from geotrain.errors import InputError
from geotrain.planning.schedule import actions, checks

DATA = Path(__file__).parent / "data"
API = "apiVersion: geotrain.io/v1alpha1\n"
JOB = ["plan", "-f", str(DATA / "job.yaml")]
TOPOLOGY = ["--topology", str(DATA / "topology.yaml")]


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def planned(*arguments):
    result = run(*JOB, *TOPOLOGY, "-o", "json", *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_table_names_the_winner_and_why_others_lost():
    result = run(*JOB, *TOPOLOGY)
    assert result.exit_code == 0
    for text in ("Atlas", "temporal sharing", "dc-west", "chosen", "times as long"):
        assert text in result.output


def test_where_there_was_no_choice_nothing_is_left_out(tmp_path):
    wanted = """GPipe}
  placement:
    policy: Fixed
    stages:
      - {dataCenter: dc-west, stages: 2}
      - {dataCenter: dc-central, stages: 2}
      - {dataCenter: dc-east, stages: 2}"""
    job = replaced(tmp_path, "job.yaml", "Atlas}", wanted)
    result = run("plan", "-f", job, *TOPOLOGY)
    assert "chosen" in result.output
    assert "more" not in result.output


@pytest.mark.figures
def test_auto_is_faster_as_it_runs_weight_gradients_apart_and_says_how_much(tmp_path):
    job = replaced(tmp_path, "job.yaml", "Atlas", "Auto")
    assert (
        json.loads(run("plan", "-f", job, *TOPOLOGY, "-o", "json").stdout)["iterationSeconds"] < 1.8
    )
    assert "slower" in run("plan", "-f", job, *TOPOLOGY).output


def test_json_has_the_figures():
    plan = planned()
    assert [each["dataCenter"] for each in plan["placement"]] == [
        "dc-west",
        "dc-central",
        "dc-east",
    ]
    assert plan["microBatches"] == 16
    assert plan["iterationSeconds"] == pytest.approx(1.90, abs=0.02)
    assert plan["baselineSeconds"] == pytest.approx(31.3, abs=0.1)
    assert plan["speedup"] == pytest.approx(plan["baselineSeconds"] / plan["iterationSeconds"])
    assert {link["connections"] for link in plan["links"]} == {34, 38}
    assert plan["alternatives"][0]["why"] == ""


def test_jitter_ranks_by_slow_replays_and_says_so():
    plan = planned("--jitter", "10%")
    assert "at the 95th percentile of 40 replays with 10% jitter" in plan["notes"][0]
    assert plan["iterationSeconds"] >= planned()["iterationSeconds"]
    assert "note: " in run(*JOB, *TOPOLOGY, "--jitter", "10%").output


@pytest.mark.parametrize("text", ["20", "-1%", "100%", "nan%", "", "1e9%"])
def test_what_is_no_jitter_is_one_sentence(text):
    result = run(*JOB, *TOPOLOGY, f"--jitter={text}")
    assert isinstance(result.exception, InputError)
    assert "is no share of a time; write one like 20%, below 100%" in str(result.exception)


def test_an_objective_of_the_command_line_goes_before_the_jobs():
    fast, cheap = (planned("--objective", each) for each in ("throughput", "cost"))
    assert fast["iterationSeconds"] <= cheap["iterationSeconds"]
    assert cheap["pricePerIteration"] <= fast["pricePerIteration"]
    assert cheap["pareto"] == []


def test_the_pareto_front_is_listed_where_it_is_asked_for():
    front = planned("--objective", "pareto")["pareto"]
    assert front
    assert front[0]["samplesPerSecond"] == max(each["samplesPerSecond"] for each in front)
    assert "Pareto front" in run(*JOB, *TOPOLOGY, "--objective", "pareto").output


def test_yaml_is_the_same_document():
    result = run(*JOB, *TOPOLOGY, "-o", "yaml")
    assert yaml.safe_load(result.stdout) == planned()


def test_files_hold_the_order_the_trace_and_the_chart(tmp_path):
    csv, trace, gantt = (tmp_path / name for name in ("order.csv", "trace.json", "gantt.png"))
    planned("--csv", csv, "--trace", trace, "--gantt", gantt)
    assert checks.problems(actions.read_order(csv.read_text())) == []
    assert json.loads(trace.read_text())["traceEvents"]
    assert gantt.read_bytes().startswith(b"\x89PNG")


def test_price_and_a_single_data_centre_are_reported(tmp_path):
    places = tmp_path / "topology.yaml"
    text = (DATA / "topology.yaml").read_text().split("---")[1]
    places.write_text(
        text.replace('"4"', '"12"')
        .replace("spec:", "spec:\n  costPerGpuHour: 2")
        .replace("geotrain.io/gpus", "other: x, geotrain.io/gpus")
    )
    result = run(*JOB, "--topology", places)
    assert result.exit_code == 0, result.output
    assert "an iteration" in result.stdout
    assert "Wide area" not in result.stdout
    assert json.loads(run(*JOB, "--topology", places, "-o", "json").stdout)["links"] == []


def test_a_job_that_takes_no_time_is_planned(tmp_path):
    profile = tmp_path / "profile.yaml"
    profile.write_text(
        "layers: [{count: 6, forward: 0s, inputGradient: 0s, weightGradient: 0s}]\n"
        "boundaryBytes: '0'\n"
    )
    places = tmp_path / "topology.yaml"
    text = (DATA / "topology.yaml").read_text().split("---")[1]
    places.write_text(text.replace('"4"', '"12"'))
    job = replaced(tmp_path, "job.yaml", "pipeline: 6", "pipeline: 1")
    command = ["plan", "-f", job, "--topology", places, "--profile", profile]
    assert run(*command).exit_code == 0
    assert json.loads(run(*command, "-o", "json").stdout)["speedup"] is None


def test_where_memory_rules_out_the_baseline_there_is_no_speedup(tmp_path):
    job = replaced(tmp_path, "job.yaml", "Atlas}", "Atlas, memoryPerGpu: 12360Mi}")
    command = ["plan", "-f", job, *TOPOLOGY]
    assert json.loads(run(*command, "-o", "json").stdout)["speedup"] is None
    assert "times as long" not in run(*command).stdout


def test_the_grid_has_a_row_a_stage():
    result = run(*JOB, *TOPOLOGY, "--grid")
    assert "dc-west 0    a" in result.stdout


def test_a_folder_that_may_not_be_listed_is_named(monkeypatch, tmp_path):
    def refuse(folder):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)  # root may list every folder
    assert f"{tmp_path} cannot be read: Permission denied" in fault("plan", "-f", tmp_path)


def test_a_folder_is_read_whole_and_several_jobs_need_a_name(tmp_path):
    shutil.copy(DATA / "job.yaml", tmp_path / "a.yaml")
    shutil.copy(DATA / "topology.yaml", tmp_path / "b.yml")
    assert run("plan", "-f", tmp_path).exit_code == 0
    other = (DATA / "job.yaml").read_text().replace("{name: gpt,", "{name: other,")
    (tmp_path / "c.yaml").write_text(other)
    assert "several GeoTrainingJobs (gpt, other)" in fault("plan", "-f", tmp_path)
    assert run("plan", "-f", tmp_path, "--job", "other").exit_code == 0
    assert "there is no GeoTrainingJob 'third'" in fault("plan", "-f", tmp_path, "--job", "third")


def test_of_objects_with_one_name_the_last_counts(tmp_path):
    text = (DATA / "topology.yaml").read_text()
    later = tmp_path / "later.yaml"
    later.write_text(text.replace("capacity: 100M", "capacity: 10M"))
    assert planned("--topology", later)["iterationSeconds"] > 2 * planned()["iterationSeconds"]


def test_lists_from_a_cluster_and_empty_documents_are_read(tmp_path):
    (tmp_path / "empty.yaml").write_text("---\n---\n")
    assert run(*JOB, *TOPOLOGY, "-f", tmp_path / "empty.yaml").exit_code == 0
    items = list(yaml.safe_load_all((DATA / "topology.yaml").read_text()))
    path = tmp_path / "list.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert run(*JOB, "--topology", path).exit_code == 0


def test_a_profile_file_goes_before_the_profile_reference(tmp_path):
    profile = tmp_path / "profile.yaml"
    profile.write_text(
        "layers: [{count: 6, forward: 1ms, inputGradient: 1ms, weightGradient: 1ms}]\n"
        "boundaryBytes: '1000'\n"
    )
    assert planned("--profile", profile)["layers"] == [1] * 6


PUBLISHED = Path(__file__).parents[2] / "data"
SAILOR = PUBLISHED / "sailor/profile_GPT-Neo-2.7_A100-40.json"
BLOCKS = PUBLISHED / "h200/h200_profile.json"
NEO = {"layers": 32, "hiddenSize": 2560, "sequenceLength": 2048, "vocabularySize": 50257}


def of_model(folder, model, **spec):
    """A job with that spec.model, without a profileRef."""
    job = yaml.safe_load((DATA / "job.yaml").read_text().split("---")[0])
    del job["spec"]["profileRef"]
    job["spec"] |= {"model": model, **spec}
    tensor = job["spec"]["parallelism"].get("tensor", 1)
    resources = {"limits": {"nvidia.com/gpu": tensor}}
    job["spec"]["template"]["spec"]["containers"][0]["resources"] = resources
    path = folder / "neo.yaml"
    path.write_text(yaml.safe_dump(job))
    return path


def test_sailors_profile_is_read_as_published(tmp_path):
    command = ["plan", "-f", of_model(tmp_path, NEO), *TOPOLOGY, "-o", "json"]
    found = run(*command, "--profile", SAILOR)
    assert found.exit_code == 0, found.output
    plan = json.loads(found.stdout)
    assert sum(plan["layers"]) == 32
    rows = json.loads(SAILOR.read_text())["1"]["1"].values()
    forward, backward, update = (sum(row[i] for row in rows) for i in range(3))
    # Three data centres of twelve GPUs; 16 micro-batches, all layers recomputed over six stages.
    assert plan["iterationSeconds"] > 16 * (2 * forward + backward) / 6 + update / 6
    assert {link["bytesPerIteration"] for link in plan["links"]} == {32 * 2048 * 2560 * 2}


def test_a_published_profile_may_be_in_the_jobs_config_map(tmp_path):
    job = of_model(tmp_path, NEO, profileRef={"name": "neo"})
    measured = {"profile.json": SAILOR.read_text()}
    config = {
        "kind": "ConfigMap",
        "metadata": {"name": "neo", "namespace": "team-a"},
        "data": measured,
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    both = ["-f", job, "-f", tmp_path / "config.yaml", *TOPOLOGY, "-o", "json"]
    assert run("plan", *both).stdout == run("plan", *both, "--profile", SAILOR).stdout
    assert run("timeline", *both).exit_code == 0


def test_the_h200s_file_is_read_as_published(tmp_path):
    wide = {"hiddenSize": 4096, "sequenceLength": 4096, "vocabularySize": 256_000}
    model = {**NEO, **wide, "layers": 30}
    job = of_model(tmp_path, model)
    found = run("plan", "-f", job, *TOPOLOGY, "--profile", BLOCKS, "-o", "json")
    assert found.exit_code == 0, found.output
    # The output over this vocabulary takes about as long as three of the thirty blocks.
    *others, last = json.loads(found.stdout)["layers"]
    assert last < min(others)


@pytest.mark.parametrize(
    ("model", "spec", "profile", "sentence"),
    [
        (None, {}, SAILOR, "the profile has layer times and no sizes; give spec.model too"),
        (NEO, {"batch": {"global": 32, "micro": 4}}, SAILOR, "micro-batch 4 is not measured; 1, 8"),
        (
            NEO,
            {"parallelism": {"pipeline": 6, "tensor": 2, "data": 2}},
            SAILOR,
            "micro-batch 1: tensor degree 2 is not measured; 1, 4 is",
        ),
        ({**NEO, "layers": 24}, {}, SAILOR, "34 layers are listed; a model of 24 has 26 with"),
        (NEO, {}, BLOCKS, "block 2560 x 2048, batch 1 (hidden x seq) is not measured; there is"),
    ],
)
def test_a_combination_that_was_not_measured_is_one_sentence(
    tmp_path, model, spec, profile, sentence
):
    job = of_model(tmp_path, model, **spec) if model else DATA / "job.yaml"
    text = fault("plan", "-f", job, *TOPOLOGY, "--profile", profile)
    assert sentence in text
    assert "\n" not in text


def estimated(folder, accelerators):
    """Layers of each stage of a job without a profile, by kinds of data centres' GPUs."""
    job = yaml.safe_load((DATA / "job.yaml").read_text().split("---")[0])
    del job["spec"]["profileRef"]
    job["spec"]["model"] = {
        "layers": 24, "hiddenSize": 4096, "sequenceLength": 1024, "vocabularySize": 32000,
    }  # fmt: skip
    path, places = folder / "job.yaml", folder / "topology.yaml"
    path.write_text(yaml.safe_dump(job))
    documents = list(yaml.safe_load_all((DATA / "topology.yaml").read_text()))
    for each in documents:
        if each["metadata"]["name"] in accelerators:
            each["spec"]["accelerator"] = accelerators[each["metadata"]["name"]]
    places.write_text(yaml.safe_dump_all(documents))
    result = run("plan", "-f", path, "--topology", places, "-o", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["layers"]


PLANS = Path(__file__).parents[3] / "examples/plans"


def test_an_estimate_shows_memory_by_kind_use_of_the_peak_and_what_it_was_off():
    path = PLANS / "llama-8b-two-nodes.yaml"
    shown = run("plan", "-f", path).stdout
    heads = "stages data centre weights gradients optimizer activations peak of headroom"
    assert heads in " ".join(shown.split())
    assert "MFU " in shown
    assert "off in the median, 9 of 10 within" in shown
    plan = json.loads(run("plan", "-f", path, "-o", "json").stdout)
    assert 0 < plan["mfu"] < plan["hfu"] < 1
    assert 0 < plan["error"]["median"] < plan["error"]["p90"]
    for each in plan["memory"]:
        kinds = ("weight", "gradient", "optimizer", "state", "activation", "transient")
        assert each["peakBytes"] == sum(each[f"{kind}Bytes"] for kind in kinds)
        assert each["headroomBytes"] == each["limitBytes"] - each["peakBytes"] >= 0
        assert each["stateBytes"] == 0


def test_idle_gpus_are_told_with_what_would_use_them(tmp_path):
    job = replaced(tmp_path, "job.yaml", "data: 2", "data: 1")
    shown = run("plan", "-f", job, *TOPOLOGY).stdout
    assert "Idle GPUs" in shown
    assert "would use them: " in shown
    plan = json.loads(run("plan", "-f", job, *TOPOLOGY, "-o", "json").stdout)
    assert sum(each["gpus"] for each in plan["idle"]) == 6
    assert 6 < plan["wouldUseIdle"]["gpus"] <= 12
    assert plan["wouldUseIdle"]["iterationSeconds"] < plan["iterationSeconds"]


def test_of_many_stages_only_wide_tables_show_all(tmp_path):
    job = replaced(tmp_path, "job.yaml", "data: 2, pipeline: 6", "data: 1, pipeline: 24")
    job.write_text(job.read_text().replace("policy: Atlas", "policy: OneFOneB"))
    places = tmp_path / "places.yaml"
    text = (DATA / "topology.yaml").read_text().replace('gpus: "4"', 'gpus: "12"')
    places.write_text(text.replace("gpus: {free: 4}", "gpus: {free: 12}"))
    files = ["plan", "-f", job, "--topology", places]
    assert "more rows with -o wide" in run(*files).stdout
    assert "more rows" not in run(*files, "-o", "wide").stdout


def test_costs_are_estimated_from_the_model_on_a_named_accelerator(tmp_path):
    layers = estimated(tmp_path, {"dc-central": "H100"})
    assert sum(layers) == 24
    assert max(layers) - min(layers) <= 1


def test_data_centres_with_faster_accelerators_run_more_layers(tmp_path):
    layers = estimated(tmp_path, {"dc-central": "B200", "dc-west": "A100", "dc-east": "A100"})
    assert sum(layers) == 24
    assert max(layers) > 2 * min(layers)


def test_no_plan_says_which_data_centre_lacks_what(tmp_path):
    places = tmp_path / "topology.yaml"
    places.write_text((DATA / "topology.yaml").read_text().replace('gpus: "4"', 'gpus: "1"'))
    result = run(*JOB, "--topology", places)
    assert result.exit_code == 1
    assert "dc-west has 1 free GPUs and one stage needs 2 (tensor 1 x data 2)" in " ".join(
        result.stderr.split()
    )
    answer = run(*JOB, "--topology", places, "-o", "json")
    assert answer.exit_code == 1
    assert json.loads(answer.stdout)["reasons"][0]["code"] == "NoFeasiblePlacement"


@pytest.mark.parametrize(
    ("name", "old", "new", "code", "sentence"),
    [
        ("job.yaml", "data: 2", "data: 3", "InvalidParallelism", "32 samples does not divide"),
        ("job.yaml", "global: 32", "global: 100000000", "InvalidParallelism", "at most 2000000"),
        (
            "topology.yaml",
            "apiVersion: geotrain.io/v1alpha1\nkind: WanLink",
            "kind: Other",
            "LinkMissing",
            "there is no WanLink from",
        ),
    ],
)
def test_what_no_data_centre_could_help_is_wrong_input(tmp_path, name, old, new, code, sentence):
    paths = {each: DATA / each for each in ("job.yaml", "topology.yaml")}
    paths[name] = replaced(tmp_path, name, old, new)
    result = run("plan", "-f", paths["job.yaml"], "--topology", paths["topology.yaml"])
    assert result.exit_code == 2
    assert f"no plan: {code}" in result.stderr
    assert sentence in " ".join(result.stderr.split())


def test_a_huge_batch_and_huge_data_centres_are_searched_at_once(tmp_path):
    """Degrees are found among the batch's divisors, not counted up to the number of GPUs."""
    job = replaced(tmp_path, "job.yaml", "data: 2", "data: auto")
    job.write_text(job.read_text().replace("global: 32", "global: 999999937"))
    places = replaced(tmp_path, "topology.yaml", 'gpus: "4"', 'gpus: "999999999"')
    assert run("plan", "-f", job, "--topology", places).exit_code == 2


def fault(*arguments):
    result = run(*arguments)
    assert isinstance(result.exception, InputError), result.output
    return str(result.exception)


def replaced(tmp_path, name, old, new):
    text = (DATA / name).read_text()
    assert old in text
    path = tmp_path / name
    path.write_text(text.replace(old, new))
    return path


@pytest.mark.parametrize(
    ("name", "old", "new", "sentence"),
    [
        ("job.yaml", "pipeline: 6", "pipeline: 0", "spec.parallelism.pipeline"),
        ("job.yaml", "pipeline: 6", "pipes: 6", "spec.parallelism.pipes"),
        ("job.yaml", '"forward": "2.586ms"', '"forward": "-2.586ms"', "is negative"),
        ("job.yaml", "profile.json: |", "other.json: |", "has no key 'profile.json'"),
        ("job.yaml", "{name: gpt-profile, n", "{name: other, n", "is not among the files"),
        ("job.yaml", f"{API}kind: GeoTrainingJob", "kind: Job", "there is no GeoTrainingJob in -f"),
        ("job.yaml", "kind: GeoTrainingJob", "kind: Job", "geotrain.io has no kind 'Job'; write"),
        ("job.yaml", "pipeline: 6", "pipeline: true", "Input should be a valid integer"),
        ("job.yaml", "data: 2", 'data: "2"', "data: write a whole number of at least 1, or auto"),
        (
            "job.yaml",
            "schedule:",
            "placement: {stages: [{dataCenter: dc-west, stages: 6}]}\n  schedule:",
            "stages are given with policy Fixed, and only then",
        ),
        (
            "job.yaml",
            "schedule:",
            "placement: {policy: Fixed, stages: [{dataCenter: dc-west, stages: 3},"
            " {dataCenter: dc-west, stages: 3}]}\n  schedule:",
            "a data centre may appear only once in stages",
        ),
        ("job.yaml", '"forward": "2.586ms"', '"forward": "25h"', "25h is more than a day"),
        (
            "job.yaml",
            '"boundaryBytes": "500000"',
            '"boundaryBytes": "9999P"',
            "boundaryBytes: 9999P is more than 64 bits can hold; check its unit",
        ),
        ("topology.yaml", "to: dc-central", "to: dc-west", "two different data centres"),
        ("topology.yaml", "44ms", "2h", "a round trip of 7200s is more than an hour"),
        ("topology.yaml", "100M,", "1001P,", "a capacity of 1.001e+18 bit/s is more than 1000P"),
        ("topology.yaml", 'gpus: "4"', 'gpus: "٤"', "is '٤'; write a whole number"),
        ("topology.yaml", "{local: true}", "{local: false}", "give exactly one of kubeconfig"),
        ("topology.yaml", "name: dc-west,", "name: DC West,", "metadata.name: write the name of"),
        ("topology.yaml", "{local: true}", "{local: true}\n  costPerGpuHour: true", "not true or"),
        ("job.yaml", "metadata: {name: gpt,", "metadata: [name: gpt,", "is not YAML"),
        ("job.yaml", "kind: ConfigMap", "what: ConfigMap", "document 2: not a Kubernetes object"),
        ("topology.yaml", f"{API}kind: DataCenter", "kind: Pod", "there is no DataCenter"),
        ("topology.yaml", 'gpus: "4"', 'gpus: "four"', "is 'four'; write a whole number"),
        ("topology.yaml", 'annotations: {geotrain.io/gpus: "4"}', "{}", "is not YAML"),
        ("topology.yaml", "status: {gpus", "status: {x", "no free GPUs are known"),
        ("topology.yaml", "capacity: 100M,", "capacity: fast,", "bits per second"),
        ("topology.yaml", "capacity: 100M,", 'capacity: "0",', "write a rate above 0, like 5G"),
        ("topology.yaml", "capacity: 100M,", "capacity: 100,", "write text, in quotes where YAML"),
        ("topology.yaml", "capacity: 100M,", "", "spec.capacity: Field required"),
        ("topology.yaml", "capacity: 100M,", "capacity: 100M, reservable: .nan,", "nan is no num"),
        ("topology.yaml", "capacity: 100M,", "capacity: 100M, reservable: 1e-300,", "1 bit/s"),
        ("topology.yaml", "capacity: 100M,", "capacity: 100M, reserveable: 1,", "spec.reserveable"),
        ("topology.yaml", "44ms", "-44ms", "write a duration like 40ms"),
        ("topology.yaml", 'gpus: "4"', 'gpus: "9999999999"', "of at most 9 digits"),
        ("topology.yaml", 'gpus: "4"', 'gpus: "-4"', "is '-4'; write a whole number"),
        ("job.yaml", "global: 32", "global: 0", "greater than or equal to 1"),
        ("job.yaml", "global: 32", "global: 1000000000000", "less than or equal to 1000000000"),
        ("job.yaml", "global: 32", f"global: {10**30}", "larger than 64 bits can hold"),
        ("job.yaml", "global: 32", "global: 2026-13-45", "is not YAML: month must be in 1..12"),
        ("job.yaml", "global: 32", "global: " + "[" * 5000, "is not YAML"),
        ("job.yaml", '"2.586ms"', f'"{"9" * 400}s"', "a quantity of 401 characters; write one"),
        ("job.yaml", '"2.586ms"', "NaN", "nan is no quantity"),
    ],
)
def test_wrong_input_is_one_sentence(tmp_path, name, old, new, sentence):
    paths = {each: DATA / each for each in ("job.yaml", "topology.yaml")}
    paths[name] = replaced(tmp_path, name, old, new)
    text = fault("plan", "-f", paths["job.yaml"], "--topology", paths["topology.yaml"])
    assert sentence in text
    assert "\n" not in text


def test_files_that_cannot_be_read_or_written_are_named(tmp_path):
    assert fault("plan", "-f", "/missing.yaml") == (
        "/missing.yaml cannot be read: No such file or directory"
    )
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    assert "it is not UTF-8 text" in fault("plan", "-f", tmp_path / "binary.yaml")
    (tmp_path / "list.yaml").write_text("kind: List\nitems: [1]\n")
    assert "an item is not a Kubernetes object" in fault("plan", "-f", tmp_path / "list.yaml")
    (tmp_path / "profile.yaml").write_text("[]\n")
    assert "must hold one profile" in fault(*JOB, *TOPOLOGY, "--profile", tmp_path / "profile.yaml")
    assert "cannot be written: No such file" in fault(*JOB, *TOPOLOGY, "--csv", "/no/where.csv")
    assert "cannot be written: No such file" in fault(*JOB, *TOPOLOGY, "--gantt", "/no/where.png")
    assert "cannot be written: No such file" in fault(*JOB, *TOPOLOGY, "--gantt", "/no/where.html")
    assert ".xyz is no format to draw in; name it" in fault(
        *JOB, *TOPOLOGY, "--gantt", tmp_path / "chart.xyz"
    )


def test_main_turns_what_is_raised_on_purpose_into_one_line_and_exit_code_2(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["geotrain", "plan", "-f", "/missing.yaml"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert capsys.readouterr().err == (
        "error: /missing.yaml cannot be read: No such file or directory\n"
    )


def test_version_and_help():
    assert run("version").stdout.startswith("0.")
    text = run("--help").stdout
    assert all(command in text for command in ("plan", "join", "version"))
    assert "Context of the hub" in run("join", "--help").stdout


def test_one_micro_batch_on_one_replica_is_said_so(tmp_path):
    text = (DATA / "job.yaml").read_text().replace("data: 2", "data: 1")
    path = tmp_path / "job.yaml"
    path.write_text(text.replace("global: 32", "global: 1"))
    shown = run("plan", "-f", path, *TOPOLOGY)
    assert "of 1 micro-batch on 1 replica," in " ".join(shown.stdout.split())
