"""Topologies of the live hub, against a stand-in that keeps the promises of a real API server."""

import asyncio
import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from geotrain.cli import hub
from geotrain.cli.main import app
from geotrain.errors import InputError, NotFound, Unreachable
from support.fakes import FakeCluster

DATA = Path(__file__).parent / "data"
PROFILE = ("team-a", "gpt-profile")


def documents(name):
    return [each for each in yaml.safe_load_all((DATA / name).read_text()) if each]


@pytest.fixture
def cluster():
    """A hub as it would be: the controller has counted GPUs, and the profile lies in it."""
    fake = FakeCluster()
    for each in documents("topology.yaml"):
        if each["kind"] == "DataCenter":
            each["status"] = {"gpus": {"capacity": 8, "allocatable": 8, "free": 4}}
            each["metadata"].pop("annotations", None)
        fake.put(each)
    fake.put(documents("job.yaml")[1])
    return fake


@pytest.fixture
def run(cluster, monkeypatch, tmp_path):
    """Runs the command with that hub behind the context ``hub``, which is the current one."""
    config = {
        "current-context": "hub",
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "me"}}],
        "clusters": [{"name": "hub", "cluster": {"server": "https://hub"}}],
        "users": [{"name": "me", "user": {"token": "secret"}}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(documents("job.yaml")[0]))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.setattr(hub, "HttpCluster", lambda credentials: cluster)

    def invoke(*arguments):
        return CliRunner().invoke(
            app, ["plan", "-f", str(tmp_path / "job.yaml"), "-o", "json", *map(str, arguments)]
        )

    return invoke


def answer(result):
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


def test_the_hub_gives_the_plan_that_its_objects_in_files_give(run):
    files = ["plan", "-f", DATA / "job.yaml", "--topology", DATA / "topology.yaml", "-o", "json"]
    from_files = answer(CliRunner().invoke(app, [str(each) for each in files]))
    assert answer(run("--topology", "cluster")) == from_files
    assert answer(run("--context", "hub")) == from_files


def test_files_go_before_the_hub(run, cluster, tmp_path):
    slower = tmp_path / "slower.yaml"
    links = documents("topology.yaml")[3:]
    for link in links:
        link["spec"]["roundTripTime"] = "400ms"
    slower.write_text(yaml.safe_dump_all(links))
    now = answer(run("--topology", "cluster"))["iterationSeconds"]
    assert answer(run("--topology", "cluster", "--topology", slower))["iterationSeconds"] > now


def test_what_other_jobs_hold_of_a_link_is_not_handed_out_again(run, cluster):
    free = answer(run("--topology", "cluster"))["iterationSeconds"]
    for job, is_same in (("team-b/other", False), ("team-a/gpt", True)):
        for link in documents("topology.yaml")[3:]:
            link["status"] = {"reserved": [{"job": job, "rate": "90M"}]}
            cluster.put(link)
        planned = answer(run("--topology", "cluster"))["iterationSeconds"]
        assert planned == free if is_same else planned > 1.5 * free


def test_a_reservation_that_is_no_rate_is_named(run, cluster):
    link = documents("topology.yaml")[3]
    link["status"] = {"reserved": [{"job": "team-b/other", "rate": "much"}]}
    cluster.put(link)
    result = run("--topology", "cluster")
    assert isinstance(result.exception, InputError)
    assert "WanLink west-central: status.reserved: 'much' is not a rate" in str(result.exception)


def test_a_profile_that_the_hub_lacks_is_asked_of_the_user(run, cluster):
    cluster.vanish(hub.CONFIG_MAPS, *PROFILE)
    result = run("--topology", "cluster")
    assert "ConfigMap gpt-profile, which gpt takes its profile from" in str(result.exception)


def test_only_what_is_missing_is_asked_for(cluster):
    asyncio.run(hub.read(cluster, "here", None))
    assert [verb for verb, _, _ in cluster.calls] == ["list", "list"]


def test_a_cluster_without_geotrain_is_no_hub(run, cluster):
    cluster.fail_next("list", NotFound("404"))
    result = run("--topology", "cluster")
    assert str(result.exception) == "context hub: geotrain is not installed there, or it is no hub"


def test_a_silent_hub_is_said_as_such(run, cluster):
    cluster.down = True
    assert isinstance(run("--topology", "cluster").exception, Unreachable)


def test_a_hub_without_data_centres_is_said_as_such(run, cluster):
    for each in documents("topology.yaml")[:3]:
        cluster.vanish(hub.DATA_CENTERS, "", each["metadata"]["name"])
    assert "there is no DataCenter" in str(run("--topology", "cluster").exception)


def test_a_profile_file_leaves_nothing_to_ask(run, cluster, tmp_path):
    profile = tmp_path / "profile.json"
    profile.write_text(documents("job.yaml")[1]["data"]["profile.json"])
    answer(run("--topology", "cluster", "--profile", profile))
    assert {verb for verb, _, _ in cluster.calls} == {"list"}
