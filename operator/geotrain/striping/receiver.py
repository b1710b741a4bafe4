"""The receiving half of a stream: a ring in which bytes from all lanes find their place.

    taken ≤ next ≤ taken + capacity

Bytes before ``next`` have arrived without a gap, those before ``taken`` were delivered. What
arrived beyond a gap waits in the ring; the far end never sends beyond the credit, so every byte
that arrives has room and no lane is ever left unread.
"""

from geotrain.striping.frames import ProtocolError
from geotrain.units import Bytes


class Receiver:
    """Puts bytes in order. A frame that was lost is sent again as it was first cut."""

    def __init__(self, capacity: Bytes) -> None:
        self._ring = memoryview(bytearray(capacity))
        self._capacity = capacity
        self._next = 0
        self._taken = 0
        self._ahead: dict[int, int] = {}
        self._end: int | None = None
        self.duplicates: Bytes = 0

    @property
    def acknowledgement(self) -> int:
        """The first place of the sequence that has not arrived."""
        return self._next + (self._next == self._end)

    @property
    def credit(self) -> Bytes:
        """How far beyond the acknowledgement the far end may send."""
        return max(0, self._taken + self._capacity - self.acknowledgement)

    @property
    def taken(self) -> Bytes:
        """Bytes delivered to the application."""
        return self._taken

    @property
    def is_finished(self) -> bool:
        """The whole stream has arrived and was delivered."""
        return self._taken == self._end

    @property
    def reordered(self) -> int:
        """Frames that wait beyond a gap."""
        return len(self._ahead)

    def expect(self, offset: int, length: Bytes) -> None:
        """A frame is about to arrive. Raises ProtocolError where it breaks the credit."""
        limit = self._taken + self._capacity if self._end is None else self._end
        if offset + length > limit:
            raise ProtocolError(f"a frame ends at byte {offset + length}, beyond {limit}")

    def finish(self, offset: int) -> None:
        """The stream ends at ``offset``."""
        if self._end not in (None, offset) or offset < self._next:
            raise ProtocolError(f"the stream cannot end at byte {offset}")
        self._end = offset

    def place(self, start: int, position: int, data: memoryview) -> None:
        """Bytes of the frame that begins at ``start`` arrived; they belong at ``position``."""
        end = position + len(data)
        known = self._next
        if position < known:
            self.duplicates += min(end, known) - position
            if end <= known:
                return
            data = data[known - position :]
            position = known
        at = position % self._capacity
        room = self._capacity - at
        if len(data) <= room:
            self._ring[at : at + len(data)] = data
        else:
            self._ring[at:] = data[:room]
            self._ring[: len(data) - room] = data[room:]
        if position > known:
            self._ahead[start] = max(end, self._ahead.get(start, 0))
            return
        ahead = self._ahead
        while ahead and end in ahead:
            end = ahead.pop(end)
        self._next = end

    def deliverable(self) -> memoryview:
        """The bytes that are next for the application, as far as they lie in one piece."""
        at = self._taken % self._capacity
        return self._ring[at : min(at + self._next - self._taken, self._capacity)]

    def take(self, count: Bytes) -> None:
        """The application took ``count`` of the deliverable bytes."""
        self._taken += count
