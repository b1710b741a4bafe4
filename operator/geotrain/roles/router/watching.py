"""Follows the workers: who there is, and what each of them reports a few times a second.

A worker that stops answering is offered no work at once; after ``patience`` its requests are told
(``lost``), so that they go elsewhere even where the connection hangs instead of breaking.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence

from geotrain.prefill.fleet import Fleet
from geotrain.roles.router.directory import Address, Directory
from geotrain.roles.router.ports import Clock, WorkerClient, WorkerLost
from geotrain.units import Seconds

_log = logging.getLogger(__name__)


class Watch:
    """Keeps a fleet's calendars and books up to date."""

    def __init__(
        self,
        fleet: Fleet,
        client: WorkerClient,
        directory: Directory,
        clock: Clock,
        *,
        interval: Seconds = 0.25,
        patience: Seconds = 2.0,
    ) -> None:
        self._fleet = fleet
        self._client = client
        self._directory = directory
        self._clock = clock
        self._interval = interval
        self._patience = patience
        self._addresses: dict[str, Address] = {}
        self._pollers: dict[str, asyncio.Task[None]] = {}
        self._lost: dict[str, asyncio.Event] = {}

    @property
    def addresses(self) -> Sequence[Address]:
        """The workers that are followed, by URL."""
        return tuple(self._addresses.values())

    @property
    def is_ready(self) -> bool:
        """Whether the list of workers was read."""
        return self._directory.loaded

    def lost(self, url: str) -> asyncio.Event:
        """Return the event that is set while a worker does not answer."""
        return self._lost.setdefault(url, asyncio.Event())

    async def run(self) -> None:
        """Follow the list and the workers until cancelled."""
        try:
            while True:
                await self.refresh()
                await asyncio.sleep(self._interval)
        finally:
            await self._stop(list(self._pollers))

    async def refresh(self) -> None:
        """Read the list again; a worker that it names no more is followed until it is done."""
        self._addresses = {address.url: address for address in self._directory.read()}
        self._fleet.keep(self._addresses)
        await self._stop([url for url in self._pollers if url not in self._fleet.workers])
        for url in self._fleet.workers:
            if url not in self._pollers:
                self._pollers[url] = asyncio.create_task(self._follow(url))

    async def _follow(self, url: str) -> None:
        answered = self._clock()
        while True:
            try:
                observation = await self._client.observe(url)
                answered = self._clock()
                self._fleet.observe(url, observation, answered)
                if self.lost(url).is_set():
                    _log.info("%s answers again", url)
                self.lost(url).clear()
            except WorkerLost as error:
                self._miss(url, answered, error)
            await asyncio.sleep(self._interval)

    def _miss(self, url: str, answered: Seconds, error: WorkerLost) -> None:
        self._fleet.lose(url)
        if self._clock() - answered >= self._patience and not self.lost(url).is_set():
            _log.warning("%s", error)
            self.lost(url).set()

    async def _stop(self, urls: list[str]) -> None:
        for url in urls:
            poller = self._pollers.pop(url)
            poller.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await poller
            # Nobody will hear of it any more: a request that still waits there goes elsewhere.
            self._lost.pop(url, asyncio.Event()).set()
