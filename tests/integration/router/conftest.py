import asyncio
import contextlib
import json

import aiohttp
import pytest

from geotrain.roles.router.app import serving
from geotrain.roles.router.config import RouterSettings

PROFILE = {"layers": 5, "layerTimes": [{"tokens": 1000, "time": "2ms"}]}


class Client:
    """What a user of OpenAI's API sees, with the router's insides for the tests' questions."""

    def __init__(self, session, running):
        self.session = session
        self.running = running
        self.url = running.url

    async def complete(self, tokens=1000, **more):
        body = {"model": "m", "prompt": [1] * tokens, "max_tokens": 4} | more
        async with self.session.post(f"{self.url}/v1/completions", json=body) as response:
            return response, await response.json(content_type=None)

    async def get(self, path):
        async with self.session.get(f"{self.url}{path}") as response:
            return response.status, await response.text()

    async def stats(self):
        return json.loads((await self.get("/stats"))[1])


@pytest.fixture
async def router(tmp_path):
    """Start routers; each call gives a client of a new one that already knows its workers."""
    profile = tmp_path / "prefill.json"
    profile.write_text(json.dumps(PROFILE))
    async with contextlib.AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())

        async def start(*fakes, url="", **more):
            urls = [fake.url for fake in fakes] or [each for each in url.split(",") if each]
            sources = ",".join(urls) or str(tmp_path / "none.json")
            defaults = {
                "workers": sources,
                "profile": str(profile),
                "model": "m",
                "listen": "127.0.0.1",
                "port": 0,
                "poll": 0.03,
                "patience": 1.0,
                "guard": 0.001,
                "minimum_bubble": 0.0,
                "timeout": 5.0,
            }
            settings = RouterSettings(**(defaults | more))
            running = await stack.enter_async_context(serving(settings))
            for each in urls:
                await observed(running, each)
            return Client(session, running)

        yield start


async def observed(running, url):
    """Wait until the router has heard of a worker."""

    def is_known():
        worker = running.face.service.fleet.workers.get(url)
        return worker is not None and worker.observed is not None

    await until(is_known)


async def until(predicate):
    """Wait until something is so."""
    async with asyncio.timeout(30):
        while not predicate():
            await asyncio.sleep(0.005)
