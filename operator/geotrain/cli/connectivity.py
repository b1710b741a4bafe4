"""Lets pods of data centres connect to each other, and takes the pods away whatever happens."""

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from geotrain.adapters.cluster import HttpCluster
from geotrain.api import labels
from geotrain.api.objects import PODS, Object
from geotrain.cli import probes
from geotrain.cli.findings import Finding
from geotrain.cli.probes import Answer, Image, Placed
from geotrain.cli.sites import Site
from geotrain.errors import ClusterError, GeotrainError, NotFound
from geotrain.units import Seconds

_START: Final[Seconds] = 60.0  # images are there already: the chart's own pods run them
_ASK: Final[Seconds] = 15.0
_REMOVE: Final[Seconds] = 15.0
_PAUSE: Final[Seconds] = 0.5


@dataclass(frozen=True, slots=True)
class Place:
    """Where a probe is to run."""

    cluster: HttpCluster
    site: Site
    namespace: str
    image: Image | None


async def between(places: Mapping[str, Place], pairs: Iterable[tuple[str, str]]) -> list[Finding]:
    """Connect in both directions between pairs of data centres."""
    key = secrets.token_hex(16)
    found: list[Finding] = []
    wanted, hopeless = _sorted(places, pairs)
    for one, other in hopeless:
        found += probes.judge(_unknown(places[one]), _unknown(places[other]), None, None)
    places = {name: places[name] for pair in wanted for name in pair}
    await asyncio.gather(*(_sweep(place) for place in places.values()))
    async with contextlib.AsyncExitStack() as stack:
        started = await asyncio.gather(
            *(stack.enter_async_context(_probe(place, key)) for place in places.values())
        )
        running = {each.data_center: each for each in started}
        for name, placed in running.items():
            found += probes.outside(placed, places[name].site.networks.cidrs)
        answers = await asyncio.gather(*(_pair(places, running, pair, key) for pair in wanted))
        return found + [finding for each in answers for finding in each]


def _sorted(
    places: Mapping[str, Place], pairs: Iterable[tuple[str, str]]
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Pairs that can be tried, and those of which one side has no image to run."""
    wanted: list[tuple[str, str]] = []
    hopeless: list[tuple[str, str]] = []
    for pair in pairs:
        known = all(places[name].image is not None for name in pair)
        (wanted if known else hopeless).append(pair)
    return wanted, hopeless


def _unknown(place: Place) -> Placed:
    fault = "" if place.image else "geotrain is not installed there, so its image is not known"
    return Placed(place.site.name, fault=fault)


async def _pair(
    places: Mapping[str, Place], running: Mapping[str, Placed], pair: tuple[str, str], key: str
) -> list[Finding]:
    one, other = running[pair[0]], running[pair[1]]
    if one.fault or other.fault:
        return probes.judge(one, other, None, None)
    there, back = await asyncio.gather(
        _ask(places[pair[0]], one, other, key), _ask(places[pair[1]], other, one, key)
    )
    return probes.judge(one, other, there, back)


async def _ask(place: Place, source: Placed, target: Placed, key: str) -> Answer | None:
    question = probes.question(key, target)
    try:
        async with asyncio.timeout(_ASK):
            said = await place.cluster.pod_proxy_get(
                place.namespace, source.pod, labels.PORT_STATUS, question
            )
    except (ClusterError, TimeoutError):
        return None
    return Answer(str(said.get("name", "")), str(said.get("fault", "")), str(said.get("said", "")))


async def _sweep(place: Place) -> None:
    """Take away what a run that was killed left."""
    with contextlib.suppress(ClusterError):
        for pod in await place.cluster.list(PODS, place.namespace, probes.SELECTOR):
            if probes.is_stale(pod, time.time()):
                await _removed(place, pod["metadata"]["name"])


@contextlib.asynccontextmanager
async def _probe(place: Place, key: str) -> AsyncIterator[Placed]:
    """A probe for the length of the block, which it never outlives."""
    name = f"{probes.PREFIX}{secrets.token_hex(4)}"
    try:
        yield await _started(place, name, key)
    finally:
        await asyncio.shield(_removed(place, name))


async def _started(place: Place, name: str, key: str) -> Placed:
    assert place.image is not None, "only pairs that can be tried come here"
    where = (place.site.selector, probes.tolerations(place.site.nodes))
    wanted = probes.pod(name, place.namespace, key, place.image, where)
    try:
        await place.cluster.create(PODS, wanted)
        return await _running(place, name)
    except GeotrainError as error:
        return Placed(place.site.name, fault=str(error))


async def _running(place: Place, name: str) -> Placed:
    loop = asyncio.get_running_loop()
    end = loop.time() + _START
    while True:
        pod = await _found(place, name)
        address = probes.address_of(pod)
        if address:
            return Placed(place.site.name, name, address)
        if probes.has_ended(pod):
            return Placed(place.site.name, fault=probes.trouble(pod))
        if loop.time() > end:
            said = f"not ready within {_START:g} s: {probes.trouble(pod)}"
            return Placed(place.site.name, fault=said)
        await asyncio.sleep(_PAUSE)


async def _found(place: Place, name: str) -> Object:
    """Listed, because our account may not get single pods."""
    for pod in await place.cluster.list(PODS, place.namespace, probes.SELECTOR):
        if pod["metadata"]["name"] == name:
            return pod
    raise NotFound(f"the pod {place.namespace}/{name} was deleted")


async def _removed(place: Place, name: str) -> None:
    """Also where its creation was cut off, for the server may have made it all the same."""
    with contextlib.suppress(ClusterError, TimeoutError):
        async with asyncio.timeout(_REMOVE):
            with contextlib.suppress(NotFound):
                await place.cluster.delete(PODS, place.namespace, name, grace=0)
