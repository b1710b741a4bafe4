"""WanLinks without part in a plan are named, wherever people or programs look."""

import json

import pytest
from typer.testing import CliRunner

from geotrain.api.v1alpha1 import DataCenter, WanLink
from geotrain.cli import manifests
from geotrain.cli.main import app, main
from geotrain.cli.unused import dropped_links
from geotrain.errors import InputError
from support.hubs import DATA
from support.manifests import data_center, wan_link

CENTERS = [DataCenter.from_manifest(data_center(name)) for name in ("dc-west", "dc-east")]
MORE = """
---
apiVersion: geotrain.io/v1alpha1
kind: WanLink
metadata: {name: nowhere}
spec: {from: dc-west, to: dc-moon, capacity: 1G, roundTripTime: 1s}
"""


OF_MODEL = """
apiVersion: geotrain.io/v1alpha1
kind: GeoTrainingJob
metadata: {name: gpt, namespace: team-a}
spec:
  model: {layers: 4, hiddenSize: 1024, sequenceLength: 1024, vocabularySize: 32000}
  parallelism: {data: 1, pipeline: 2}
  batch: {global: 8, micro: 1}
  template: {spec: {containers: [{name: t, image: a, resources: {limits: {nvidia.com/gpu: 1}}}]}}
"""


def links(*ends, **spec):
    return [
        WanLink.from_manifest(wan_link(f"link-{n}", **{"from": a, "to": b}, **spec))
        for n, (a, b) in enumerate(ends)
    ]


def test_a_link_to_an_unknown_data_centre_is_told_with_the_nearest():
    (one, other, alone) = dropped_links(
        CENTERS, links(("dc-west", "dc-easst"), ("moon", "mars"), ("dc-west", "x"))
    )
    assert one.sentence == (
        "WanLink link-0 (dc-west to dc-easst) is left out: there is no DataCenter 'dc-easst'; did"
        " you mean dc-east?"
    )
    assert other.why == "there is no DataCenter 'moon' and no 'mars'; known: dc-east, dc-west"
    assert alone.document == {
        "name": "link-2",
        "from": "dc-west",
        "to": "x",
        "why": "there is no DataCenter 'x'; known: dc-east, dc-west",
    }
    assert dropped_links([], links(("a", "b")))[0].why.endswith("known: none")


def test_a_second_link_of_a_direction_is_told_and_a_way_back_by_itself_is_not():
    (lost,) = dropped_links(CENTERS, links(*[("dc-west", "dc-east")] * 2, ("dc-east", "dc-west")))
    assert (lost.name, lost.why) == ("link-1", "WanLink link-0 describes this direction")


@pytest.fixture
def files(tmp_path):
    places = tmp_path / "topology.yaml"
    text = (DATA / "topology.yaml").read_text()
    places.write_text(text.replace("{local: true}", "{local: true}\n  accelerator: H100") + MORE)
    return ["-f", str(DATA / "job.yaml"), "--topology", str(places)]


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.parametrize("command", ["plan", "timeline", "explore"])
def test_tables_and_documents_name_it(command, files, tmp_path):
    if command == "explore":
        files[1] = str(tmp_path / "job.yaml")
        (tmp_path / "job.yaml").write_text(OF_MODEL)
    said = "note: WanLink nowhere (dc-west to dc-moon) is left out: there is no DataCenter"
    assert said in run(command, *files).stdout
    found = json.loads(run(command, *files, "-o", "json").stdout)
    assert [each["name"] for each in found["droppedLinks"]] == ["nowhere"]


def test_where_there_is_no_plan_it_is_said_too(tmp_path, capsys):
    text = (DATA / "topology.yaml").read_text()
    places = tmp_path / "topology.yaml"
    places.write_text(text.replace("from: dc-", "from: dx-"))
    files = ["-f", str(DATA / "job.yaml"), "--topology", str(places)]
    with pytest.raises(SystemExit):
        main(["plan", *files])
    said = capsys.readouterr().err
    assert "no plan: LinkMissing" in said
    assert "did you mean dc-central?" in said
    found = json.loads(run("plan", *files, "-o", "json").stdout)
    assert any("did you mean dc-central?" in note for note in found["notes"])


def test_an_object_that_is_given_twice_is_told(tmp_path):
    path = tmp_path / "twice.yaml"
    path.write_text((DATA / "topology.yaml").read_text() + MORE + MORE.replace("1s", "2s"))
    found = manifests.read([path])
    assert found.remarks == (
        f"WanLink nowhere is given twice; the last, of {path} document 8, counts",
    )
    assert [w.spec.round_trip_time for w in found.links if w.name == "nowhere"] == ["2s"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind: WanLinks\n", "'WanLinks' without apiVersion is no kind; did you mean WanLink of"),
        ("kind: ConfigMap\n", "ConfigMap: metadata: Input should be"),
        ("kind: ConfigMap\nmetadata: {}\n", "ConfigMap: metadata.name: Field required"),
        ("kind: ConfigMap\nmetadata: {name: A}\n", "ConfigMap: metadata.name: write the name"),
        ("kind: ConfigMap\nmetadata: {name: a}\ndata: [1]\n", "ConfigMap a: data: write a map"),
    ],
)
def test_what_is_nearly_an_object_is_refused(tmp_path, text, says):
    path = tmp_path / "file.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as refusal:
        manifests.read([path])
    assert str(refusal.value).startswith(f"{path} document 1: ")
    assert says in str(refusal.value)


def test_other_kinds_are_passed_over(tmp_path):
    path = tmp_path / "file.yaml"
    path.write_text("kind: Secret\n---\nkind: WanLinks\napiVersion: other.io/v1\n")
    assert manifests.read([path]).others == ("Secret", "WanLinks")
