import asyncio
import os
import signal
import sys

import pytest

from geotrain.roles.router.app import drain
from geotrain.roles.router.config import RouterSettings
from integration.router.conftest import until
from support.prefill_worker import FakeWorker, workers


@pytest.fixture
async def worker():
    async with workers(FakeWorker(layer=0.04)) as (fake,):
        yield fake


async def test_models_health_and_metrics(router, worker):
    client = await router(worker)
    await client.complete()
    assert '"id": "m"' in (await client.get("/v1/models"))[1]
    assert (await client.get("/healthz"))[0] == 200
    assert (await client.get("/readyz"))[0] == 200
    _, text = await client.get("/metrics")
    assert 'geotrain_router_requests_total{outcome="served"} 1.0' in text
    assert "geotrain_router_time_to_first_token_seconds_count 1.0" in text
    assert 'geotrain_router_workers{state="answering"} 1.0' in text


async def test_a_router_without_its_list_of_workers_is_not_ready(router):
    client = await router()
    status, text = await client.get("/readyz")
    assert status == 503
    assert "list of workers" in text


async def test_draining_finishes_what_is_open_and_takes_nothing_new(router, worker):
    client = await router(worker)
    open_call = asyncio.create_task(client.complete())
    await until(lambda: worker.seen)
    draining = asyncio.create_task(drain(client.running.face, RouterSettings(drain=5.0)))
    await asyncio.sleep(0)
    response, body = await client.complete()
    assert response.status == 503
    assert response.headers["Retry-After"] == "1"
    assert body["error"]["code"] == "draining"
    assert (await client.get("/readyz"))[0] == 503
    assert not draining.done()
    assert (await open_call)[0].status == 200
    await draining


async def test_a_drain_ends_with_its_time(router, worker):
    worker.behaviour.layer = 5.0
    client = await router(worker, objective=60.0)
    call = asyncio.create_task(client.complete())
    await until(lambda: worker.seen)
    async with asyncio.timeout(4):
        await drain(client.running.face, RouterSettings(drain=0.1))
    call.cancel()


async def test_the_process_ends_cleanly_at_sigterm(tmp_path):
    profile = tmp_path / "prefill.json"
    profile.write_text('{"layers": 1, "layerTimes": [{"tokens": 1, "time": "1ms"}]}')
    environment = os.environ | {
        "GEOTRAIN_PROFILE": str(profile),
        "GEOTRAIN_WORKERS": str(tmp_path / "workers.json"),
        "GEOTRAIN_LISTEN": "127.0.0.1",
        "GEOTRAIN_PORT": "0",
    }
    program = (
        "import logging, sys; logging.basicConfig(level='INFO');"
        "from geotrain.roles.router.app import main; sys.exit(main())"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, env=environment, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(90):
        while b"serving at" not in await process.stderr.readline():
            pass
        process.send_signal(signal.SIGTERM)
        await process.stderr.read()
        assert await process.wait() == 0


async def test_a_profile_that_cannot_be_used_is_said_in_one_line(tmp_path):
    program = "import sys; from geotrain.roles.router.app import main; sys.exit(main())"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program,
        env=os.environ | {"GEOTRAIN_PROFILE": str(tmp_path / "none.json")},
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await process.communicate()
    assert process.returncode == 2
    assert b"cannot be read" in errors
    assert b"Traceback" not in errors
