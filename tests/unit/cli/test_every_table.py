"""Every table of every command at 80 and at 200 columns: it fits, and no word is broken."""

import re
from datetime import UTC, datetime
from functools import cache

import pytest

from geotrain.api.exploration import exploration
from geotrain.api.v1alpha1 import DataCenter, GeoTrainingJob, PrefillPool, WanLink
from geotrain.cli import explore_reports, links, texts, top, why
from geotrain.cli.explain import explanation
from geotrain.cli.tables import lines
from geotrain.cli.why import Facts
from geotrain.cli.why_pending import headline
from geotrain.planning.explore.report import explore
from geotrain.planning.explore.search import Allowance
from support import hubs
from support.manifests import prefill_pool

WIDTHS = (80, 200)
NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)
_, INPUTS, PLAN = hubs.problem()


def made(kind, manifest, status=None):
    return kind.from_manifest({**manifest, "status": status or {}})


def job(status, name="gpt"):
    manifest = hubs.documents("job.yaml")[0]
    manifest["metadata"] |= {"name": name, "creationTimestamp": hubs.TIME, "generation": 1}
    return made(GeoTrainingJob, manifest, status)


def pool():
    manifest = prefill_pool(namespace="team-a")
    status = {
        "phase": "Serving",
        "job": "gpt",
        "readyWorkers": 3,
        "workers": [{"dataCenter": name, "desired": 2, "ready": 1} for name in hubs.CENTERS],
        "bubbleSeconds": {"offered": 1234.5, "used": 432.1},
        "requests": {"admitted": 123456, "refused": 4321},
        "timeToFirstToken": {"p50": "312.5ms", "p90": "812.5ms", "p99": "1.125s"},
        "trainingStretch": 0.012,
        "endpoint": "http://llama-router.team-a.svc:8080",
        "conditions": [
            hubs.condition("TrainingProtected", "False", "TrainingStretched", "12 % longer")
        ],
    }
    return made(PrefillPool, manifest, status)


def center(name):
    manifest = next(
        each for each in hubs.documents("topology.yaml") if each["metadata"]["name"] == name
    )
    manifest["spec"]["accelerator"] = "H100-SXM"
    gpus = {"capacity": 1024, "allocatable": 1000, "free": 12}
    reachable = hubs.condition("Reachable", "False", "Unreachable", "it does not answer: " * 4)
    status = {"gpus": gpus, "nodes": 128, "podCIDRs": ["10.244.0.0/16", "fd00:10:244::/56"],
              "lastContact": hubs.TIME, "conditions": [reachable]}  # fmt: skip
    return made(DataCenter, manifest, status)


def link(manifest):
    status = {
        "measured": {"capacity": "60.25M", "roundTripTime": "45.25ms", "time": hubs.TIME},
        "reserved": [{"job": "team-a/gpt", "rate": "53M"}, {"job": "team-b/llama", "rate": "4M"}],
        "reservedRate": "57M",
    }
    return made(WanLink, manifest, status)


JOBS = [job(hubs.running(PLAN, linkBytes=hubs.carried())), job(hubs.waiting(PLAN), "llama")]
CENTERS = [center(name) for name in hubs.CENTERS]
LINKS = [link(each) for each in hubs.documents("topology.yaml")[3:]]
USES = {each.name: links.uses_of(each, JOBS) for each in LINKS}


@cache
def explored(kind):
    """The first rounds of a search, which fill every table of it."""
    asked, given = exploration(texts.load(hubs.DATA / f"explore-{kind}.yaml")[0])
    report = explore(asked, given, Allowance(steps=200))
    return [*explore_reports.tables(report), *explore_reports.regions(("dc-a",), {("b",): report})]


def explained(number):
    facts = Facts(JOBS[number], NOW, CENTERS, LINKS, [pool()],
                  unseen={"dc-east": "dc-east cannot be looked into"})  # fmt: skip
    return list(why.blocks(headline(facts), explanation(facts)))


SHOWN = {
    "links": lambda wide: [links.shown(LINKS, USES, wide=wide)],
    "top": lambda wide: list(
        top.tables(top.Seen(JOBS, [pool()], CENTERS), NOW, wide=wide, many=True)
    ),
    "explain a running job": lambda wide: explained(0),
    "explain a waiting job": lambda wide: explained(1),
    "explore dense": lambda wide: explored("dense"),
    "explore moe": lambda wide: explored("moe"),
}


def words(text):
    return set(text.split())


def held(found, whole, width):
    """Lines fit, and their words are those that the same has without a limit."""
    assert max(map(len, found)) <= width
    known = words("\n".join(whole)) | words("not shown for lack of width:")
    broken = {each for each in words("\n".join(found)) if each.rstrip(",") not in known | {
        word.rstrip(",") for word in known}}  # fmt: skip
    assert not broken


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", SHOWN)
def test_live_tables_fit(name, wide, width):
    blocks = SHOWN[name](wide)
    whole = [line.text for line in lines(blocks, None)]
    held([line.text for line in lines(blocks, width)], whole, width)


COMMANDS = {
    "plan": ("plan", "-f", "examples/three-dc"),
    "pareto": ("plan", "-f", "examples/three-dc", "--objective", "pareto"),
    "timeline": ("timeline", "-f", "examples/three-dc"),
    "schedule": (
        *("schedule", "--policy", "zb-1p", "--stages", "4", "--microbatches", "8"),
        *("--forward", "2ms", "--input-gradient", "2ms", "--weight-gradient", "1ms"),
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_tables_of_commands_without_a_cluster_fit(name, live, monkeypatch):
    monkeypatch.chdir(hubs.DATA.parents[3])
    monkeypatch.delenv("COLUMNS", raising=False)
    whole = live.run(*COMMANDS[name]).stdout
    for width in WIDTHS:
        monkeypatch.setenv("COLUMNS", str(width))
        found = live.run(*COMMANDS[name])
        assert found.exit_code == 0, found.output
        grid = re.compile(r"^\S+ \d+ +[a-zA-Z.+]{20,}")
        rows = [line for line in found.stdout.splitlines() if not grid.match(line)]
        assert max(map(len, found.stdout.splitlines())) <= width
        held(rows, [whole], width)


def test_a_wide_terminal_is_used():
    blocks = explored("moe")
    assert len(list(lines(blocks, 200))) < len(list(lines(blocks, 80)))


def test_wide_leaves_nothing_out_and_breaks_no_line(live, monkeypatch):
    monkeypatch.chdir(hubs.DATA.parents[3])
    monkeypatch.setenv("COLUMNS", "80")
    found = live.run(*COMMANDS["plan"], "-o", "wide")
    assert "lists all" not in found.stdout
    assert max(map(len, found.stdout.splitlines())) > 80
    assert live.run(*COMMANDS["timeline"], "-o", "wide").exit_code == 0
