"""The sending half of a stream: a ring of bytes that are kept until they are acknowledged.

    acknowledged ≤ next ≤ tail ≤ acknowledged + capacity        next ≤ credit

Bytes before ``next`` have been given to a lane, those up to ``tail`` come from the application.
"""

from collections import deque

from geotrain.striping.frames import MAX_FRAME, ProtocolError
from geotrain.striping.lanes import Lane, Range
from geotrain.units import Bytes


class Sender:
    """Cuts bytes into ranges of at most ``block`` and gives each to one lane at a time."""

    def __init__(self, capacity: Bytes, block: Bytes) -> None:
        if not 0 < block <= MAX_FRAME:
            raise ValueError(f"a block of {block} bytes is not within 1 and {MAX_FRAME}")
        self._ring = memoryview(bytearray(capacity))
        self._capacity = capacity
        self._block = block
        self._next = 0
        self._tail = 0
        self._credit = capacity
        self._finished = False
        self._resend: deque[Range] = deque()
        self.acknowledged = 0

    @property
    def sent(self) -> Bytes:
        """Bytes of the stream that were given to lanes, each counted once."""
        return min(self._next, self._tail)

    @property
    def is_finished(self) -> bool:
        """The application has ended its stream."""
        return self._finished

    @property
    def is_acknowledged(self) -> bool:
        """Everything arrived, the end of the stream too."""
        return self._finished and self.acknowledged == self._tail + 1

    @property
    def backlog(self) -> Bytes:
        """Bytes that wait for a lane or for credit."""
        return max(0, self._tail - self._next) + sum(e - s for s, e in self._resend)

    def space(self) -> memoryview:
        """Where the application's next bytes go; empty while the ring is full."""
        if self._finished:
            return self._ring[:0]
        free = self._capacity - (self._tail - self.acknowledged)
        at = self._tail % self._capacity
        return self._ring[at : min(at + free, self._capacity)]

    def wrote(self, count: Bytes) -> None:
        """``count`` bytes were put into ``space()``."""
        self._tail += count

    def finish(self) -> None:
        """The application sends no more."""
        self._finished = True

    def peek(self) -> Range | None:
        """The range that should go next, on whichever lane; None when there is none."""
        while self._resend:
            if self._resend[0][1] > self.acknowledged:
                return self._resend[0]
            self._resend.popleft()
        start, tail = self._next, self._tail
        if start < tail:
            wrap = start - start % self._capacity + self._capacity
            end = min(start + self._block, tail, self._credit, wrap)
            return (start, end) if start < end else None
        if self._finished and start == tail:
            return start, start + 1
        return None

    def payload(self, part: Range) -> memoryview | None:
        """The bytes of a range; None for the range that stands for the end of the stream."""
        start, end = part
        if start >= self._tail:
            return None
        at = start % self._capacity
        return self._ring[at : at + end - start]

    def commit(self, lane: Lane, part: Range) -> None:
        """``lane`` has taken the range that ``peek`` named."""
        lane.forget(self.acknowledged)
        lane.outstanding.append(part)
        if self._resend:
            self._resend.popleft()
        else:
            self._next = part[1]

    def lose(self, lane: Lane) -> Bytes:
        """``lane`` is dead: what it may not have delivered goes over the others. How many bytes."""
        lost = [r for r in lane.outstanding if r[1] > self.acknowledged]
        lane.outstanding.clear()
        lane.pending.clear()
        self._resend = deque(sorted({*self._resend, *lost}))
        return sum(end - start for start, end in lost)

    def acknowledge(self, offset: int, credit: Bytes) -> bool:
        """The far end has everything before ``offset`` and room for ``credit`` bytes more.

        True when that was news. Acknowledgements overtake each other on different lanes.
        """
        if offset > self._next:
            raise ProtocolError(f"byte {offset} was acknowledged, but only {self._next} were sent")
        news = offset > self.acknowledged or offset + credit > self._credit
        self.acknowledged = max(self.acknowledged, offset)
        self._credit = max(self._credit, offset + credit)
        return news
