"""The extender's HTTP side, over loopback, with an occupancy made by hand."""

import pytest
from aiohttp.test_utils import TestClient, TestServer

from geotrain.api.facts import node_from_manifest, pod_from_manifest
from geotrain.fitting import Occupancy
from geotrain.roles.extender.routes import Routes
from support.scheduling import node_manifest, prefill_manifest, rank_manifest


class Known:
    """A mirror that shows what it is given."""

    synced = True

    def __init__(self, nodes=(), pods=()):
        self.occupancy = Occupancy(map(node_from_manifest, nodes), map(pod_from_manifest, pods))


async def asked(mirror, verb, document):
    async with TestClient(TestServer(Routes(mirror).application())) as client:
        answer = await client.post(f"/{verb}", json=document)
        text = await answer.text()
        document = await answer.json() if answer.content_type == "application/json" else None
        metrics = await (await client.get("/metrics")).text()
    return answer.status, document, text, metrics


def named(pod, *names):
    return {"Pod": pod, "NodeNames": list(names)}


async def test_filter():
    mirror = Known([node_manifest("a"), node_manifest("b", "dc-west")])
    status, answer, _, metrics = await asked(mirror, "filter", named(rank_manifest(0), "a", "b"))
    assert status == 200
    assert answer["NodeNames"] == ["a"]
    assert answer["FailedAndUnresolvableNodes"] == {"b": "node is in dc-west, not in dc-east"}
    assert 'geotrain_extender_nodes_total{verb="filter",verdict="failed"} 1.0' in metrics
    assert 'geotrain_extender_seconds_count{verb="filter"} 1.0' in metrics


async def test_filter_with_whole_nodes():
    nodes = [node_manifest("a"), node_manifest("b", "dc-west")]
    question = {"Pod": rank_manifest(0), "Nodes": {"items": nodes}, "NodeNames": None}
    _, answer, _, _ = await asked(Known(nodes), "filter", question)
    assert [node["metadata"]["name"] for node in answer["Nodes"]["items"]] == ["a"]


async def test_prioritize():
    mirror = Known([node_manifest("a"), node_manifest("b")], [rank_manifest(0, node="b")])
    status, answer, _, _ = await asked(mirror, "prioritize", named(rank_manifest(2), "a", "b"))
    assert status == 200
    scores = {each["Host"]: each["Score"] for each in answer}
    assert scores["b"] > scores["a"]


def victims(**by_node):
    return {
        node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0}
        for node, uids in by_node.items()
    }


async def test_preempt_keeps_only_nodes_where_prefill_alone_leaves():
    pods = [
        prefill_manifest(0, node="a", metadata={"uid": "p"}),
        rank_manifest(1, node="b", metadata={"uid": "r"}),
    ]
    question = {
        "Pod": rank_manifest(0),
        "NodeNameToMetaVictims": victims(a=["p"], b=["p", "r"], c=["unknown"]),
    }
    status, answer, _, metrics = await asked(Known(pods=pods), "preempt", question)
    assert status == 200
    assert answer == {"NodeNameToMetaVictims": victims(a=["p"])}
    assert 'geotrain_extender_nodes_total{verb="preempt",verdict="failed"} 2.0' in metrics


async def test_before_the_lists_are_complete_nothing_is_let_through():
    mirror = Known([node_manifest("a")])
    mirror.synced = False
    status, answer, _, metrics = await asked(mirror, "filter", named(rank_manifest(0), "a"))
    assert status == 200
    assert answer == {"Error": "geotrain extender: nodes and pods are not all seen yet; try again"}
    assert 'geotrain_extender_errors_total{reason="NotSynced",verb="filter"} 1.0' in metrics
    for verb in ("prioritize", "preempt"):
        status, answer, _, _ = await asked(mirror, verb, named(rank_manifest(0), "a"))
        assert (status, answer) == (503, None)


@pytest.mark.parametrize("verb", ["prioritize", "preempt"])
async def test_a_bad_question_is_told_so(verb):
    status, _, text, metrics = await asked(Known(), verb, {"Pod": 1})
    assert (status, text) == (400, "Pod is no JSON object")
    assert f'geotrain_extender_errors_total{{reason="BadRequest",verb="{verb}"}} 1.0' in metrics


async def test_a_body_that_is_no_json():
    async with TestClient(TestServer(Routes(Known()).application())) as client:
        answer = await client.post("/filter", data=b"{")
        assert "the body is not JSON" in (await answer.json())["Error"]


async def test_a_fault_of_ours_lets_nothing_through_and_does_not_leak(caplog):
    mirror = Known()
    mirror.occupancy = None
    _, answer, _, metrics = await asked(mirror, "filter", named(rank_manifest(0), "a"))
    assert answer == {"Error": "geotrain extender: a fault in the extender; its log says which"}
    assert 'geotrain_extender_errors_total{reason="Fault",verb="filter"} 1.0' in metrics
    assert "Traceback" in caplog.text


async def test_probes():
    mirror = Known()
    async with TestClient(TestServer(Routes(mirror).application())) as client:
        assert (await client.get("/healthz")).status == 200
        assert (await client.get("/readyz")).status == 200
        mirror.synced = False
        assert (await client.get("/healthz")).status == 200
        assert (await client.get("/readyz")).status == 503


async def test_whoever_may_ask_for_its_health_may_ask_for_nothing_else():
    async with TestClient(TestServer(Routes(Known()).health())) as client:
        assert (await client.get("/readyz")).status == 200
        assert (await client.get("/metrics")).status == 200
        assert (await client.post("/filter", json={})).status == 404
