import asyncio
import itertools
import json

import pytest
from aiohttp import web

from integration.router.conftest import until
from support.prefill_worker import FakeWorker, workers


@pytest.fixture
async def worker():
    async with workers(FakeWorker()) as (fake,):
        yield fake


async def test_a_prompt_is_prefilled_and_answered_in_openai_shape(router, worker):
    client = await router(worker)
    response, body = await client.complete()
    assert response.status == 200
    assert body["object"] == "text_completion"
    assert body["model"] == "m"
    assert body["id"].startswith("cmpl-")
    assert body["choices"] == [
        {"text": "one", "index": 0, "logprobs": None, "finish_reason": "stop"}
    ]
    assert body["usage"] == {"prompt_tokens": 1000, "completion_tokens": 1, "total_tokens": 1001}
    assert worker.seen[0]["tokens"] == [1] * 1000
    assert response.headers["x-geotrain-worker"] == worker.url
    assert float(response.headers["x-geotrain-ttft"]) >= 0.010


async def test_a_text_prompt_is_sent_as_a_count(router, worker):
    client = await router(worker)
    _, body = await client.complete(prompt="x" * 4000)
    assert worker.seen[0]["count"] == 1000
    assert body["usage"]["prompt_tokens"] == 1000


async def test_several_prompts_give_a_choice_each(router, worker):
    client = await router(worker)
    _, body = await client.complete(prompt=["a", "b", "c"])
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2]
    assert len({seen["id"] for seen in worker.seen}) == 3
    assert (await client.stats())["served"] == 3


async def test_the_answer_streams_first_token_first(router, worker):
    decode = await Decode.start()
    try:
        client = await router(worker, decode_url=decode.url)
        body = {
            "model": "m",
            "prompt": [1] * 10,
            "max_tokens": 3,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        async with client.session.post(f"{client.url}/v1/completions", json=body) as response:
            assert response.content_type == "text/event-stream"
            lines = [line.decode().strip() async for line in response.content if line.strip()]
    finally:
        await decode.stop()
    assert lines[-1] == "data: [DONE]"
    events = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    texts = [event["choices"][0]["text"] for event in events[:-1]]
    assert texts == ["one", " two three", ""]
    assert events[2]["choices"][0]["finish_reason"] == "length"
    assert events[3]["usage"]["completion_tokens"] == 3


async def test_decode_goes_on_with_the_workers_keys_and_values(router, worker):
    decode = await Decode.start()
    try:
        client = await router(worker, decode_url=decode.url)
        _, body = await client.complete(max_tokens=3, temperature=0.5)
    finally:
        await decode.stop()
    assert body["choices"][0]["text"] == "one two three"
    (asked,) = decode.seen
    assert asked["kv"] == {"handle": body["id"], "bytes": 1, "worker": worker.url}
    assert asked["max_tokens"] == 2
    assert asked["sampling"] == {"temperature": 0.5}


async def test_a_decode_service_that_is_away_is_a_502(router, worker):
    client = await router(worker, decode_url="http://127.0.0.1:9")
    response, body = await client.complete()
    assert response.status == 502
    assert "decode service does not answer" in body["error"]["message"]
    assert (await client.stats())["failed"] == 1


async def test_a_prefill_runs_in_bubbles_and_spans_them(router):
    bubbles = FakeWorker(period=0.1, bubbles=[(0.02, 0.032), (0.06, 0.072)], layer=0.004, layers=5)
    async with workers(bubbles):
        client = await router(bubbles)
        response, _ = await client.complete(tokens=2000)
        assert response.status == 200
    spans = [span for _, *span in bubbles.computed]
    assert len(spans) == 5
    assert spans[-1][1] - spans[0][0] > 0.03, "it paused for the training in between"
    predicted = float(response.headers["x-geotrain-predicted-ttft"])
    assert 0.02 < predicted < 0.2, "three bubbles, two a period"


async def test_a_workers_own_clock_is_mapped_to_ours(router):
    far = FakeWorker(period=0.2, bubbles=[(0.0, 0.15)], clock_shift=-5000.0)
    async with workers(far):
        client = await router(far)
        response, _ = await client.complete()
    assert response.status == 200
    assert 0 < float(response.headers["x-geotrain-predicted-ttft"]) < 0.4


async def test_what_would_miss_the_objective_is_refused_with_a_time_to_retry(router, worker):
    worker.behaviour.layer = 0.1
    client = await router(worker, objective=0.6)
    admitted = asyncio.create_task(client.complete(tokens=50_000))
    await until(lambda: worker.seen)
    response, body = await client.complete(tokens=20_000)
    assert response.status == 429
    assert int(response.headers["Retry-After"]) >= 1
    assert body["error"]["code"] == "ObjectiveMissed"
    assert body["error"]["type"] == "rate_limit_error"
    assert "beyond the objective of 600ms; retry in 1s" in body["error"]["message"]
    assert (await admitted)[0].status == 200
    stats = await client.stats()
    assert (stats["admitted"], stats["served"], stats["refused"]) == (1, 1, 1)
    assert stats["refusals"] == {"ObjectiveMissed": 1}


async def test_without_workers_the_refusal_says_so(router):
    client = await router()
    response, body = await client.complete()
    assert response.status == 429
    assert response.headers["Retry-After"] == "5"
    assert body["error"]["code"] == "NoWorker"


async def test_a_request_with_one_prompt_too_many_books_nothing(router, worker):
    client = await router(worker, objective=0.025)
    response, _ = await client.complete(prompt=[[1] * 1000] * 3)
    assert response.status == 429
    assert not worker.seen
    assert (await client.complete())[0].status == 200


async def test_no_bubble_time_is_booked_twice_and_promises_are_kept(router):
    first, second = (FakeWorker(period=0.1, bubbles=[(0.0, 0.06)], layer=0.004) for _ in "ab")
    async with workers(first, second):
        client = await router(first, second, objective=1.0)
        answers = await asyncio.gather(*(client.complete(tokens=2000) for _ in range(40)))
        fleet = client.running.face.service.fleet
        books = [slot for w in fleet.workers.values() for b in w.book.bookings for slot in b.slots]
    assert books == [], "nothing stays booked"
    served = [response for response, _ in answers if response.status == 200]
    refused = [response for response, _ in answers if response.status == 429]
    assert len(served) + len(refused) == 40
    assert len(served) >= 20
    assert all(float(r.headers["x-geotrain-predicted-ttft"]) <= 1.0 for r in served)
    for fake in (first, second):
        spans = sorted((begin, end) for _, begin, end in fake.computed)
        assert all(a[1] <= b[0] + 1e-6 for a, b in itertools.pairwise(spans))
    ids = [seen["id"] for fake in (first, second) for seen in fake.seen]
    assert len(ids) == len(set(ids)) == len(served), "each request ran once"


async def test_the_first_token_is_what_is_timed(router, worker):
    decode = await Decode.start(pause=0.3)
    try:
        client = await router(worker, decode_url=decode.url)
        for _ in range(3):
            await client.complete()
    finally:
        await decode.stop()
    ttft = (await client.stats())["ttft"]
    assert 0.010 <= ttft["p50"] <= ttft["p99"] < 0.25, "decode's 0.3 s are not in it"


async def test_bubble_seconds_are_counted(router):
    fake = FakeWorker(period=0.05, bubbles=[(0.0, 0.025)])
    async with workers(fake):
        client = await router(fake)
        for _ in range(5):
            await client.complete()
        await asyncio.sleep(0.2)
        seconds = (await client.stats())["bubbleSeconds"]
    assert seconds["used"] == pytest.approx(0.05, rel=0.2)
    assert seconds["offered"] > seconds["used"]


class Decode:
    """A decode service on a real socket."""

    def __init__(self, pause):
        self.seen = []
        self._pause = pause

    @classmethod
    async def start(cls, pause=0.0):
        self = cls(pause)
        app = web.Application()
        app.router.add_post("/v1/decode", self._decode)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def stop(self):
        await self._runner.cleanup()

    async def _decode(self, request):
        self.seen.append(await request.json())
        await asyncio.sleep(self._pause)
        return web.json_response({"text": " two three", "tokens": [8, 9]})
