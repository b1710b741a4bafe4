"""Probes are started, asked and taken away, whatever happens in between."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import pytest

from geotrain.api.objects import PODS, Object
from geotrain.cli import connectivity, findings, probes
from geotrain.cli.connectivity import Place
from geotrain.cli.probes import Image
from geotrain.cli.sites import Site
from geotrain.errors import ClusterError, Forbidden, Unreachable
from support.fakes import FakeCluster

NAMESPACE = "geotrain-system"
IMAGE = Image("x")
PAIR = [("dc-west", "dc-east")]


class Member(FakeCluster):
    """A cluster whose kubelet starts probes at once, and whose network lets some ways through."""

    def __init__(self, name: str, address: str, blocked: bool = False) -> None:
        super().__init__(name)
        self.address, self.blocked = address, blocked
        self.starts = True
        self.peers: dict[str, str] = {}  # address → pod, of both clusters
        self.asked = asyncio.Event()
        self.hangs = False
        self.fault: ClusterError | None = None

    async def create(self, resource: Any, manifest: Object, *, subresource: str = "") -> Object:
        made = await super().create(resource, manifest, subresource=subresource)
        if self.starts:
            self.put({**made, "status": {"phase": "Running", "podIP": self.address}})
            self.peers[self.address] = made["metadata"]["name"]
        return made

    async def pod_proxy_get(self, namespace: str, pod: str, port: int, path: str) -> Object:
        self.asked.set()
        if self.hangs:
            await asyncio.sleep(60)
        if self.fault is not None:
            raise self.fault
        target = path.partition("address=")[2].partition("&")[0]
        if self.blocked:
            return {"fault": "timeout", "said": "no answer within 5 s"}
        return {"name": self.peers[target]}


def members(**options: Any) -> dict[str, Member]:
    west = Member("west", "10.1.0.5", **options)
    east = Member("east", "10.2.0.5")
    east.peers = west.peers
    return {"dc-west": west, "dc-east": east}


def places(clusters: Mapping[str, Member], image: Image | None = IMAGE) -> dict[str, Place]:
    networks = {"dc-west": "10.1.0.0/16", "dc-east": "10.2.0.0/16"}
    return {
        name: Place(cluster, Site(name, declared=(networks[name],)), NAMESPACE, image)  # type: ignore[arg-type]
        for name, cluster in clusters.items()
    }


def left(clusters: Mapping[str, Member]) -> list[Object]:
    return [pod for cluster in clusters.values() for pod in cluster.everything(PODS)]


async def test_both_ways_are_tried_and_nothing_is_left() -> None:
    clusters = members()
    found = await connectivity.between(places(clusters), PAIR)
    assert [each.level for each in found] == [findings.Level.OK] * 2
    assert left(clusters) == []


async def test_a_blocked_way_is_named() -> None:
    clusters = members(blocked=True)
    (error,) = findings.errors(await connectivity.between(places(clusters), PAIR))
    assert "pods of dc-west to pods of dc-east: no connection" in error.message
    assert left(clusters) == []


async def test_an_interrupted_run_leaves_nothing() -> None:
    clusters = members()
    clusters["dc-west"].hangs = True
    task = asyncio.create_task(connectivity.between(places(clusters), PAIR))
    await clusters["dc-west"].asked.wait()
    assert len(left(clusters)) == 2
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert left(clusters) == []


async def test_a_run_that_is_interrupted_while_pods_start_leaves_nothing() -> None:
    clusters = members()
    for each in clusters.values():
        each.starts = False
    task = asyncio.create_task(connectivity.between(places(clusters), PAIR))
    while len(left(clusters)) < 2:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert left(clusters) == []


async def test_a_probe_that_may_not_run_is_told_and_the_other_goes() -> None:
    clusters = members()
    clusters["dc-west"].fail_next("create", Forbidden("violates PodSecurity"))
    (found,) = await connectivity.between(places(clusters), PAIR)
    assert "the probe in dc-west does not run: violates PodSecurity" in found.message
    assert left(clusters) == []


async def test_a_probe_that_ends_or_goes_away_is_told() -> None:
    clusters = members()
    clusters["dc-west"].starts = False
    task = asyncio.create_task(connectivity.between(places(clusters), PAIR))
    while not clusters["dc-west"].everything(PODS):
        await asyncio.sleep(0)
    (pod,) = clusters["dc-west"].everything(PODS)
    ended = {"state": {"terminated": {"exitCode": 2}}}
    clusters["dc-west"].put({**pod, "status": {"phase": "Failed", "containerStatuses": [ended]}})
    (found,) = await task
    assert "upgrade the chart" in found.message


async def test_an_api_server_that_reaches_no_pods_is_told() -> None:
    clusters = members()
    clusters["dc-east"].fault = Unreachable("no endpoints")
    found = await connectivity.between(places(clusters), PAIR)
    assert "the API server of dc-east does not reach pods" in found[1].message
    assert found[1].level is findings.Level.WARNING


async def test_without_an_image_nothing_is_started() -> None:
    clusters = members()
    (found,) = await connectivity.between(places(clusters, image=None), PAIR)
    assert "geotrain is not installed there, so its image is not known" in found.message
    assert not [call for cluster in clusters.values() for call in cluster.calls]


async def test_what_a_killed_run_left_is_taken_away() -> None:
    clusters = members()
    image, place = Image("x"), ({}, [])
    for name, made in (("old", "2026-01-01T00:00:00Z"), ("new", None)):
        pod = probes.pod(name, NAMESPACE, "k", image, place)  # type: ignore[arg-type]
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        pod["metadata"]["creationTimestamp"] = made or now
        clusters["dc-west"].put(pod)
    await connectivity.between(places(clusters), PAIR)
    assert [pod["metadata"]["name"] for pod in left(clusters)] == ["new"]
