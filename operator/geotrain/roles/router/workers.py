"""Prefill workers over HTTP: their state in the router's clock, and prompts sent to them.

A worker's times are its machine's CLOCK_MONOTONIC, which no other machine shares. The router
takes the middle of the exchange as the moment that the worker's ``now`` names, so its error is at
most half a round trip; an objective allows for it because predictions are corrected by what
happened (``geotrain.prefill.percentiles.Correction``).
"""

import asyncio
import json
import math
from collections.abc import Mapping
from typing import Any, Final

import aiohttp

from geotrain.prefill.admission import Calendar, Span
from geotrain.prefill.fleet import Observation
from geotrain.roles.router.ports import (
    Clock,
    Prefilled,
    Prompt,
    Text,
    WorkerBusy,
    WorkerLost,
    WorkerRefused,
)
from geotrain.units import Seconds

_FOREVER: Final[Seconds] = 1e9
"""An end of idleness this far away means that training is over (2**63 - 1 ns and infinity)."""


def observation(document: Mapping[str, Any], moment: Seconds) -> Observation:
    """Read a worker's ``/state``; ``moment`` is its ``now`` on the router's clock.

    Raises KeyError, TypeError or ValueError where the document is not as agreed.
    """
    shift = moment - float(document["now"])
    return Observation(
        calendar=_calendar(document["gate"], moment, shift),
        queue=tuple(
            (str(entry["id"]), max(0.0, float(entry["remaining"]))) for entry in document["queue"]
        ),
        computed=float(document["computedSeconds"]),
    )


class HttpWorkers:
    """The client that talks to all workers, over one session's connections."""

    def __init__(self, session: aiohttp.ClientSession, clock: Clock, patience: Seconds) -> None:
        self._session = session
        self._clock = clock
        self._quick = aiohttp.ClientTimeout(total=patience)
        # A prefill waits for bubbles, so only the connection is on a clock; the caller ends it.
        self._slow = aiohttp.ClientTimeout(total=None, sock_connect=patience)

    async def observe(self, url: str) -> Observation:
        """Ask a worker for its state. Raises WorkerLost, also where the answer makes no sense."""
        sent = self._clock()
        try:
            async with self._session.get(f"{url}/state", timeout=self._quick) as response:
                if response.status != 200:
                    raise WorkerLost(f"{url} answered {response.status} to /state")
                document = await response.json()
            return observation(document, (sent + self._clock()) / 2)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise WorkerLost(f"{url} does not answer: {error or type(error).__name__}") from error
        except (KeyError, TypeError, ValueError) as error:
            raise WorkerLost(f"{url} says something else than agreed: {error!r}") from error

    async def prefill(self, url: str, request: str, prompt: Prompt) -> Prefilled:
        """Have a prompt prefilled and wait for it."""
        body = {"id": request} | (
            {"count": prompt.tokens} if prompt.ids is None else {"tokens": prompt.ids}
        )
        try:
            async with self._session.post(
                f"{url}/prefill", json=body, timeout=self._slow
            ) as response:
                return _prefilled(url, response.status, await response.read())
        except (aiohttp.ClientError, TimeoutError, asyncio.IncompleteReadError) as error:
            raise WorkerLost(f"{url} broke off: {error or type(error).__name__}") from error


def _prefilled(url: str, status: int, body: bytes) -> Prefilled:
    if status in (429, 503):
        raise WorkerBusy(f"{url} takes no work now ({status})")
    if 400 <= status < 500 and status != 404:
        raise WorkerRefused(
            f"the worker refused the prompt ({status}): {body[:256].decode(errors='replace')}"
        )
    if status != 200:
        raise WorkerLost(f"{url} answered {status}")
    try:
        document = json.loads(body)
        first = document.get("token")
        return Prefilled(
            kv={**document["kv"], "worker": url},
            queued=float(document["queued"]),
            computed=float(document["computed"]),
            first=Text(str(document.get("text", "")), () if first is None else (int(first),)),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise WorkerLost(f"{url} says something else than agreed: {error!r}") from error


def _calendar(gate: Mapping[str, Any], now: Seconds, shift: Seconds) -> Calendar:
    """Trust the live signal for the bubble under way, the published list for those to come."""
    state = gate["state"]
    if state == "unknown":
        return Calendar()
    spans = [_span(entry, shift) for entry in gate["bubbles"]]
    if state == "idle" and gate["idleUntil"] is not None:
        until = _time(gate["idleUntil"], shift)
        spans = [(now, until), *((begin, end) for begin, end in spans if begin >= until)]
    coming = ((max(begin, now), end) for begin, end in spans)
    return Calendar.from_spans(coming, float(gate["period"]))


def _span(entry: Any, shift: Seconds) -> Span:
    begin, end = entry
    return _time(begin, shift), _time(end, shift)


def _time(value: Any, shift: Seconds) -> Seconds:
    seconds = float(value)
    return math.inf if seconds >= _FOREVER else seconds + shift
