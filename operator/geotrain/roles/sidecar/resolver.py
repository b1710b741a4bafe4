"""The ranks' addresses, by DNS, asked again until all are known and now and then after that."""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping

from geotrain.roles.sidecar.network import Network
from geotrain.units import Seconds

_EAGER: Seconds = 0.5
_CALM: Seconds = 30.0
_AT_ONCE = 4

log = logging.getLogger(__name__)

Lookup = Callable[[str], Awaitable[str | None]]


async def look_up(name: str) -> str | None:
    """The IPv4 address of a name; None while it has none."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(name, None, family=socket.AF_INET, type=socket.SOCK_STREAM)
    except OSError:
        return None
    return str(found[0][4][0]) if found else None


class Resolver:
    """Keeps a table rank → address. What was known stays until something else is found.

    A rank that is restarted elsewhere keeps its name and changes its address, so known names are
    asked again too, only less often.
    """

    def __init__(
        self, changed: Callable[[Mapping[int, str]], None], lookup: Lookup = look_up
    ) -> None:
        self._changed = changed
        self._lookup = lookup
        self._network: Network | None = None
        self._news = asyncio.Event()
        self.known: dict[int, str] = {}

    def update(self, network: Network) -> None:
        """Other ranks, or other names: ask at once."""
        self._network = network
        self.known = {r: a for r, a in self.known.items() if r in network.ranks}
        self._news.set()

    async def run(self) -> None:
        """Ask for as long as the sidecar runs."""
        while True:
            self._news.clear()
            complete = await self.ask()
            try:
                async with asyncio.timeout(_CALM if complete else _EAGER):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def ask(self) -> bool:
        """Ask for every rank once; whether all are known now."""
        network = self._network
        if network is None:
            return False
        before = dict(self.known)
        unknown_first = sorted(network.ranks, key=lambda r: (r in self.known, r))
        gate = asyncio.Semaphore(_AT_ONCE)
        await asyncio.gather(*(self._ask(r, network.ranks[r].address, gate) for r in unknown_first))
        if self.known != before:
            log.info("%d of %d ranks have an address", len(self.known), len(network.ranks))
            self._changed(dict(self.known))
        return len(self.known) >= len(network.ranks)

    async def _ask(self, rank: int, name: str, gate: asyncio.Semaphore) -> None:
        async with gate:
            address = await self._lookup(name)
        if address is not None:
            self.known[rank] = address
