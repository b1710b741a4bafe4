"""Wires the router: settings, workers, decode service, HTTP server, drain at SIGTERM."""

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from aiohttp import web

from geotrain.api.convert import document, prefill_profile
from geotrain.errors import InputError
from geotrain.prefill.admission import Rules
from geotrain.prefill.fleet import Fleet
from geotrain.prefill.profile import PrefillProfile
from geotrain.roles.router.config import RouterSettings
from geotrain.roles.router.decode import HttpDecode
from geotrain.roles.router.directory import Directory
from geotrain.roles.router.routes import Face, application
from geotrain.roles.router.serving import Service, Terms
from geotrain.roles.router.watching import Watch
from geotrain.roles.router.workers import HttpWorkers

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Running:
    """A router that serves: where, and what it shares with its handlers."""

    url: str
    face: Face
    watch: Watch


async def run(settings: RouterSettings) -> None:
    """Serve until SIGTERM or SIGINT, then let open requests end."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with serving(settings) as running:
        _log.info("serving at %s", running.url)
        await stop.wait()
        await drain(running.face, settings)


@contextlib.asynccontextmanager
async def serving(settings: RouterSettings) -> AsyncIterator[Running]:
    """Serve while the context lasts. Raises InputError where the profile cannot be used."""
    profile = read_profile(Path(settings.profile))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        face, watch = _assemble(settings, profile, session)
        runner = web.AppRunner(
            application(face, settings.body_limit), handler_cancellation=True, access_log=None
        )
        await runner.setup()
        following = asyncio.create_task(watch.run())
        try:
            site = web.TCPSite(runner, settings.listen, settings.port)
            await site.start()
            port = runner.addresses[0][1]
            yield Running(f"http://127.0.0.1:{port}", face, watch)
        finally:
            await runner.cleanup()
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following


async def drain(face: Face, settings: RouterSettings) -> None:
    """Turn away what is new and wait for what is open, for as long as the settings allow.

    The listener stays: requests that still arrive get an answer that says so.
    """
    face.is_draining = True
    _log.info("draining %d requests", face.open)
    try:
        await asyncio.wait_for(face.idle.wait(), settings.drain)
    except TimeoutError:
        _log.warning("%d requests are cut off", face.open)


def read_profile(path: Path) -> PrefillProfile:
    """Read ``prefill.json``. Raises InputError."""
    try:
        text = path.read_text()
    except (OSError, ValueError) as error:
        raise InputError(f"the prefill profile {path} cannot be read: {error}") from error
    return prefill_profile(document(text, f"the prefill profile {path}"))


def main() -> int:
    """Run the role; returns the exit status."""
    try:
        settings = RouterSettings.from_environment(os.environ)
        asyncio.run(run(settings))
    except InputError as error:
        _log.error("%s", error)
        return 2
    return 0


def _assemble(
    settings: RouterSettings, profile: PrefillProfile, session: aiohttp.ClientSession
) -> tuple[Face, Watch]:
    clock = time.monotonic
    horizon = max(60.0, 4 * settings.objective)
    fleet = Fleet(
        Rules(settings.guard, settings.minimum_bubble),
        profile.layers,
        stale=settings.patience,
        horizon=horizon,
    )
    workers = HttpWorkers(session, clock, settings.patience)
    watch = Watch(
        fleet,
        workers,
        Directory(settings.workers),
        clock,
        interval=settings.interval,
        patience=settings.patience,
    )
    decode = None
    if settings.decode_url:
        decode = HttpDecode(session, settings.decode_url, settings.timeout)
    terms = Terms(
        settings.objective, settings.percentile, settings.timeout, horizon, settings.queue
    )
    service = Service(
        fleet, profile, workers, lost=watch.lost, decode=decode, terms=terms, clock=clock
    )
    face = Face(
        service,
        settings.model,
        clock,
        time.time,
        lambda: watch.is_ready,
        most=settings.concurrency,
    )
    return face, watch
