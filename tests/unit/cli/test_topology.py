import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from geotrain.api import convert
from geotrain.cli import manifests
from geotrain.cli.main import app
from geotrain.errors import InputError

DATA = Path(__file__).parents[2] / "data"
AZURE = ["azure", DATA / "azure_rtt/azure_rtt_p95.csv"]
SKYPLANE = ["skyplane", DATA / "skyplane/throughput_2022-11.csv", DATA / "skyplane/cost.csv"]
SAILOR = [
    "sailor", DATA / "sailor/multizone_bandwidths.json", DATA / "sailor/communication_cost.json",
]  # fmt: skip
PAIR = ["--regions", "aws:us-east-1,aws:us-west-2"]


def run(*arguments):
    return CliRunner().invoke(app, ["topology", "import", *map(str, arguments)])


def made(tmp_path, *arguments):
    path = tmp_path / "topology.yaml"
    result = run(*arguments, "-o", path)
    assert result.exit_code == 0, (result.output, result.exception)
    found = manifests.read([path])
    free = {
        each.name: int(each.metadata.annotations[manifests.GPUS]) for each in found.data_centers
    }
    return convert.topology(found.data_centers, found.links, free)


def fault(*arguments):
    result = run(*arguments)
    assert isinstance(result.exception, InputError), result.output
    assert "\n" not in str(result.exception)
    return str(result.exception)


def test_azure_with_a_rate_makes_a_topology(tmp_path):
    regions = "East US,West US,Japan West"
    places = made(
        tmp_path, *AZURE, "--regions", regions, "--gpus", "East US=64,West US=32,Japan West=8",
        "--capacity", "50G", "--per-pod-capacity", "5G", "--tcp-window", "1536Ki",
    )  # fmt: skip
    assert {center.name: center.gpus for center in places.data_centers} == {
        "east-us": 64, "west-us": 32, "japan-west": 8,
    }  # fmt: skip
    link = places.link("east-us", "west-us")
    assert (link.round_trip, link.capacity, link.per_pod_capacity) == (0.074, 50e9, 5e9)
    assert link.window == 1536 * 1024
    assert places.link("west-us", "east-us").round_trip == 0.072
    # Japan West has no row of its own: its way there is the other's way back.
    assert places.link("japan-west", "east-us").round_trip == 0.173


def test_skyplane_needs_no_more_than_its_files(tmp_path):
    places = made(tmp_path, *SKYPLANE, *PAIR)
    link = places.link("aws-us-east-1", "aws-us-west-2")
    assert (link.capacity, link.per_pod_capacity) == (4372284765, 4372284765)
    assert (link.round_trip, link.cost_per_gigabyte) == (pytest.approx(0.070183), 0.02)


def test_sailor_takes_prices_and_a_round_trip(tmp_path):
    options = ["--regions", "us-central1-a,us-west1-b", "--accelerator", "A100-40"]
    options += ["--round-trip-time", "33ms", "--cost-per-gpu-hour", "2.5"]
    places = made(tmp_path, *SAILOR, *options)
    link = places.link("us-central1-a", "us-west1-b")
    assert (link.round_trip, link.cost_per_gigabyte) == (0.033, 0.02)
    assert link.message_rates.sizes[0] == 2**16
    assert 4e9 < link.message_rate(2**25) < link.pod_rate < link.capacity < 9e9
    assert places.data_centers[0].cost_per_gpu_hour == 2.5
    assert [center.lan.rate for center in places.data_centers] == [48.29e9, 49.85e9]
    dearer = made(tmp_path, *SAILOR, *options, "--cost-per-gigabyte", "0.5")
    assert dearer.link("us-central1-a", "us-west1-b").cost_per_gigabyte == 0.5


def test_links_that_are_alike_both_ways_are_one():
    result = run(*AZURE, "--regions", "West US,South Central US", "--capacity", "5G")
    kinds = [each["kind"] for each in yaml.safe_load_all(result.stdout)]
    assert kinds == ["DataCenter", "DataCenter", "WanLink", "WanLink"]
    same = run(*AZURE, "--regions", "East US,Japan West", "--capacity", "5G")
    links = [each for each in yaml.safe_load_all(same.stdout) if each["kind"] == "WanLink"]
    assert [link["metadata"]["name"] for link in links] == ["east-us-to-japan-west"]


def test_plan_reads_what_import_writes(tmp_path):
    path = tmp_path / "topology.yaml"
    assert run(*SKYPLANE, *PAIR, "--gpus", "6", "-o", path).exit_code == 0
    job = Path(__file__).parent / "data/job.yaml"
    arguments = ["plan", "-f", job, "--topology", path, "-o", "json"]
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    placed = [each["dataCenter"] for each in json.loads(result.stdout)["placement"]]
    assert sorted(placed) == ["aws-us-east-1", "aws-us-west-2"]


def test_one_region_needs_no_link(tmp_path):
    assert made(tmp_path, *AZURE, "--regions", "Elsewhere").links == ()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([*AZURE, "--regions", "East US,West US"], "no rate was measured from East US to West US"),
        ([*AZURE, "--regions", "East US,West U"], "region 'West U' is not in the measurements; th"),
        ([*AZURE, "--regions", " , "], "name at least one region"),
        ([*AZURE, "--regions", "East US,east-us"], "would be the second data centre 'east-us'"),
        ([*AZURE, "--regions", "East US,É" + "x" * 70], "at most 63 lower-case letters"),
        ([*SAILOR, "--regions", "us-central1-a,us-west1-b"], "no round trip was measured between"),
        ([*SKYPLANE, *PAIR, "--gpus", "-1"], "'-1' is no count"),
        ([*SKYPLANE, *PAIR, "--gpus", "nan"], "'nan' is no count"),
        ([*SKYPLANE, *PAIR, "--gpus", "9" * 30], "is no count; write '64'"),
        ([*SKYPLANE, *PAIR, "--gpus", "aws:us-east-1=4"], "give those of 'aws:us-west-2' too"),
        ([*SKYPLANE, *PAIR, "--gpus", "x=4"], "'x' is not among --regions"),
        ([*SKYPLANE, *PAIR, "--capacity", "fast"], "WanLink: spec.capacity: write bits per second"),
        ([*SKYPLANE, *PAIR, "--capacity", "0"], "write a rate above 0, like 5G"),
        ([*SKYPLANE, *PAIR, "--tcp-window", "-1"], "WanLink: spec.tcpWindow: write bytes like"),
        ([*SKYPLANE, *PAIR, "--round-trip-time", "soon"], "--round-trip-time: 'soon' is not a dur"),
        (["azure", "/missing.csv", "--regions", "a"], "/missing.csv cannot be read"),
        ([*SKYPLANE, *PAIR, "-o", "/no/where.yaml"], "/no/where.yaml cannot be written"),
    ],
)
def test_wrong_input_is_one_sentence(arguments, sentence):
    assert sentence in fault(*arguments)


def test_wrong_options_are_refused_with_code_2():
    for options in (["--cost-per-gigabyte", "nan"], ["--gpus-per-node", "0"]):
        assert run(*SKYPLANE, *PAIR, *options).exit_code != 0
    assert run("elsewhere", "file", *PAIR).exit_code == 2
