import asyncio
import json
import time

import pytest

from integration.router.conftest import observed, until
from support.prefill_worker import FakeWorker, workers


@pytest.fixture
async def pair():
    async with workers(FakeWorker(layer=0.05), FakeWorker(layer=0.05)) as fakes:
        yield sorted(fakes, key=lambda fake: fake.url)


async def test_a_worker_that_dies_at_work_loses_no_request(router, pair):
    dying, other = pair
    client = await router(*pair)
    calls = [asyncio.create_task(client.complete()) for _ in range(4)]
    await until(lambda: dying.seen)
    await dying.stop()
    answers = await asyncio.gather(*calls)
    assert [response.status for response, _ in answers] == [200] * 4
    assert len({body["id"] for _, body in answers}) == 4
    assert {response.headers["x-geotrain-worker"] for response, _ in answers} == {other.url}
    stats = await client.stats()
    assert (stats["admitted"], stats["served"], stats["failed"]) == (4, 4, 0)
    assert stats["retried"] >= 1


async def test_a_busy_worker_is_passed_over(router, pair):
    busy, other = pair
    busy.behaviour.status = 503
    client = await router(*pair)
    response, _ = await client.complete()
    assert response.status == 200
    assert response.headers["x-geotrain-worker"] == other.url
    assert len(busy.seen) == 1


async def test_a_worker_that_hangs_is_given_up_before_the_timeout(router, pair):
    hanging, other = pair
    client = await router(*pair, timeout=30.0, objective=5.0)
    hanging.behaviour.is_hanging = True
    begin = time.monotonic()
    response, _ = await client.complete()
    assert response.status == 200
    assert response.headers["x-geotrain-worker"] == other.url
    assert time.monotonic() - begin < 10.0


async def test_a_request_waits_for_a_worker_that_comes_back(router):
    async with workers(FakeWorker()) as (fake,):
        client = await router(fake)
        fake.behaviour.status = 503
        call = asyncio.create_task(client.complete())
        await asyncio.sleep(0.3)
        assert not call.done()
        fake.behaviour.status = None
        response, _ = await call
        assert response.status == 200


async def test_what_no_worker_finishes_ends_with_the_timeout(router):
    async with workers(FakeWorker()) as (fake,):
        client = await router(fake, timeout=0.6)
        fake.behaviour.status = 500
        response, body = await client.complete()
        assert response.status == 504
        assert body["error"]["type"] == "timeout_error"
        assert "within 0.6s" in body["error"]["message"]


async def test_a_prefill_that_takes_too_long_is_ended(router):
    async with workers(FakeWorker(layer=0.5)) as (fake,):
        client = await router(fake, timeout=0.4)
        response, _ = await client.complete()
        assert response.status == 504
        fleet = client.running.face.service.fleet
        await until(lambda: not fleet.workers[fake.url].book)


async def test_a_prompt_that_the_worker_refuses_is_not_tried_elsewhere(router, pair):
    for fake in pair:
        fake.behaviour.status = 413
    client = await router(*pair)
    response, body = await client.complete()
    assert response.status == 400
    assert "refused the prompt (413)" in body["error"]["message"]
    assert sum(len(fake.seen) for fake in pair) == 1


async def test_a_client_that_goes_away_frees_its_bubbles(router, pair):
    client = await router(*pair)
    call = asyncio.create_task(client.complete())
    await until(lambda: pair[0].seen)
    call.cancel()
    async with asyncio.timeout(30):
        while (await client.stats())["cancelled"] != 1:
            await asyncio.sleep(0.01)
    stats = await client.stats()
    assert stats["inFlight"] == 0
    assert [worker["queue"] for worker in stats["workers"]] == [0, 0]
    assert client.running.face.open == 0


async def test_the_list_of_workers_may_change(router, pair, tmp_path):
    path = tmp_path / "workers.json"
    path.write_text(json.dumps({"workers": [{"url": pair[0].url, "dataCenter": "a", "rank": 0}]}))
    client = await router(workers=str(path))
    await observed(client.running, pair[0].url)
    path.write_text("{half")
    await asyncio.sleep(0.1)
    assert (await client.complete())[0].headers["x-geotrain-worker"] == pair[0].url
    path.write_text(json.dumps({"workers": [{"url": pair[1].url + "/"}]}))
    await observed(client.running, pair[1].url)
    assert (await client.complete())[0].headers["x-geotrain-worker"] == pair[1].url
    assert [worker["url"] for worker in (await client.stats())["workers"]] == [pair[1].url]


async def test_a_worker_that_is_taken_off_the_list_finishes_what_it_has(router, pair, tmp_path):
    path = tmp_path / "workers.json"
    path.write_text(json.dumps({"workers": [{"url": pair[0].url}]}))
    client = await router(workers=str(path))
    await observed(client.running, pair[0].url)
    call = asyncio.create_task(client.complete())
    await until(lambda: pair[0].seen)
    path.write_text(json.dumps({"workers": [{"url": pair[1].url}]}))
    response, _ = await call
    assert response.headers["x-geotrain-worker"] == pair[0].url
    assert (await client.stats())["retried"] == 0


async def test_too_many_open_requests_are_refused(router, pair):
    client = await router(*pair, concurrency=1)
    first = asyncio.create_task(client.complete())
    await until(lambda: pair[0].seen)
    response, body = await client.complete()
    assert response.status == 429
    assert body["error"]["code"] == "TooManyRequests"
    assert (await first)[0].status == 200


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 400, "not JSON"),
        (b'{"model": "other", "prompt": "x"}', 404, "does not exist"),
        (b'{"model": "m", "prompt": "' + b"x" * 5000 + b'"}', 413, "Too Large"),
    ],
)
async def test_a_wrong_request_is_answered_in_openai_shape(router, pair, body, status, words):
    client = await router(*pair, body_limit=4096)
    async with client.session.post(f"{client.url}/v1/completions", data=body) as response:
        assert response.status == status
        assert words in (await response.json())["error"]["message"]


async def test_an_unknown_path_is_answered_in_openai_shape(router):
    client = await router()
    status, text = await client.get("/v1/nothing")
    assert status == 404
    assert json.loads(text)["error"]["type"] == "invalid_request_error"
