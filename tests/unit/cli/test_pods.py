"""``geotrain plan`` checks a job's pods, and shows where they differ."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from geotrain.cli.main import app
from geotrain.errors import InputError

DATA = Path(__file__).parent / "data"
EAST = {
    "dataCenter": "dc-east",
    "image": "east/trainer:2",
    "resources": {"limits": {"amd.com/gpu": 1}},
}


def command(folder, change=None, amd="", tcp_window=""):
    """The test's job and topology, changed; data centre ``amd`` has GPUs of AMD."""
    job, config = yaml.safe_load_all((DATA / "job.yaml").read_text())
    (change or (lambda _: None))(job["spec"])
    places = list(yaml.safe_load_all((DATA / "topology.yaml").read_text()))
    for each in places:
        if each["metadata"]["name"] == amd:
            each["spec"]["gpuResource"] = "amd.com/gpu"
        if tcp_window and each["kind"] == "WanLink":
            each["spec"]["tcpWindow"] = tcp_window
    path = folder / "all.yaml"
    path.write_text(yaml.safe_dump_all([job, config, *places]))
    return ["plan", "-f", str(path)]


def run(*arguments):
    return CliRunner().invoke(app, arguments)


def document(*arguments):
    result = run(*arguments, "-o", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def container(spec):
    return spec["template"]["spec"]["containers"][0]


def test_the_pods_of_each_data_centre_are_shown_where_some_differ(tmp_path):
    asked = command(tmp_path, lambda spec: spec.update(overrides=[EAST]), amd="dc-east")
    pods = {each["dataCenter"]: each for each in document(*asked)["pods"]}
    assert pods["dc-west"] == {
        "dataCenter": "dc-west",
        "image": "geotrain-trainer:dev",
        "differs": [],
    }
    assert pods["dc-east"]["image"] == "east/trainer:2"
    assert pods["dc-east"]["differs"] == [
        {"path": "spec.containers[trainer].image", "value": "east/trainer:2"},
        {"path": "spec.containers[trainer].resources.limits.amd.com/gpu", "value": 1},
    ]
    shown = run(*asked).output
    assert "Pods" in shown
    assert "east/trainer:2" in shown


def test_there_is_no_table_of_pods_that_are_alike(tmp_path):
    asked = command(tmp_path)
    assert "Pods" not in run(*asked).output
    assert [each["differs"] for each in document(*asked)["pods"]] == [[], [], []]


def test_a_data_centre_with_other_gpus_is_left_out_with_a_note(tmp_path):
    found = document(*command(tmp_path, lambda s: s["parallelism"].update(data=1), amd="dc-east"))
    assert "dc-east" not in {each["dataCenter"] for each in found["placement"]}
    (note,) = [note for note in found["notes"] if "left out" in note]
    assert note.startswith("dc-east is left out: no container asks for amd.com/gpu (its containers")


def test_an_override_of_no_data_centre_is_noted(tmp_path):
    north = {"dataCenter": "dc-north", "image": "a"}
    asked = command(tmp_path, lambda spec: spec.update(overrides=[north]))
    assert "there is no such DataCenter" in " ".join(document(*asked)["notes"])
    assert "note: spec.overrides[0] is for 'dc-north'" in run(*asked).output


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: s["parallelism"].update(tensor=8), "each pod asks for 1 nvidia.com/gpu in"),
        (lambda s: container(s).pop("resources"), "no container asks for nvidia.com/gpu"),
        (
            lambda s: container(s).update(resorces={}),
            "spec.template.spec.containers[0].resorces: unknown field; did you mean resources?",
        ),
        (
            lambda s: s["template"]["spec"].update(hostNetwork=True),
            "spec.template.spec.hostNetwork: goes beyond Pod Security baseline; leave it out",
        ),
        (
            lambda s: container(s).update(env=[{"name": "RANK", "value": "0"}]),
            "spec.template.spec.containers[0].env[0].name: geotrain sets RANK; leave it out",
        ),
        (
            lambda s: s.update(overrides=[EAST]),
            "dc-east: no container asks for nvidia.com/gpu (its containers ask for 1 amd.com/gpu)",
        ),
    ],
)
def test_pods_that_may_not_be_are_refused_before_anything_is_planned(tmp_path, change, said):
    def placed(spec):
        change(spec)
        spec["placement"] = {"dataCenters": ["dc-central", "dc-east", "dc-west"]}

    result = run(*command(tmp_path, placed))
    assert isinstance(result.exception, InputError)
    assert said in str(result.exception)


def test_connections_that_there_may_not_be_are_noted_with_the_rate_that_is_left(tmp_path):
    found = document(*command(tmp_path, tcp_window="1"))
    assert {each["connections"] for each in found["links"]} == {512}
    notes = [note for note in found["notes"] if "512 connections a path" in note]
    assert len(notes) == 4
    assert "a window of 1 bytes over 44ms they carry" in " ".join(notes)
