r"""The gate: one shared page on a node that says when a training rank's GPU is idle.

The rank's sidecar writes the page, a prefill worker on the same GPU reads it before every kernel,
so the GPU is back with training within one kernel. All times are seconds of CLOCK_MONOTONIC,
which every process of a node shares.

The page, little endian, 4096 bytes:

    offset  type        what
    0       8 bytes     magic "GTGATE1\0"
    8       u64         sequence, odd while the page is being written
    16      u32         state: 0 Unknown, 1 Computing, 2 Idle
    20      u32         count of bubbles
    24      i64         idle until, ns; 0: unknown; 2**63-1: training is done
    32      i64         when the page was last written, ns
    40      i64         iteration
    48      i64         period of an iteration, ns; 0: unknown
    56      count x     i64 begin, i64 end of a coming bubble, ns
    4088    u32         CRC-32 of bytes 0 up to the last bubble

The sequence lock alone is sound where stores become visible in order (x86). Python offers no
memory barrier, and training hosts may be Arm, so a checksum guards the copy as well, sequence
included: what was read under a sequence stays true as long as the page shows that sequence. A
reader that cannot get a whole copy sees Unknown, and Unknown is closed.

Standard library only: whoever imports this pulls in nothing else of geotrain.
"""

from __future__ import annotations

import math
import mmap
import os
import struct
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

PAGE_SIZE: Final = 4096
MAX_BUBBLES: Final = 240
MAGIC: Final = b"GTGATE1\0"
DONE_NS: Final = 2**63 - 1

STALE_PERIODS: Final = 5.0
"""A page that is not written for so many periods says nothing any more."""
STALE_SECONDS: Final = 10.0
"""The same where the period is unknown."""

_HEAD = struct.Struct("<IIqqqq")  # state, count, idle until, updated, iteration, period
_HEAD_AT = 16
_SEQUENCE = struct.Struct("<Q")
_SEQUENCE_AT = 8
_BUBBLE = struct.Struct("<qq")
_BUBBLES_AT = _HEAD_AT + _HEAD.size
_CHECKSUM = struct.Struct("<I")
_CHECKSUM_AT = 4088
_ATTEMPTS = 50
_SHORTEST_PAUSE = 0.001
_LONGEST_PAUSE = 0.01
_BLIND_PAUSE = 0.005  # where no bubble is foretold


class State(IntEnum):
    """What the rank's GPU does."""

    UNKNOWN = 0
    COMPUTING = 1
    IDLE = 2


_STATES = frozenset(State)


@dataclass(frozen=True)
class GateState:
    """What a page says."""

    state: State = State.UNKNOWN
    idle_until: float | None = None
    """When training is expected to compute again; None: unknown; ``math.inf``: never."""
    updated: float = 0.0
    """When the page was written; the writer fills it in."""
    iteration: int = 0
    period: float = 0.0
    """How long an iteration takes; 0: unknown."""
    bubbles: tuple[tuple[float, float], ...] = ()
    """(begin, end) of the bubbles that are expected next, in order."""

    @property
    def is_done(self) -> bool:
        """Training has ended, so the GPU is free for good."""
        return self.state is State.IDLE and self.idle_until == math.inf

    def is_stale(self, now: float) -> bool:
        """Whether the writer is silent for too long: its death must not leave the gate open."""
        limit = STALE_PERIODS * self.period if self.period > 0 else STALE_SECONDS
        return not self.is_done and now - self.updated > limit

    def is_open(self, now: float, seconds: float, guard: float) -> bool:
        """Whether ``seconds`` of work begun now end ``guard`` before training needs the GPU."""
        if self.state is not State.IDLE or self.idle_until is None:
            return False
        return now + seconds + guard <= self.idle_until


class GateWriter:
    """Writes the page of one rank; there is one writer a page at a time.

    The page is written in place and survives its writer, so readers that have it mapped follow a
    restarted sidecar. Raises OSError where the path cannot be created.
    """

    def __init__(
        self, path: str | os.PathLike[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.ftruncate(descriptor, PAGE_SIZE)
            self._page = mmap.mmap(descriptor, PAGE_SIZE)
        finally:
            os.close(descriptor)
        self._sequence = _sequence(self._page) | 1  # a writer that died mid-way left it odd
        self.write(GateState())

    def write(self, state: GateState) -> None:
        """Publish ``state`` with the time of now. Bubbles beyond the 240th are left out."""
        body = _encode(state, self._clock())
        sequence = _SEQUENCE.pack(self._sequence + 1)
        checksum = _CHECKSUM.pack(zlib.crc32(MAGIC + sequence + body))
        self._page[_SEQUENCE_AT:_HEAD_AT] = _SEQUENCE.pack(self._sequence)
        self._page[:_SEQUENCE_AT] = MAGIC
        self._page[_HEAD_AT : _HEAD_AT + len(body)] = body
        self._page[_CHECKSUM_AT : _CHECKSUM_AT + _CHECKSUM.size] = checksum
        self._page[_SEQUENCE_AT:_HEAD_AT] = sequence
        self._sequence += 2

    def close(self) -> None:
        """Unmap the page; what was written last stays, and goes stale unless training is done."""
        self._page.close()


class Gate:
    """Reads the page of one rank. A page that is missing, torn or stale reads as Unknown.

    The path may appear, or be replaced, at any time.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._path = path
        self._clock = clock
        self._sleep = sleep
        self._page: mmap.mmap | None = None
        self._inode = -1
        self._last = (-1, GateState())  # the sequence and the state that were read last

    def read(self) -> GateState:
        """Return what the page says now."""
        state = self._decode()
        if state.is_done or state.is_stale(self._clock()):  # or a new page took its place
            self._reopen()
            state = self._decode()
        return GateState() if state.is_stale(self._clock()) else state

    def open_for(self, seconds: float, guard: float = 0.002) -> bool:
        """Whether work of ``seconds`` may begin now and end ``guard`` before training comes back.

        Closed where the end of the bubble is unknown: training goes first.
        """
        return self.read().is_open(self._clock(), seconds, guard)

    def wait(self, seconds: float, guard: float = 0.002, timeout: float | None = None) -> bool:
        """Block until work of ``seconds`` may begin; False when ``timeout`` seconds pass first."""
        deadline = math.inf if timeout is None else self._clock() + timeout
        while True:
            state, now = self.read(), self._clock()
            if state.is_open(now, seconds, guard):
                return True
            if now >= deadline:
                return False
            self._sleep(min(_pause(state, now), deadline - now))

    def close(self) -> None:
        """Unmap the page."""
        if self._page is not None:
            self._page.close()
            self._page = None
            self._inode = -1
            self._last = (-1, GateState())

    def _decode(self) -> GateState:
        if self._page is None:
            self._reopen()
        if self._page is None:
            return GateState()
        for attempt in range(_ATTEMPTS):
            before = _sequence(self._page)
            if before == self._last[0]:  # nothing was written since
                return self._last[1]
            copy = self._page[:]
            if before % 2 == 0 and _sequence(self._page) == before and _is_whole(copy):
                self._last = (before, _decode(copy))
                return self._last[1]
            self._sleep(0.0 if attempt < _ATTEMPTS // 2 else 0.0001)
        return GateState()

    def _reopen(self) -> None:
        """Map the file that the path names now, unless it is mapped already."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self.close()
            return
        try:
            found = os.fstat(descriptor)
            if found.st_ino != self._inode:
                self.close()
                if found.st_size >= PAGE_SIZE:  # else its writer is just creating it
                    self._page = mmap.mmap(descriptor, PAGE_SIZE, prot=mmap.PROT_READ)
                    self._inode = found.st_ino
        finally:
            os.close(descriptor)


def _sequence(page: mmap.mmap) -> int:
    value: int = _SEQUENCE.unpack_from(page, _SEQUENCE_AT)[0]
    return value


def _is_whole(copy: bytes) -> bool:
    count = _HEAD.unpack_from(copy, _HEAD_AT)[1]
    if copy[:_SEQUENCE_AT] != MAGIC or count > MAX_BUBBLES:
        return False
    whole = zlib.crc32(copy[: _BUBBLES_AT + count * _BUBBLE.size])
    return bool(whole == _CHECKSUM.unpack_from(copy, _CHECKSUM_AT)[0])


def _encode(state: GateState, now: float) -> bytes:
    bubbles = state.bubbles[:MAX_BUBBLES]
    head = _HEAD.pack(
        state.state,
        len(bubbles),
        0 if state.idle_until is None else _ns(state.idle_until),
        _ns(now),
        state.iteration,
        _ns(state.period),
    )
    return head + b"".join(_BUBBLE.pack(_ns(begin), _ns(end)) for begin, end in bubbles)


def _decode(copy: bytes) -> GateState:
    state, count, idle_until, updated, iteration, period = _HEAD.unpack_from(copy, _HEAD_AT)
    bubbles = copy[_BUBBLES_AT : _BUBBLES_AT + count * _BUBBLE.size]
    return GateState(
        state=State(state) if state in _STATES else State.UNKNOWN,
        idle_until=_seconds(idle_until) if idle_until else None,
        updated=_seconds(updated),
        iteration=iteration,
        period=_seconds(period),
        bubbles=tuple((_seconds(b), _seconds(e)) for b, e in _BUBBLE.iter_unpack(bubbles)),
    )


def _ns(seconds: float) -> int:
    return DONE_NS if seconds == math.inf else round(seconds * 1e9)


def _seconds(ns: int) -> float:
    return math.inf if ns == DONE_NS else ns / 1e9


def _pause(state: GateState, now: float) -> float:
    """How long to sleep before looking again.

    Half the way to the next bubble that is expected, so that its start is met within a
    millisecond, but never longer than the error that a prediction may have.
    """
    begin = next((b for b, _ in state.bubbles if b > now), now + 2 * _BLIND_PAUSE)
    return min(max((begin - now) / 2, _SHORTEST_PAUSE), _LONGEST_PAUSE)
