"""One end of a striped stream: both directions, and the lanes that carry them.

The caller does this, in any order, and never blocks here:

    application → ``space``, ``wrote``, ``finish`` → ``offer`` a lane, ``accepted`` → connection
    connection  → ``receive`` → ``deliverable``, ``take``, ``is_remote_finished`` → application
"""

from collections.abc import Iterable

from geotrain.striping.frames import ACK, DATA, FIN, HEADER, MAX_FRAME, PATH, RESET, ProtocolError
from geotrain.striping.lanes import Lane, Range
from geotrain.striping.paths import Paths
from geotrain.striping.receiver import Receiver
from geotrain.striping.sender import Sender
from geotrain.units import Bytes

ACKNOWLEDGEMENTS_PER_BUFFER = 8
_HEADER_BYTES = HEADER.size


class Stream:
    """Bytes in both directions over any number of lanes.

    ``buffer`` is what each direction holds at most, at the sender (not yet acknowledged) and at
    the receiver (not yet delivered); ``block`` is the largest frame. With blocks above half of a
    connection's window the connection idles for part of each round trip. The lanes lie on
    ``paths`` paths, on each of which at most ``path_limit`` bytes are on their way.
    """

    def __init__(
        self, buffer: Bytes, block: Bytes, paths: int = 1, path_limit: Bytes | None = None
    ) -> None:
        self._sender = Sender(buffer, block)
        self._receiver = Receiver(buffer)
        self._acknowledge_every = max(1, buffer // ACKNOWLEDGEMENTS_PER_BUFFER)
        self._paths = Paths(paths, path_limit)
        self._told = 0  # the acknowledgement that the far end was last told
        self._told_taken = 0
        self._owes_ack = False
        self._offered: Range | None = None
        self._offered_ack = False
        self.lanes: list[Lane] = []
        self.is_reset = False
        self.is_established = False

        self.space = self._sender.space
        self.wrote = self._sender.wrote
        self.finish = self._sender.finish
        self.deliverable = self._receiver.deliverable

    @property
    def bytes_sent(self) -> Bytes:
        """Bytes of this end's application that were given to lanes."""
        return self._sender.sent

    @property
    def bytes_received(self) -> Bytes:
        """Bytes delivered to this end's application."""
        return self._receiver.taken

    @property
    def duplicates(self) -> Bytes:
        """Bytes that arrived twice: the price of connections that died."""
        return self._receiver.duplicates

    @property
    def is_local_finished(self) -> bool:
        """Whether the application at this end sends no more."""
        return self._sender.is_finished

    @property
    def is_remote_finished(self) -> bool:
        """The far application's stream has ended and was delivered in full."""
        return self._receiver.is_finished

    @property
    def is_delivered(self) -> bool:
        """Both directions ended and arrived, though the far end may not know it yet."""
        return self._sender.is_acknowledged and self._receiver.is_finished

    @property
    def is_done(self) -> bool:
        """Both directions ended, arrived, and the far end was told so."""
        return (
            self.is_delivered
            and not self._ack_due()
            and not any(lane.pending for lane in self.lanes)
        )

    def attach(self, number: int = 0) -> Lane:
        """A new connection carries this stream from now on."""
        lane = Lane(number, number % self._paths.count)
        self.lanes.append(lane)
        return lane

    def detach(self, lane: Lane) -> Bytes:
        """A connection died: what it held goes over the others. How many bytes that is."""
        self.lanes.remove(lane)
        self._owes_ack = True  # the last one may have died with it
        lost = self._sender.lose(lane)
        self._paths.lose(lane.path, lost)
        return lost

    def greet(self) -> None:
        """Tell the far end at once that this stream is accepted, before any byte arrives."""
        self._owes_ack = True

    def next_path(self, ready: Iterable[int]) -> int | None:
        """On which of the ``ready`` paths something should go next; None where nothing should."""
        candidates = list(ready)
        path = self._paths.emptiest(candidates) if self._sender.peek() is not None else None
        if path is None and candidates and self._ack_due():
            return candidates[0]
        return path

    def offer(self, lane: Lane) -> list[memoryview | bytes]:
        """What the connection of ``lane`` should be given next; empty when there is nothing.

        Nothing changes until ``accepted`` says how much of it the connection took.
        """
        if lane.pending:
            return list(lane.pending)
        pieces: list[memoryview | bytes] = []
        receiver = self._receiver
        self._offered_ack = self._ack_due()
        if self._offered_ack:
            pieces.append(HEADER.pack(ACK, receiver.credit, receiver.acknowledgement))
            pieces += [HEADER.pack(PATH, path, count) for path, count in self._paths.reports]
        self._offered = part = self._sender.peek() if self._paths.has_room(lane.path) else None
        if part is not None:
            payload = self._sender.payload(part)
            if payload is None:
                pieces.append(HEADER.pack(FIN, 0, part[0]))
            else:
                pieces.append(HEADER.pack(DATA, len(payload), part[0]))
                pieces.append(payload)
        return pieces

    def accepted(self, lane: Lane, pieces: list[memoryview | bytes], count: Bytes) -> bool:
        """The connection took ``count`` (1 or more) bytes of the offer; True if that was all.

        The rest of a frame stays with its connection, since half of it is on the way.
        """
        if not lane.pending:
            if self._offered_ack:
                self._told = self._receiver.acknowledgement
                self._told_taken = self._receiver.taken
                self._owes_ack = False
                self._paths.reported()
            if self._offered is not None:
                self._sender.commit(lane, self._offered)
                self._paths.give(lane.path, self._offered[1] - self._offered[0])
        lane.pending = _rest(pieces, count)
        return not lane.pending

    def receive(self, lane: Lane, data: memoryview) -> None:
        """Bytes arrived on a lane, cut anywhere. Raises ProtocolError; the stream is then void."""
        at, size = 0, len(data)
        if lane.partial:
            at = min(size, _HEADER_BYTES - len(lane.partial))
            header = lane.partial + bytes(data[:at])
            lane.partial = header if len(header) < _HEADER_BYTES else b""
            if not lane.partial:
                self._begin(lane, *HEADER.unpack(header))
        while at < size:
            if lane.remaining:
                part = data[at : at + lane.remaining]
                self._receiver.place(lane.start, lane.position, part)
                self._paths.received(lane.path, len(part))
                lane.position += len(part)
                lane.remaining -= len(part)
                at += len(part)
            elif size - at >= _HEADER_BYTES:
                self._begin(lane, *HEADER.unpack_from(data, at))
                at += _HEADER_BYTES
            else:
                lane.partial = bytes(data[at:])
                return

    def take(self, count: Bytes) -> None:
        """The application took ``count`` of the deliverable bytes."""
        self._receiver.take(count)

    def _begin(self, lane: Lane, kind: int, length: int, offset: int) -> None:
        """A frame's header has arrived."""
        if kind == DATA:
            if not 0 < length <= MAX_FRAME:
                raise ProtocolError(f"a frame of {length} bytes is not within 1 and {MAX_FRAME}")
            self._receiver.expect(offset, length)
            lane.start = lane.position = offset
            lane.remaining = length
        elif kind == ACK:
            self.is_established = True
            self._sender.acknowledge(offset, length)
        elif kind == PATH:
            if length >= self._paths.count:
                raise ProtocolError(f"path {length} is not within 0 and {self._paths.count - 1}")
            self._paths.arrived(length, offset)
        elif kind == FIN:
            self._receiver.finish(offset)
            self._owes_ack = True
        elif kind == RESET:
            self.is_reset = True
        else:
            raise ProtocolError(f"frames of kind {kind} are unknown")

    def _ack_due(self) -> bool:
        receiver = self._receiver
        return (
            self._owes_ack
            or self._paths.is_report_due
            or receiver.acknowledgement - self._told >= self._acknowledge_every
            or receiver.taken - self._told_taken >= self._acknowledge_every
            or (receiver.is_finished and receiver.acknowledgement != self._told)
        )


def reset_frame() -> bytes:
    """The frame that tells the far end that the application's connection was reset or refused."""
    return HEADER.pack(RESET, 0, 0)


def _rest(pieces: list[memoryview | bytes], count: Bytes) -> list[memoryview]:
    """What is left of ``pieces`` behind the first ``count`` bytes."""
    for index, piece in enumerate(pieces):
        if count < len(piece):
            return [memoryview(p) for p in (piece[count:], *pieces[index + 1 :])]
        count -= len(piece)
    return []
