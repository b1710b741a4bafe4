"""How much is on its way on each path, so that none is given more than it can hold.

A path is what several lanes have in common: straight to the far end, or through a mate. A lent path
has buffers in the middle, which take bytes long before the far end has them; if every lane that can
take a frame got one, lent paths would hold most of a stream and the straight one would idle. So
the far end says how much arrived on each path, and a path gets no more than ``limit`` beyond it.
"""

from collections.abc import Iterable

from geotrain.units import Bytes

_REPORTS_PER_LIMIT = 4


class Paths:
    """Both directions' counts of payload bytes. ``limit`` of None: one path, or no bound."""

    def __init__(self, count: int, limit: Bytes | None) -> None:
        self._limit = limit if count > 1 else None
        self._given = [0] * count
        self._arrived = [0] * count
        self._received = [0] * count
        self._unreported: Bytes = 0

    @property
    def count(self) -> int:
        """How many paths there are."""
        return len(self._given)

    @property
    def reports(self) -> list[tuple[int, Bytes]]:
        """What the far end should be told: each path and the bytes that arrived on it."""
        return list(enumerate(self._received)) if self._limit is not None else []

    @property
    def is_report_due(self) -> bool:
        """Whether so much has arrived that the far end may wait for the news."""
        return self._limit is not None and self._unreported * _REPORTS_PER_LIMIT >= self._limit

    def reported(self) -> None:
        """The far end has been told."""
        self._unreported = 0

    def received(self, path: int, count: Bytes) -> None:
        """Bytes of the far end arrived on a path."""
        self._received[path] += count
        self._unreported += count

    def give(self, path: int, count: Bytes) -> None:
        """A lane of the path took bytes."""
        self._given[path] += count

    def lose(self, path: int, count: Bytes) -> None:
        """A lane of the path died; so many bytes that it had taken may never arrive on it."""
        self._given[path] -= count

    def arrived(self, path: int, total: Bytes) -> None:
        """The far end says how much arrived on a path. Reports may overtake each other."""
        self._arrived[path] = max(total, self._arrived[path])
        # Of what a dead lane lost, some had arrived after all.
        self._given[path] = max(self._given[path], self._arrived[path])

    def outstanding(self, path: int) -> Bytes:
        """Bytes on their way."""
        return self._given[path] - self._arrived[path]

    def has_room(self, path: int) -> bool:
        """Whether the path may be given more."""
        return self._limit is None or self.outstanding(path) < self._limit

    def emptiest(self, candidates: Iterable[int]) -> int | None:
        """Of these the one with the least on its way; None where all are full."""
        return min(filter(self.has_room, candidates), key=self.outstanding, default=None)
