"""``geotrain links`` and ``top``: what is listed, in which form, and what is warned of."""

import json
from datetime import UTC, datetime

import pytest
import yaml

from geotrain.api.objects import DATA_CENTERS
from geotrain.api.v1alpha1 import DataCenter, GeoTrainingJob, PrefillPool, WanLink
from geotrain.cli import answer, links, top
from geotrain.errors import Forbidden, InputError, NotFound
from support import hubs
from support.manifests import prefill_pool, with_field

NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)
_, INPUTS, PLAN = hubs.problem()


def pool(**status):
    return {**prefill_pool(namespace="team-a"), "status": {"job": "gpt", **status}}


@pytest.fixture
def hub(live):
    for each in hubs.documents("topology.yaml"):
        live.put(each)
    running = hubs.running(PLAN, linkBytes=hubs.carried(), inWindowShare=0.9, loss=2.5)
    live.put({**hubs.documents("job.yaml")[0], "status": running})
    waiting = with_field(hubs.documents("job.yaml")[0], "metadata.name", "llama")
    live.put({**with_field(waiting, "metadata.namespace", "team-b"), "status": {}})
    live.put(pool(bubbleSeconds={"offered": 10, "used": 4}, requests={"admitted": 7, "refused": 1},
                  timeToFirstToken={"p50": "1s", "p90": "2s", "p99": "3s"}, trainingStretch=0.01,
                  workers=[{"dataCenter": "dc-west", "desired": 2, "ready": 1}]))  # fmt: skip
    return live


def rows(text):
    return [line.split() for line in text.splitlines()]


def listed(result):
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def test_links_are_a_row_each(hub):
    found = rows(listed(hub.run("links")))
    assert found[0][:3] == ["FROM", "TO", "CAPACITY"]
    assert found[1] == ["dc-central", "dc-east", "100M", "50M", "47ms", "-", "38", "0"]
    assert len(found) == 4


def test_links_wide_has_more(hub):
    found = rows(listed(hub.run("links", "-o", "wide")))
    assert found[0][-6:] == ["NAME", "BOTH-WAYS", "WINDOW", "RESERVABLE", "PRICE/GB", "VALID"]
    assert found[1][-6:] == ["central-east", "yes", "16300", "100%", "0", "Unknown"]


def test_links_for_programs(hub):
    names = listed(hub.run("links", "-o", "name")).splitlines()
    assert names[0] == "wanlink.geotrain.io/central-east"
    found = json.loads(listed(hub.run("links", "-o", "json")))
    assert yaml.safe_load(listed(hub.run("links", "-o", "yaml"))) == found
    first = found["items"][0]
    assert (first["from"], first["measured"], first["reserved"]) == ("dc-central", None, "0")
    planned = [{"from": "dc-central", "to": "dc-east", "connections": 38},
               {"from": "dc-east", "to": "dc-central", "connections": 38}]  # fmt: skip
    assert first["jobs"] == [{"job": "team-a/gpt", "reserved": "0", "planned": planned}]


def test_no_links_is_said(live):
    found = live.run("links")
    assert (found.exit_code, found.stdout, found.stderr) == (0, "", "no WanLinks found\n")


def test_links_to_nowhere_are_warned_of(hub):
    hub.vanish(DATA_CENTERS, "", "dc-east")
    found = hub.run("links")
    assert "warning: WanLink west-east: there is no DataCenter dc-east; there is" in found.stderr
    hub.fail_next("list", Forbidden("no"), times=2)
    warnings = json.loads(hub.run("links", "-o", "json", "--context", "hub").stdout or "{}")
    assert "warnings" not in warnings or warnings["warnings"]


def link(spec=None, **status):
    manifest = hubs.documents("topology.yaml")[3]
    manifest["spec"] |= spec or {}
    return WanLink.from_manifest({**manifest, "status": status})


def measured(**values):
    return {"measured": {**values, "time": hubs.TIME}}


@pytest.mark.parametrize(
    ("spec", "status", "told"),
    [
        ({}, {}, []),
        ({}, measured(capacity="95M", roundTripTime="45ms", perPodCapacity="49M"), []),
        ({}, measured(capacity="80M"), ["capacity is measured as 80M, and 100M is declared"]),
        ({"perPodCapacity": None}, measured(perPodCapacity="80M"),
         ["perPodCapacity is measured as 80M, and 100M is declared"]),
        ({}, measured(roundTripTime="60ms"),
         ["a round trip is measured as 60ms, and 44ms is declared"]),
    ],
)  # fmt: skip
def test_a_link_that_is_worse_than_declared_is_degraded(spec, status, told):
    assert list(links.degraded(link(spec, **status))) == told


def test_the_condition_of_a_link_is_told_once():
    known = [DataCenter.from_manifest(each) for each in hubs.documents("topology.yaml")[:3]]
    overlapping = hubs.condition("Valid", "False", "OverlappingLink", "WanLink a already goes")
    unknown = hubs.condition("Valid", "False", "UnknownDataCenter", "there is no DataCenter x")
    fine = hubs.condition("Valid", "True", "LinkValid")
    one = link(conditions=[overlapping])
    assert list(links.warnings([one], known)) == ["WanLink west-central: WanLink a already goes"]
    assert list(links.warnings([link(conditions=[fine])], known)) == []
    stale = link({"to": "moon"}, conditions=[unknown])
    assert list(links.warnings([stale], known)) == [
        "WanLink west-central: there is no DataCenter moon;"
        " there is dc-central, dc-east, dc-west"
    ]  # fmt: skip
    assert list(links.warnings([stale], [])) == [
        "WanLink west-central: there is no DataCenter dc-west and no moon; there is none"
    ]
    assert list(links.warnings([stale], None)) == []


@pytest.mark.parametrize(
    ("reserved", "cell"),
    [
        ([], "0"),
        ([("team-a/gpt", "53M")], "53M team-a/gpt"),
        ([("a/x", "50M"), ("b/y", "3M")], "53M a/x=50M, b/y=3M"),
    ],
)
def test_who_has_reserved_what(reserved, cell):
    total = {"reservedRate": "53M"} if reserved else {}
    held = link(reserved=[{"job": job, "rate": rate} for job, rate in reserved], **total)
    uses = {held.name: links.uses_of(held, [])}
    assert links.shown([held], uses, wide=False).rows[0][-1] == cell


def test_a_link_of_one_direction_has_the_uses_of_that_alone():
    job = GeoTrainingJob.from_manifest(
        {**hubs.documents("job.yaml")[0], "status": hubs.running(PLAN)}
    )
    one_way = links.uses_of(link({"symmetric": False}), [job])
    assert one_way[0].connections == {("dc-west", "dc-central"): 34}
    assert one_way[0].most == 34
    assert links.Use("a/b").most == 0


def test_top_shows_everything(hub):
    found = listed(hub.run("top", "-A"))
    assert [line for line in found.splitlines() if line in ("Jobs", "Prefill pools",
            "Data centres")] == ["Jobs", "Prefill pools", "Data centres"]  # fmt: skip
    jobs = rows(found)
    assert ["team-a", "gpt", "Running", "1.896s", "2.4s", "31%", "7", "0", "4Gi", "4s/10s",
            "40%"] in jobs  # fmt: skip
    assert ["team-b", "llama", "New", "-", "-", "-", "-", "0", "-", "-"] in jobs


@pytest.mark.parametrize(
    ("what", "kinds"),
    [("jobs", ["Jobs"]), ("pools", ["Prefill pools"]), ("dc", ["Data centres"])],
)
def test_top_shows_what_is_asked_for(hub, what, kinds):
    found = listed(hub.run("top", what))
    assert [line for line in found.splitlines() if line[:1].isupper() and not line.isupper()
            and not line[:6].isupper()][:1] == kinds  # fmt: skip
    assert "team-b" not in found


def test_top_shows_jobs_and_pools_alike_in_every_form(hub):
    found = listed(hub.run("top"))
    assert "Jobs\n" in found
    assert "Prefill pools\n" in found
    assert "Prefill pools" not in listed(hub.run("top", "jobs", "-o", "wide"))


def test_top_wide_has_more(hub):
    found = listed(hub.run("top", "-o", "wide"))
    assert "dc-central>dc-west:1Gi" in found
    assert "dc-west:1/2" in found
    assert "READY-GPUS" in found


def test_top_for_programs(hub):
    names = listed(hub.run("top", "-o", "name")).splitlines()
    centers = [f"datacenter.geotrain.io/{name}" for name in hubs.CENTERS]
    pools = ["prefillpool.geotrain.io/llama"]
    assert names == ["geotrainingjob.geotrain.io/gpt", *pools, *centers]
    assert listed(hub.run("top", "pools", "-o", "name")) == "prefillpool.geotrain.io/llama\n"
    found = json.loads(listed(hub.run("top", "-o", "json")))
    assert found["jobs"][0]["gpuBusy"] == pytest.approx(0.386 * 1.896 / 2.4, abs=0.005)
    assert found["jobs"][0]["bubbleSeconds"] == {"offered": 10, "used": 4}
    assert found["pools"][0]["name"] == "llama"
    assert found["dataCenters"][0]["usedGpus"] is None
    assert json.loads(listed(hub.run("top", "dc", "-o", "json"))).keys() == {"dataCenters"}
    jobs = json.loads(listed(hub.run("top", "jobs", "-o", "json")))
    assert jobs.keys() == {"jobs"}
    assert jobs["jobs"][0]["bubbleSeconds"] == {"offered": 10, "used": 4}
    assert json.loads(listed(hub.run("top", "pools", "-o", "json"))).keys() == {"pools"}


def test_an_empty_hub_has_nothing_to_show(live):
    assert live.run("top").stderr == "nothing to show\n"


def test_what_may_not_be_listed_is_left_out_and_said(hub):
    hub.fail_next("list", Forbidden("you cannot list prefillpools"))
    found = hub.run("top")
    assert found.exit_code == 0
    assert "warning: prefillpools may not be listed: you cannot" in found.stderr
    assert "Prefill pools" not in found.stdout


def test_what_cannot_be_read_is_left_out_and_said(hub):
    hub.put(with_field(hubs.documents("topology.yaml")[3], "spec.capacity", "much"))
    found = hub.run("links")
    assert "warning: WanLink west-central is left out: WanLink: spec.capacity" in found.stderr
    assert "dc-west to" not in found.stdout


def test_top_goes_on_with_watch_until_it_is_interrupted(hub, monkeypatch):
    shown = []

    def paused(seconds):
        shown.append(seconds)
        if len(shown) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(top.time, "sleep", paused)
    found = hub.run("top", "jobs", "-w", "--interval", "5s")
    assert found.exit_code == 130
    assert found.stdout.count("Jobs") == 3
    assert shown == [5.0] * 3


def test_a_terminal_is_cleared_between_two_looks(hub, monkeypatch):
    monkeypatch.setattr(top.screen, "is_terminal", lambda: True)
    monkeypatch.setattr(top.time, "sleep", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    assert hub.run("top", "jobs", "-w").stdout.startswith("\x1b[H\x1b[2J")


def test_gpus_that_somebody_has_are_used():
    manifest = hubs.documents("topology.yaml")[0]
    gpus = {"capacity": 16, "allocatable": 8, "free": 3}
    status = {"gpus": gpus, "nodes": 2, "lastContact": hubs.TIME,
              "conditions": [hubs.condition("Reachable", "True", "Contacted")]}  # fmt: skip
    center = DataCenter.from_manifest({**manifest, "status": status})
    table = top.tables(top.Seen(centers=[center]), NOW, wide=True, many=False)
    assert next(iter(table)).rows[0][:8] == (
        "dc-west", "True", "2", "16", "5", "3", "-", "60m",
    )  # fmt: skip
    assert top.document(top.Seen(centers=[center]))["dataCenters"][0]["usedGpus"] == 5


def test_a_pool_of_which_nothing_is_known_is_shown():
    new = PrefillPool.from_manifest(prefill_pool(namespace="team-a"))
    table = next(iter(top.tables(top.Seen(pools=[new]), NOW, wide=True, many=True)))
    assert table.rows[0][:8] == ("team-a", "llama", "-", "New", "0/0", "-", "-", "-")
    assert top.by_job([new]) == {}
    idle = PrefillPool.from_manifest(pool(bubbleSeconds={"offered": 0, "used": 0}))
    table = next(iter(top.tables(top.Seen(pools=[idle, idle]), NOW, wide=False, many=False)))
    assert table.rows[0][4] == "0s/0s"
    assert top.by_job([idle, idle])["team-a", "gpt"].offered == 0


def test_a_time_of_another_version_is_none():
    status = hubs.running(PLAN, iterationTime="soon")
    job = GeoTrainingJob.from_manifest({**hubs.documents("job.yaml")[0], "status": status})
    assert top.measured_time(job) is None
    assert top.busy(job) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0s"), (59.9, "59s"), (119, "119s"), (120, "2m"), (7200, "2h"), (172800, "2d")],
)
def test_ages_are_written_as_kubectl_does(seconds, text):
    assert answer.age(seconds) == text


@pytest.mark.parametrize(("text", "said"), [("soon", "is not a duration"), ("0s", "above 0")])
def test_a_time_that_is_none_names_its_option(text, said):
    with pytest.raises(InputError, match=said):
        answer.duration("--interval", text)


@pytest.mark.parametrize(
    ("name", "namespace", "said"),
    [
        ("gtp", "", "there is no GeoTrainingJob 'gtp' in namespace team-a; did you mean gpt?"),
        ("llama", "", "in namespace team-a; there is one in namespace team-b (-n)"),
        ("x", "", "in namespace team-a; there is gpt"),
        ("x", "team-c", "in namespace team-c; there are jobs in team-a, team-b"),
    ],
)
def test_an_unknown_job_is_answered_with_what_may_be_meant(hub, name, namespace, said):
    where = ["-n", namespace] if namespace else []
    found = hub.run("explain", name, *where)
    assert isinstance(found.exception, InputError)
    assert str(found.exception).endswith(said)


def test_all_namespaces_find_a_job_or_ask_which(hub):
    assert hub.run("explain", "llama", "-A", "--no-members").exit_code == 0
    again = with_field(hubs.documents("job.yaml")[0], "metadata.namespace", "team-c")
    hub.put(again)
    found = hub.run("explain", "gpt", "-A")
    assert "several namespaces have a job gpt (team-a, team-c); choose" in str(found.exception)
    assert "'nope'; there is gpt, llama" in str(hub.run("explain", "nope", "-A").exception)


def test_whoever_may_only_see_a_namespace_is_answered_from_it(hub):
    hub.fail_next("list", Forbidden("not all"))
    assert str(hub.run("explain", "gtp").exception).endswith("did you mean gpt?")


def test_whoever_may_see_no_jobs_at_all_is_offered_none(hub):
    hub.fail_next("list", Forbidden("not all"), times=2)
    assert str(hub.run("explain", "gtp").exception).endswith("'gtp' in namespace team-a")


def test_a_cluster_without_geotrain_is_no_hub(hub):
    hub.fail_next("list", NotFound("404"))
    said = str(hub.run("links").exception)
    assert said == "context hub: geotrain is not installed there, or it is no hub"


def test_a_hub_without_jobs_has_none_to_offer(live):
    found = live.run("explain", "gpt")
    assert str(found.exception) == "there is no GeoTrainingJob 'gpt' in namespace team-a"


def test_a_name_of_kubectl_is_a_job_too(hub):
    for name in ("gtj/gpt", "geotrainingjob.geotrain.io/gpt"):
        assert hub.run("explain", name, "--no-members").stdout.startswith("team-a/gpt: Running")


def test_the_plan_is_replayed_from_what_the_hub_keeps(hub):
    hub.put(hubs.ledger(INPUTS))
    found = json.loads(listed(hub.run("explain", "gpt", "--no-members", "-o", "json")))
    slow = found["sections"][-1]
    assert any("(by replay)" in each["sentence"] for each in slow["findings"])
    plain = json.loads(
        listed(hub.run("explain", "gpt", "--no-members", "--no-replay", "-o", "json"))
    )
    assert not any("(by replay)" in f["sentence"] for f in plain["sections"][-1]["findings"])


def test_the_version_of_the_controller_is_asked_of_the_hub(hub):
    labels = {"app.kubernetes.io/name": "geotrain", "app.kubernetes.io/component": "controller"}
    hub.put({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "geotrain-controller", "namespace": "geotrain-system",
                     "labels": {**labels, "app.kubernetes.io/version": "9.8.7"}},
    })  # fmt: skip

    async def version():
        return "v1.37.2"

    hub.version = version
    assert listed(hub.run("version")).splitlines()[1:] == ["controller 9.8.7", "kubernetes v1.37.2"]
    found = json.loads(listed(hub.run("version", "-o", "json")))
    assert found["controller"] == "9.8.7"
    assert len(listed(hub.run("version", "--client")).splitlines()) == 1
    hub.fail_next("list", Forbidden("no"), times=2)
    assert "controller unknown" in listed(hub.run("version"))


def test_a_hub_that_does_not_answer_is_a_courtesy_left_out(hub):
    hub.down = True
    assert len(listed(hub.run("version")).splitlines()) == 1
    assert hub.run("version", "--context", "hub").exit_code != 0
