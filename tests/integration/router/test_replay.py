import asyncio
import json
import sys
from pathlib import Path

import pytest

from examples.prefill import replay_trace
from support.prefill_worker import FakeWorker, workers

TRACE = Path(replay_trace.TRACE)


async def replay(client, *arguments):
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        replay_trace.__file__,
        "--url",
        client.url,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    return process.returncode, json.loads(output)


async def test_a_trace_is_replayed_at_its_pace_and_summed_up(router):
    async with workers(*(FakeWorker(layer=0.001) for _ in "abc")) as fakes:
        client = await router(*fakes, objective=0.5)
        status, summary = await replay(client, "--requests", "40", "--speed", "20")
        stats = await client.stats()
    assert status == 0
    assert summary["sent"] == 40
    assert summary["served"] + summary["refused"] == 40
    assert summary["served"] == stats["served"] > 0
    assert summary["refused"] == stats["refused"]
    assert summary["errors"] == 0
    assert 0 < summary["ttft_p50"] <= summary["ttft_p90"] <= summary["ttft_p99"]
    arrivals = replay_trace.read_trace(TRACE, 40, 20.0)
    assert summary["seconds"] >= arrivals[-1].offset


async def test_what_is_refused_is_counted_by_reason(router):
    client = await router()
    status, summary = await replay(client, "--requests", "3", "--speed", "100", "--model", "m")
    assert status == 0
    assert (summary["served"], summary["refused"]) == (0, 3)
    assert summary["refusals"] == {"NoWorker": 3}
    assert summary["ttft_p50"] is None


async def test_what_fails_is_an_error_and_told(router):
    async with workers(FakeWorker(status=413)) as (fake,):
        client = await router(fake, objective=60.0)
        status, summary = await replay(client, "--requests", "2", "--speed", "100")
    assert status == 1
    assert summary["errors"] == 2
    assert "413" in summary["failures"][0]


def test_the_trace_is_read_with_its_gaps():
    first, second, third, *rest = replay_trace.read_trace(TRACE, 200, 2.0)
    assert (first.offset, first.context, first.generated) == (0.0, 4808, 10)
    assert second.offset == pytest.approx(0.026)
    assert third.context == 110
    assert len(rest) == 197
    assert len(replay_trace.read_trace(TRACE, 5, 1.0)) == 5


def test_prompts_differ_and_repeat_from_run_to_run():
    assert replay_trace.prompt(1, 4) == [7919, 7920, 7921, 7922]
    assert replay_trace.prompt(2, 4) != replay_trace.prompt(1, 4)
    assert max(replay_trace.prompt(199, 8000)) < replay_trace.VOCABULARY


@pytest.mark.parametrize("arguments", [["--requests", "0"], ["--speed", "0"], ["--speed", "inf"]])
def test_wrong_arguments_are_refused(arguments, capsys):
    with pytest.raises(SystemExit):
        replay_trace.parse(["--url", "http://x", *arguments])
    assert "must be above 0" in capsys.readouterr().err
