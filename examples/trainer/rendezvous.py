"""Brings the ranks together, and lets them part when all are done.

Pods of a gang start seconds apart, and the master's name resolves only once its endpoints are
known in this cluster, so both are waited for. Gloo then connects every pair of ranks, which takes
seconds over long links.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable
from datetime import timedelta

from torch import distributed as dist

from .settings import Place

_PAUSE = 0.5
_PART_WITHIN = 60.0


class RendezvousError(Exception):
    """The ranks did not come together in time; the message names what was missing."""


class Rendezvous:
    """The store at the master, under the keys of this attempt."""

    def __init__(self, place: Place, timeout: float) -> None:
        """Wait for the master. Raises RendezvousError after ``timeout`` seconds."""
        self._place = place
        self._timeout = timedelta(seconds=timeout)
        master = place.rank == 0
        host = "127.0.0.1" if master else _resolved(place.master, place.port, timeout)
        tcp = dist.TCPStore(
            host, place.port, place.world, master, timeout=self._timeout, wait_for_workers=False
        )
        self.store = dist.PrefixStore(f"attempt-{place.attempt}", tcp)

    def join(self, backend: str) -> None:
        """Connect to all other ranks."""
        dist.init_process_group(
            backend,
            store=self.store,
            rank=self._place.rank,
            world_size=self._place.world,
            timeout=self._timeout,
        )

    def agree(self, mine: Iterable[int]) -> int:
        """Return the largest number that every rank has; 0 where there is none."""
        self.store.set(f"has/{self._place.rank}", " ".join(str(n) for n in mine))
        common: set[int] | None = None
        for rank in range(self._place.world):
            has = {int(n) for n in self.store.get(f"has/{rank}").decode().split()}
            common = has if common is None else common & has
        return max(common or {0}, default=0)

    def part(self, is_stopping: Callable[[], bool]) -> None:
        """Leave when all ranks are done, the store's host last, or after a minute without them.

        A rank that leaves early would close connections on which others still send.
        """
        self._count("done", is_stopping)
        if self._place.rank == 0:
            self._count("left", is_stopping)
        else:
            self.store.add("left", 1)

    def _count(self, word: str, is_stopping: Callable[[], bool]) -> None:
        """Add this rank to those counted under ``word`` and wait for all."""
        deadline = time.monotonic() + _PART_WITHIN
        count = self.store.add(word, 1)
        while count < self._place.world and time.monotonic() < deadline and not is_stopping():
            time.sleep(_PAUSE / 5)
            count = self.store.add(word, 0)


def _resolved(name: str, port: int, timeout: float) -> str:
    """Wait until the name has an address and return that."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            return str(socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)[0][4][0])
        except socket.gaierror as error:
            if time.monotonic() >= deadline:
                raise RendezvousError(f"{name} has no address after {timeout:.0f} s") from error
            time.sleep(_PAUSE)
