"""What API servers do in trouble, played by a small HTTP server: 410, 429, cut streams, silence."""

import asyncio
import json
from collections import deque

import pytest
from aiohttp import web

from geotrain.adapters import credentials
from geotrain.adapters.cluster import HttpCluster
from geotrain.api.objects import CONFIG_MAPS
from geotrain.errors import ClusterError, Forbidden, TooManyRequests, Unreachable
from support.controlplane import free_ports


class Server:
    """Answers requests from a script; ``asked`` keeps what was asked."""

    def __init__(self):
        self.script = deque()
        self.asked = []

    async def answer(self, request):
        self.asked.append((request.method, request.path, dict(request.query)))
        return await self.script.popleft()(request)

    def says(self, *answers):
        self.script.extend(answers)


@pytest.fixture
async def server():
    made = Server()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", made.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield made
    await runner.cleanup()


@pytest.fixture
async def cluster(server, monkeypatch):
    monkeypatch.setattr("geotrain.adapters.cluster._RESUME_PAUSE", 0.0)
    monkeypatch.setattr("geotrain.adapters.cluster._FIRST_PAUSE", 0.01)
    made = HttpCluster(credentials.from_document(kubeconfig(server.url)))
    yield made
    await made.close()


def kubeconfig(url):
    return {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    }


def config_map(name, version):
    return {"metadata": {"name": name, "namespace": "a", "resourceVersion": version}}


def listing(version, *items, more=""):
    async def answer(_):
        meta = {"resourceVersion": version, "continue": more}
        return web.json_response({"metadata": meta, "items": list(items)})

    return answer


def status(code, message="no", **headers):
    async def answer(_):
        body = {"kind": "Status", "message": message, "code": code}
        return web.json_response(body, status=code, headers=headers)

    return answer


def stream(*events, cut=None, rest=b""):
    """A watch's answer; where there is an event ``cut``, it is aborted when that is set."""

    async def answer(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for kind, found in events:
            await response.write(json.dumps({"type": kind, "object": found}).encode() + b"\n")
        await response.write(rest)
        if cut:
            await cut.wait()
            request.transport.abort()
        return response

    return answer


async def drop(request):
    request.transport.abort()
    return web.Response()


async def told(changes, number):
    found = [await asyncio.wait_for(anext(changes), 5) for _ in range(number)]
    return [(c.type, c.object.get("metadata", {}).get("name", "")) for c in found]


async def test_a_closed_watch_goes_on_from_the_last_version(server, cluster):
    server.says(
        listing("5", config_map("one", "3")),
        stream(("MODIFIED", config_map("one", "6"))),
        stream(("DELETED", config_map("one", "9"))),
        stream(),
    )
    changes = cluster.watch(CONFIG_MAPS)
    assert await told(changes, 4) == [
        ("ADDED", "one"),
        ("SYNCED", ""),
        ("MODIFIED", "one"),
        ("DELETED", "one"),
    ]
    await changes.aclose()
    assert [q.get("resourceVersion") for _, _, q in server.asked] == [None, "5", "6"]


@pytest.mark.parametrize("is_aborted", [False, True], ids=["ended", "aborted"])
async def test_half_a_line_of_a_cut_watch_is_dropped(server, cluster, is_aborted):
    # An abort takes with it what was not read yet.
    cut = asyncio.Event() if is_aborted else None
    server.says(
        listing("5"),
        stream(("ADDED", config_map("one", "6")), rest=b'{"type": "ADD', cut=cut),
        stream(("ADDED", config_map("two", "7"))),
        stream(),
    )
    changes = cluster.watch(CONFIG_MAPS)
    assert await told(changes, 2) == [("SYNCED", ""), ("ADDED", "one")]
    if cut:
        cut.set()
    assert await told(changes, 1) == [("ADDED", "two")]
    await changes.aclose()


async def test_a_bookmark_moves_the_version_and_is_not_told(server, cluster):
    server.says(
        listing("5"),
        stream(("BOOKMARK", config_map("", "70"))),
        stream(("ADDED", config_map("one", "71"))),
        stream(),
    )
    changes = cluster.watch(CONFIG_MAPS)
    assert await told(changes, 2) == [("SYNCED", ""), ("ADDED", "one")]
    await changes.aclose()
    assert server.asked[2][2]["resourceVersion"] == "70"


@pytest.mark.parametrize(
    "gone",
    [status(410), stream(("ERROR", {"code": 410, "message": "too old resource version"}))],
    ids=["answer", "event"],
)
async def test_an_expired_version_makes_a_watch_list_again(server, cluster, gone):
    server.says(
        listing("5", config_map("one", "3"), config_map("two", "4")),
        gone,
        listing("9", config_map("two", "4")),
        stream(("ADDED", config_map("three", "10"))),
        stream(),
    )
    changes = cluster.watch(CONFIG_MAPS)
    found = [await asyncio.wait_for(anext(changes), 5) for _ in range(6)]
    await changes.aclose()
    assert [c.type for c in found] == ["ADDED", "ADDED", "SYNCED", "ADDED", "SYNCED", "ADDED"]
    assert found[4].places == {("a", "two")}


async def test_a_watch_that_cannot_be_opened_is_an_error(server, cluster):
    server.says(listing("5"), status(403, "configmaps is forbidden"))
    changes = cluster.watch(CONFIG_MAPS)
    await anext(changes)
    with pytest.raises(Forbidden, match="configmaps is forbidden"):
        await anext(changes)


async def test_an_error_event_that_is_no_410_is_an_error(server, cluster):
    server.says(listing("5"), stream(("ERROR", {"code": 500, "message": "etcd is unwell"})))
    changes = cluster.watch(CONFIG_MAPS)
    await anext(changes)
    with pytest.raises(ClusterError, match="etcd is unwell"):
        await anext(changes)


async def test_too_many_requests_are_repeated_when_the_server_says(server, cluster):
    busy = status(429, "slow down", **{"Retry-After": "0"})
    server.says(busy, busy, listing("5", config_map("one", "3")))
    assert len(await cluster.list(CONFIG_MAPS)) == 1
    assert len(server.asked) == 3


async def test_too_many_requests_for_too_long_are_an_error(server, cluster):
    server.says(*[status(429, "slow down", **{"Retry-After": "0"})] * 5)
    with pytest.raises(TooManyRequests) as caught:
        await cluster.create(CONFIG_MAPS, config_map("one", ""))
    assert caught.value.retry_after == 0.0


async def test_a_broken_connection_is_tried_again_where_that_is_safe(server, cluster):
    server.says(drop, listing("5", config_map("one", "3")))
    assert len(await cluster.list(CONFIG_MAPS)) == 1
    server.says(drop)
    with pytest.raises(Unreachable):
        await cluster.create(CONFIG_MAPS, config_map("one", ""))


async def test_nobody_there_is_unreachable(server, cluster, unused_port):
    gone = HttpCluster(credentials.from_document(kubeconfig(f"http://127.0.0.1:{unused_port}")))
    with pytest.raises(Unreachable, match="does not answer"):
        await gone.get(CONFIG_MAPS, "a", "one")
    await gone.close()


@pytest.fixture
def unused_port():

    return free_ports(1)[0]


async def test_an_answer_that_is_no_json_is_an_error(server, cluster):
    async def html(_):
        return web.Response(text="<html>", content_type="text/html")

    server.says(html)
    with pytest.raises(ClusterError, match="not JSON"):
        await cluster.get(CONFIG_MAPS, "a", "one")


async def test_the_token_is_sent_and_never_shown(server, cluster):
    async def check(request):
        assert request.headers["Authorization"] == "Bearer secret"
        return web.json_response(config_map("one", "1"))

    server.says(check)
    await cluster.get(CONFIG_MAPS, "a", "one")
    assert "secret" not in repr(cluster)
