"""A lane: what a stream knows about one of its connections."""

from collections import deque
from dataclasses import dataclass, field

Range = tuple[int, int]
"""Offsets of the stream: from the first, up to but without the second."""


@dataclass(eq=False, slots=True)
class Lane:
    """One connection of a stream, on one of its paths.

    Sending: ``pending`` is the rest of a frame of which the connection took only a part, and
    ``outstanding`` are the ranges that it carried and that are not known to have arrived.
    Receiving: ``start`` is the offset of the frame being read, ``position`` that of its next
    byte, ``remaining`` how many are to come, ``partial`` an incomplete header.
    """

    number: int = 0
    path: int = 0
    pending: list[memoryview] = field(default_factory=list)
    outstanding: deque[Range] = field(default_factory=deque)
    start: int = 0
    position: int = 0
    remaining: int = 0
    partial: bytes = b""

    def forget(self, acknowledged: int) -> None:
        """Drop the ranges at the front that have arrived."""
        outstanding = self.outstanding
        while outstanding and outstanding[0][1] <= acknowledged:
            outstanding.popleft()
