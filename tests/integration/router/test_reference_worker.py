"""The router and the reference worker, each a program of its own, around one gate page."""

import asyncio
import contextlib
import json
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from geotrain.gate import GateState, GateWriter, State
from integration.router.conftest import PROFILE

ROOT = Path(__file__).resolve().parents[3]
PERIOD, BUBBLE = 0.2, 0.08


class Training:
    """Writes the page of a rank whose GPU idles for the first 80 ms of each 200."""

    def __init__(self, path):
        self._writer = GateWriter(path)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()
        self._writer.close()

    def _run(self):
        while not self._over.wait(0.005):
            now = time.monotonic()
            start = now - now % PERIOD
            is_idle = now < start + BUBBLE
            coming = [(start + n * PERIOD, start + n * PERIOD + BUBBLE) for n in range(8)]
            self._writer.write(
                GateState(
                    State.IDLE if is_idle else State.COMPUTING,
                    idle_until=start + BUBBLE if is_idle else None,
                    period=PERIOD,
                    bubbles=tuple(span for span in coming if span[1] > now),
                )
            )


@contextlib.asynccontextmanager
async def reference_worker(gate, profile):
    environment = os.environ | {
        "PYTHONPATH": f"{ROOT / 'operator'}:{ROOT}",
        "GEOTRAIN_GATE": str(gate),
        "GEOTRAIN_PROFILE": str(profile),
        "GEOTRAIN_MINIMUM_BUBBLE": "5ms",
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "examples.prefill.worker", "--port", "0", "--model", "none"),
        cwd=ROOT,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        line = await asyncio.wait_for(process.stdout.readline(), 20)
        yield f"http://127.0.0.1:{int(line.split()[-1])}"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        await process.stdout.read()


@pytest.fixture
def profile(tmp_path):
    path = tmp_path / "worker.json"
    path.write_text(json.dumps(PROFILE))
    return path


async def test_the_reference_worker_serves_in_the_bubbles_of_its_gate(router, tmp_path, profile):
    gate = tmp_path / "gates" / "a_b_r0"
    with Training(gate):
        async with reference_worker(gate, profile) as url:
            client = await router(url=url)
            response, body = await client.complete(tokens=4000, prompt="x" * 16_000)
            assert response.status == 200
            assert body["choices"][0]["text"].startswith(" ")
            answers = await asyncio.gather(*(client.complete() for _ in range(10)))
            assert {response.status for response, _ in answers} == {200}
            await asyncio.sleep(0.4)
            stats = await client.stats()
    assert stats["served"] == 11
    assert stats["retried"] == 0
    assert stats["bubbleSeconds"]["offered"] > 0


async def test_a_reference_worker_that_leaves_hands_its_prompts_over(router, tmp_path, profile):
    gates = [tmp_path / "gates" / name for name in ("a_b_r0", "a_b_r1")]
    with Training(gates[0]), Training(gates[1]):
        async with reference_worker(gates[1], profile) as staying:
            async with reference_worker(gates[0], profile) as leaving:
                client = await router(url=f"{leaving},{staying}", objective=5.0)
                calls = [asyncio.create_task(client.complete(tokens=9000)) for _ in range(12)]
                await asyncio.sleep(0.3)
            answers = await asyncio.gather(*calls)
    assert [response.status for response, _ in answers] == [200] * 12
    assert len({body["id"] for _, body in answers}) == 12
