"""Placing pods for real: kube-apiserver, kube-scheduler, kwok's nodes and our extender."""

from typing import Any

import pytest

from geotrain.api import labels
from support.scheduling import prefill_manifest, rank_manifest

pytestmark = pytest.mark.controlplane


def test_a_gang_binds_where_its_data_centres_are_and_keeps_together(bed: Any) -> None:
    for center in ("gang-east", "gang-west"):
        for number in range(3):
            bed.add_node(f"{center}-{number}", center, gpu="4")
    gang = [rank_manifest(n, "gang-east" if n < 4 else "gang-west", gated=True) for n in range(8)]
    bed.create(*gang)
    names = [pod["metadata"]["name"] for pod in gang]
    assert not any(pod["spec"].get("nodeName") for pod in bed.pods().values())
    for name in names:
        bed.lift_gate(name)
    nodes = bed.nodes_of(*names)
    assert len(set(nodes[:4])) == len(set(nodes[4:])) == 1  # four fit on one node
    assert nodes[0].startswith("gang-east")
    assert nodes[4].startswith("gang-west")


def test_other_pods_are_never_sent_to_the_extender(bed: Any) -> None:
    bed.add_node("others-0", "others")
    pod = rank_manifest(0, "others", job="others")
    resources = pod["spec"]["containers"][0]["resources"]
    for amounts in resources.values():
        amounts.pop(labels.MANAGED_RESOURCE)
    before = bed.extender.metric("geotrain_extender_seconds_count", verb="filter")
    bed.create(pod)
    assert bed.nodes_of("others-r0") == ["others-0"]
    assert bed.extender.metric("geotrain_extender_seconds_count", verb="filter") == before
    bed.create(rank_manifest(1, "others", job="others"))
    assert bed.nodes_of("others-r1") == ["others-0"]
    assert bed.extender.metric("geotrain_extender_seconds_count", verb="filter") == before + 1


def test_a_rank_too_many_for_its_data_centre_goes_nowhere_else(bed: Any) -> None:
    bed.add_node("small-0", "small", gpu="1")
    bed.create(rank_manifest(0, "small", job="large"))
    bed.nodes_of("large-r0")
    bed.create(rank_manifest(1, "small", job="large"))
    bed.refusal("large-r1", "1 Insufficient example.com/gpu")
    assert "nodeName" not in bed.pods()["large-r1"]["spec"]


def test_prefill_waits_for_its_rank_and_lands_beside_it(bed: Any) -> None:
    for number in range(3):
        bed.add_node(f"beside-{number}", "beside")
    workers = [prefill_manifest(n, job="host", center="beside") for n in range(2)]
    bed.create(*workers)
    bed.refusal("pool-beside-0", "rank 0 of host runs on no node")
    bed.create(rank_manifest(0, "beside", job="host"))
    host, worker = bed.nodes_of("host-r0", "pool-beside-0")
    assert worker == host
    bed.refusal("pool-beside-1", "rank 0 of host has 1 of at most 1 prefill workers")
    assert "nodeName" not in bed.pods()["pool-beside-1"]["spec"]


def test_prefill_leaves_when_training_needs_its_cpu(bed: Any) -> None:
    bed.add_node("evict-0", "evict", cpu="4")
    bed.create(rank_manifest(0, "evict", job="lord"))
    bed.nodes_of("lord-r0")
    bed.create(prefill_manifest(0, job="lord", center="evict", cpu="3"))
    assert bed.nodes_of("pool-evict-0") == ["evict-0"]
    bed.create(rank_manifest(0, "evict", job="guest", cpu="2"))
    assert bed.nodes_of("guest-r0") == ["evict-0"]
    pods = bed.pods()
    assert "pool-evict-0" not in pods
    assert pods["lord-r0"]["spec"]["nodeName"] == "evict-0"
    assert bed.extender.metric("geotrain_extender_nodes_total", verb="preempt", verdict="passed")


@pytest.mark.parametrize("kind", ["training", "stranger"])
def test_nobody_else_leaves_even_at_lower_priority(bed: Any, kind: str) -> None:
    center = f"keep-{kind}"
    bed.add_node(f"{center}-0", center, cpu="2")
    sitting = rank_manifest(0, center, job=center, cpu="2")
    sitting["spec"]["priorityClassName"] = "low"
    if kind == "stranger":
        sitting["metadata"]["labels"] = {}
        sitting["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    bed.create(sitting)
    bed.nodes_of(f"{center}-r0")
    series = {"name": "geotrain_extender_nodes_total", "verb": "preempt", "verdict": "failed"}
    before = bed.extender.metric(**series)
    bed.create(rank_manifest(0, center, job=f"late-{kind}"))
    bed.refusal(f"late-{kind}-r0", "Insufficient cpu")
    assert bed.extender.metric(**series) > before
    pods = bed.pods()
    assert "deletionTimestamp" not in pods[f"{center}-r0"]["metadata"]
    assert "nodeName" not in pods[f"late-{kind}-r0"]["spec"]


def test_prefill_leaves_free_what_a_gated_gang_waits_for(bed: Any) -> None:
    bed.add_node("wait-0", "wait", cpu="4")
    bed.create(rank_manifest(0, "wait", job="first"))
    bed.nodes_of("first-r0")
    bed.create(rank_manifest(0, "wait", job="second", cpu="3", gated=True))
    bed.create(prefill_manifest(0, job="first", center="wait"))
    bed.refusal("pool-wait-0", "no room but what waiting training needs")
    bed.plane.kubectl("delete", "pod", "second-r0", "-n", "team-a")
    assert bed.nodes_of("pool-wait-0") == ["wait-0"]


def test_without_the_extender_pods_wait_and_say_why(bed: Any) -> None:
    bed.add_node("down-0", "down")
    assert bed.extender.stop() == 0
    try:
        bed.create(rank_manifest(0, "down", job="down"))
        bed.refusal("down-r0", rf"127.0.0.1:{bed.extender.port}.*connection refused")
        assert "nodeName" not in bed.pods()["down-r0"]["spec"]
    finally:
        bed.extender.start()
    assert bed.nodes_of("down-r0") == ["down-0"]


def test_it_is_not_ready_while_the_api_server_is_away_and_comes_back(bed: Any) -> None:
    bed.add_node("back-0", "back")
    bed.plane.kill("kube-apiserver")
    bed.eventually(lambda: not bed.extender.ready())
    bed.plane.start("kube-apiserver")
    bed.eventually(bed.extender.ready)
    bed.create(rank_manifest(0, "back", job="back"))
    assert bed.nodes_of("back-r0") == ["back-0"]
