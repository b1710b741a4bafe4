"""A prefill worker on a real socket that honours /prefill and /state, with bubbles as told.

It computes by sleeping: layer by layer, each only where it ends a guard before its bubble does.
Every span it computed is kept, so a test can see that nothing ran outside a bubble.
"""

import asyncio
import contextlib
import math
import time
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass
class Behaviour:
    """What the worker is told to do; tests change it while it runs."""

    layer: float = 0.002
    layers: int = 5
    guard: float = 0.001
    bubbles: list[tuple[float, float]] = field(default_factory=list)
    """Relative to the start of a period."""
    period: float = 0.0
    """0: the one bubble, if any, is endless."""
    status: int | None = None
    """Answer /prefill with this instead of working."""
    is_hanging: bool = False
    """Never answer anything."""
    token: int | None = 7
    clock_shift: float = 0.0
    """This machine's monotonic clock against the router's."""


class FakeWorker:
    """One worker; ``url`` is known once it has started."""

    def __init__(self, **behaviour: Any) -> None:
        self.behaviour = Behaviour(**behaviour)
        self.seen: list[dict[str, Any]] = []
        self.computed: list[tuple[str, float, float]] = []
        self._queue: list[list[Any]] = []
        self._turn = asyncio.Lock()
        self._begin = time.monotonic()
        self._served = 0
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def start(self, port: int = 0) -> "FakeWorker":
        app = web.Application()
        app.router.add_post("/prefill", self._prefill)
        app.router.add_get("/state", self._state)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.05)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def stop(self) -> None:
        """Go away as a killed process does: connections break."""
        if self._runner is not None:
            for connection in list(self._runner.server.connections):
                connection.transport.abort()
            await self._runner.cleanup()
            self._runner = None

    def upcoming(self, now: float) -> list[tuple[float, float]]:
        """The bubbles of this period and the next two, in the real clock."""
        rule = self.behaviour
        if not rule.period:
            return [(now, math.inf)]
        first = math.floor((now - self._begin) / rule.period)
        starts = [self._begin + (first + turn) * rule.period for turn in range(3)]
        spans = [(s + b, s + e) for s in starts for b, e in rule.bubbles]
        return [(b, e) for b, e in spans if e > now]

    async def _state(self, _: web.Request) -> web.Response:
        await self._hang()
        now = time.monotonic()
        shift = self.behaviour.clock_shift
        spans = self.upcoming(now)
        is_idle = bool(spans) and spans[0][0] <= now
        until = spans[0][1] if is_idle else None
        return web.json_response(
            {
                "now": now + shift,
                "wall": time.time(),
                "gate": {
                    "state": "idle" if is_idle else "computing",
                    "idleUntil": _finite(until, shift),
                    "bubbles": [[b + shift, _finite(e, shift)] for b, e in spans],
                    "period": self.behaviour.period,
                },
                "queue": [{"id": name, "remaining": left} for name, left in self._queue],
                "computedSeconds": sum(e - b for _, b, e in self.computed),
                "served": self._served,
            }
        )

    async def _prefill(self, request: web.Request) -> web.Response:
        await self._hang()
        body = await request.json()
        self.seen.append(body)
        rule = self.behaviour
        if rule.status is not None:
            return web.json_response({"error": "as told"}, status=rule.status)
        entry = [body["id"], rule.layer * rule.layers]
        self._queue.append(entry)
        arrived = time.monotonic()
        try:
            async with self._turn:
                begun = time.monotonic()
                for _ in range(rule.layers):
                    await self._layer(entry)
        finally:
            self._queue.remove(entry)
        self._served += 1
        answer = {
            "id": body["id"],
            "queued": begun - arrived,
            "computed": rule.layer * rule.layers,
            "layers": rule.layers,
            "kv": {"handle": body["id"], "bytes": 1},
        }
        if rule.token is not None:
            answer |= {"token": rule.token, "text": "one"}
        return web.json_response(answer)

    async def _layer(self, entry: list[Any]) -> None:
        rule = self.behaviour
        while True:
            now = time.monotonic()
            begin, end = self.upcoming(now)[0]
            if begin <= now and now + rule.layer + rule.guard <= end:
                await asyncio.sleep(rule.layer)
                self.computed.append((entry[0], now, now + rule.layer))
                entry[1] -= rule.layer
                return
            await asyncio.sleep(0.001)

    async def _hang(self) -> None:
        while self.behaviour.is_hanging:
            await asyncio.sleep(0.01)


def _finite(value: float | None, shift: float) -> float | None:
    return None if value is None else min(value + shift, 2**63 / 1e9)


@contextlib.asynccontextmanager
async def workers(*fakes: FakeWorker) -> Any:
    """Start the workers, and stop those that still run at the end."""
    try:
        for fake in fakes:
            await fake.start()
        yield fakes
    finally:
        for fake in fakes:
            await fake.stop()
