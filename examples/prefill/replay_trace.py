#!/usr/bin/env python3
"""Replays a request trace against a router, open loop: requests come when they came, come what may.

    replay_trace.py --url http://chat-router.team-a.svc:8080 --requests 200 --speed 2

Reads a CSV with the columns TIMESTAMP, ContextTokens and GeneratedTokens (the Azure LLM inference
trace), sends each prompt as token ids of that count to /v1/completions as a stream, and prints one
JSON object:

    {"sent": 200, "served": 190, "refused": 10, "errors": 0, "ttft_p50": 0.12, "ttft_p90": …,
     "ttft_p99": …, "prompt_tokens": …, "seconds": …, "refusals": {"ObjectiveMissed": 10},
     "failures": []}

Times are seconds, measured here: from sending a request to its first event. What the trace says
cannot be served in time is refused with 429 and is not sent again, as the next request would be
delayed by it. Needs aiohttp.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp

TRACE = Path(__file__).resolve().parent.parent / "data" / "azure_code_200.csv"
VOCABULARY = 32_000


@dataclass(frozen=True)
class Arrival:
    """A request of the trace, ``offset`` seconds after the first."""

    offset: float
    context: int
    generated: int


@dataclass
class Outcome:
    """What became of the requests."""

    first_tokens: list[float] = field(default_factory=list)
    prompt_tokens: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def summary(self, sent: int, seconds: float) -> dict[str, Any]:
        """The figures that are printed."""
        return {
            "sent": sent,
            "served": len(self.first_tokens),
            "refused": self.refusals.total(),
            "errors": len(self.failures),
            **{f"ttft_p{share}": percentile(self.first_tokens, share) for share in (50, 90, 99)},
            "prompt_tokens": self.prompt_tokens,
            "seconds": round(seconds, 3),
            "refusals": dict(sorted(self.refusals.items())),
            "failures": sorted(set(self.failures))[:5],
        }


def read_trace(path: Path, count: int, speed: float) -> list[Arrival]:
    """Read the first ``count`` requests; ``speed`` 2 makes them come twice as fast."""
    with path.open(newline="") as file:
        rows = [row for row, _ in zip(csv.DictReader(file), range(count), strict=False)]
    times = [datetime.fromisoformat(row["TIMESTAMP"]) for row in rows]
    return [
        Arrival(
            (at - times[0]).total_seconds() / speed,
            int(row["ContextTokens"]),
            int(row["GeneratedTokens"]),
        )
        for at, row in zip(times, rows, strict=True)
    ]


def percentile(values: Sequence[float], share: float) -> float | None:
    """Nearest rank, rounded to microseconds; None without values."""
    if not values:
        return None
    return round(sorted(values)[math.ceil(share / 100 * len(values)) - 1], 6)


def prompt(number: int, tokens: int) -> list[int]:
    """Token ids that differ from request to request and are the same in every run."""
    return [(number * 7919 + position) % VOCABULARY for position in range(tokens)]


async def replay(url: str, model: str, arrivals: Sequence[Arrival], timeout: float) -> Outcome:
    """Send every request at its time and wait for all answers."""
    outcome = Outcome()
    limits = aiohttp.ClientTimeout(total=timeout)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=limits, connector=connector) as session:
        model = model or await _first_model(session, url)
        begin = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number, arrival in enumerate(arrivals):
                await asyncio.sleep(max(0.0, begin + arrival.offset - time.monotonic()))
                body = {
                    "model": model,
                    "prompt": prompt(number, arrival.context),
                    "max_tokens": max(1, arrival.generated),
                    "stream": True,
                }
                group.create_task(_send(session, f"{url}/v1/completions", body, outcome))
    return outcome


async def _first_model(session: aiohttp.ClientSession, url: str) -> str:
    async with session.get(f"{url}/v1/models", raise_for_status=True) as response:
        return str((await response.json())["data"][0]["id"])


async def _send(
    session: aiohttp.ClientSession, url: str, body: dict[str, Any], outcome: Outcome
) -> None:
    sent = time.monotonic()
    try:
        async with session.post(url, json=body) as response:
            if response.status == 429:
                document = await response.json()
                outcome.refusals[str(document["error"]["code"])] += 1
            elif response.status != 200:
                outcome.failures.append(f"{response.status}: {(await response.text())[:200]}")
            else:
                first = await _stream(response)
                outcome.first_tokens.append(first - sent)
                outcome.prompt_tokens += len(body["prompt"])
    except (aiohttp.ClientError, TimeoutError, KeyError, ValueError) as error:
        outcome.failures.append(f"{type(error).__name__}: {error}")


async def _stream(response: aiohttp.ClientResponse) -> float:
    """Read a stream to its end; returns when its first event came."""
    first = None
    is_complete = False
    async for line in response.content:
        if not line.startswith(b"data: "):
            continue
        first = first or time.monotonic()
        is_complete = line.strip() == b"data: [DONE]"
        if not is_complete and b'"error"' in line and "error" in json.loads(line[6:]):
            raise ValueError(line.decode().strip())
    if first is None or not is_complete:
        raise ValueError("the stream ended before its end")
    return first


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--url", required=True, help="base URL of the router")
    parser.add_argument("--model", default="", help="model to ask for; default: the router's own")
    parser.add_argument("--trace", type=Path, default=TRACE, help="CSV to replay")
    parser.add_argument("--requests", type=int, default=200, help="how many of its requests")
    parser.add_argument("--speed", type=float, default=1.0, help="2: twice as fast as they came")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one request")
    found = parser.parse_args(arguments)
    if found.requests < 1 or not 0 < found.speed < math.inf:
        parser.error("--requests and --speed must be above 0")
    return found


def main() -> int:
    """Replay and print the summary; 1 where a request failed other than by refusal."""
    options = parse()
    arrivals = read_trace(options.trace, options.requests, options.speed)
    begin = time.monotonic()
    outcome = asyncio.run(replay(options.url.rstrip("/"), options.model, arrivals, options.timeout))
    print(json.dumps(outcome.summary(len(arrivals), time.monotonic() - begin)))
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    sys.exit(main())
