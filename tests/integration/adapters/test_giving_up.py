"""Whoever is cancelled while it connects leaves no connection open."""

import asyncio
import gc
import warnings
from typing import Any

import pytest

from geotrain.adapters.cluster import HttpCluster
from geotrain.adapters.credentials import from_file
from geotrain.api.objects import PODS
from support.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane

MOMENTS = [0.0004 * number for number in range(100)]  # s; a watch has its connection after 20 ms


@pytest.fixture(scope="module")
def plane(control_plane_factory: Any) -> ControlPlane:
    started: ControlPlane = control_plane_factory()
    return started


async def cancelled_after(plane: ControlPlane, seconds: float) -> None:
    cluster = HttpCluster(from_file(plane.kubeconfig))

    async def watch() -> None:
        async for _ in cluster.watch(PODS):
            pass

    watches = [asyncio.create_task(watch()) for _ in range(2)]
    await asyncio.sleep(seconds)
    for each in watches:
        each.cancel()
    await asyncio.gather(*watches, return_exceptions=True)
    await cluster.close()


def test_a_watch_may_be_cancelled_at_any_moment(plane: ControlPlane) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for seconds in MOMENTS:
            asyncio.run(cancelled_after(plane, seconds))
        gc.collect()
    assert [str(each.message) for each in said] == []
