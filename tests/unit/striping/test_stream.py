"""Whatever happens to the lanes, the bytes arrive exactly once and in order."""

from collections import deque
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.striping.frames import ACK, DATA, FIN, HEADER, MAX_FRAME, PATH, ProtocolError
from geotrain.striping.lanes import Lane
from geotrain.striping.paths import Paths
from geotrain.striping.receiver import Receiver
from geotrain.striping.sender import Sender
from geotrain.striping.stream import Stream, reset_frame

A, B = 0, 1


@dataclass(eq=False)
class Wire:
    """A connection between two streams: bytes in flight in both directions."""

    lanes: tuple[Lane, Lane]
    flight: tuple[bytearray, bytearray] = field(default_factory=lambda: (bytearray(), bytearray()))
    window: int = 100

    def room(self, side: int) -> int:
        return self.window - len(self.flight[side])


class Bench:
    """Two streams and the wires between them; every step is asked for, none happens by itself."""

    def __init__(
        self, buffer: int = 256, block: int = 32, paths: int = 1, limit: int | None = None
    ) -> None:
        self.ends = Stream(buffer, block, paths, limit), Stream(buffer, block, paths, limit)
        self.wires: list[Wire] = []
        self.connected = 0
        self.to_write: tuple[deque[bytes], deque[bytes]] = deque(), deque()
        self.got = bytearray(), bytearray()

    def connect(self, window: int = 100) -> Wire:
        number, self.connected = self.connected, self.connected + 1
        wire = Wire((self.ends[A].attach(number), self.ends[B].attach(number)), window=window)
        self.wires.append(wire)
        return wire

    def kill(self, wire: Wire, keep: tuple[int, int] = (0, 0)) -> None:
        """The connection dies; of what is in flight only ``keep`` bytes a direction arrive."""
        for side, kept in zip((A, B), keep, strict=True):
            self.deliver(wire, side, kept)
        self.wires.remove(wire)
        for side in (A, B):
            self.ends[side].detach(wire.lanes[side])

    def write(self, side: int, data: bytes) -> int:
        space = self.ends[side].space()
        count = min(len(space), len(data))
        space[:count] = data[:count]
        self.ends[side].wrote(count)
        return count

    def send(self, side: int, wire: Wire, at_most: int = 1 << 30) -> bool:
        """Give one offer to a wire; it takes what its window allows."""
        pieces = self.ends[side].offer(wire.lanes[side])
        data = b"".join(pieces)
        count = min(len(data), wire.room(side), at_most)
        if count:
            wire.flight[side].extend(data[:count])
            self.ends[side].accepted(wire.lanes[side], pieces, count)
        return count > 0

    def deliver(self, wire: Wire, side: int, count: int = 1 << 30) -> bool:
        """``count`` bytes that ``side`` sent arrive at the other end."""
        data = bytes(wire.flight[side][:count])
        del wire.flight[side][:count]
        self.ends[1 - side].receive(wire.lanes[1 - side], memoryview(data))
        return bool(data)

    def read(self, side: int, count: int = 1 << 30) -> bool:
        data = bytes(self.ends[side].deliverable()[:count])
        self.ends[side].take(len(data))
        self.got[side].extend(data)
        return bool(data)

    def settle(self) -> None:
        """Let everything happen until nothing does."""
        busy = True
        while busy:
            busy = False
            for side in (A, B):
                for wire in self.wires:
                    busy |= self.send(side, wire)
                    busy |= self.deliver(wire, side)
                busy |= self.read(side)


def pump(bench: Bench, payloads: tuple[bytes, bytes]) -> None:
    """Write both payloads and run to the end."""
    written = [0, 0]
    while True:
        for side in (A, B):
            written[side] += bench.write(side, payloads[side][written[side] :])
        bench.settle()
        if written == [len(p) for p in payloads]:
            return


STEP = st.tuples(
    st.sampled_from(["write", "send", "deliver", "read", "kill", "connect"]),
    st.integers(0, 1),
    st.integers(0, 7),
    st.integers(1, 130),
)


@given(
    sizes=st.tuples(st.integers(0, 800), st.integers(0, 800)),
    windows=st.lists(st.integers(1, 120), min_size=1, max_size=5),
    block=st.integers(1, 64),
    buffer=st.integers(1, 300),
    paths=st.integers(1, 3),
    limit=st.none() | st.integers(1, 200),
    steps=st.lists(STEP, max_size=120),
)
def test_any_interleaving_and_any_loss_of_lanes_delivers_every_byte_once_in_order(
    sizes: tuple[int, int],
    windows: list[int],
    block: int,
    buffer: int,
    paths: int,
    limit: int | None,
    steps: list[tuple[str, int, int, int]],
) -> None:
    payloads = tuple(bytes((i * 7 + side) % 251 for i in range(sizes[side])) for side in (A, B))
    bench = Bench(buffer, block, paths, limit)
    for window in windows:
        bench.connect(window)
    written = [0, 0]
    for verb, side, which, count in steps:
        wire = bench.wires[which % len(bench.wires)]
        if verb == "write":
            written[side] += bench.write(side, payloads[side][written[side] :][:count])
        elif verb == "send":
            bench.send(side, wire, count)
        elif verb == "deliver":
            bench.deliver(wire, side, count)
        elif verb == "read":
            bench.read(side, count)
        elif verb == "kill" and len(bench.wires) > 1:
            bench.kill(wire, (count, count // 2))
        elif verb == "connect":
            bench.connect(count)
    pump(bench, (payloads[A][written[A] :], payloads[B][written[B] :]))
    assert bytes(bench.got[B]) == payloads[A]
    assert bytes(bench.got[A]) == payloads[B]
    for end in bench.ends:
        end.finish()
    bench.settle()
    assert all(end.is_done and end.is_remote_finished for end in bench.ends)
    assert [e.bytes_sent for e in bench.ends] == list(sizes)
    assert [e.bytes_received for e in bench.ends] == list(reversed(sizes))


def test_half_close_leaves_the_other_direction_open() -> None:
    bench = Bench()
    bench.connect()
    bench.write(A, b"question")
    bench.ends[A].finish()
    bench.settle()
    assert bench.ends[B].is_remote_finished
    assert not bench.ends[A].is_done
    assert bench.ends[A].space() == b""
    pump(bench, (b"", b"answer"))
    bench.ends[B].finish()
    bench.settle()
    assert bytes(bench.got[A]) == b"answer"
    assert bench.ends[A].is_done
    assert bench.ends[B].is_done
    assert bench.ends[B].is_local_finished


def test_the_end_of_a_stream_is_sent_again_when_its_lane_dies() -> None:
    bench = Bench()
    doomed, other = bench.connect(), bench.connect()
    bench.ends[A].finish()
    bench.send(A, doomed)
    bench.kill(doomed)
    bench.send(A, other)
    bench.deliver(other, A)
    assert bench.ends[B].is_remote_finished


def test_an_acknowledgement_lost_with_its_lane_is_said_again() -> None:
    bench = Bench()
    doomed, other = bench.connect(), bench.connect()
    bench.write(A, b"x")
    bench.ends[A].finish()
    for _ in range(2):
        bench.send(A, doomed)
    bench.deliver(doomed, A)
    bench.read(B)
    assert bench.send(B, doomed)
    bench.kill(doomed)
    assert bench.ends[B].next_path([0]) == 0
    bench.send(B, other)
    bench.deliver(other, B)
    bench.ends[B].finish()
    bench.settle()
    assert bench.ends[A].is_done


def test_what_is_delivered_is_done_only_when_the_far_end_was_told() -> None:
    bench = Bench()
    wire, other = bench.connect(), bench.connect()
    for end in bench.ends:
        end.finish()
    bench.settle()
    bench.kill(wire)
    assert bench.ends[A].is_delivered
    assert not bench.ends[A].is_done  # the last acknowledgement may have died with that lane
    assert bench.send(A, other)
    assert bench.ends[A].is_done


def test_a_dead_lane_costs_only_what_was_not_acknowledged() -> None:
    bench = Bench(buffer=1024, block=64)
    first, second = bench.connect(1000), bench.connect(1000)
    bench.write(A, bytes(128))
    bench.send(A, first)
    bench.send(A, second)
    assert bench.ends[A].detach(first.lanes[A]) == 64
    bench.wires.remove(first)
    bench.ends[B].receive(first.lanes[B], memoryview(bytes(first.flight[A])))
    bench.settle()
    assert bytes(bench.got[B]) == bytes(128)
    assert bench.ends[B].duplicates == 64


def test_a_sender_stops_at_the_credit_and_the_receiver_at_its_buffer() -> None:
    bench = Bench(buffer=100, block=40)
    wire = bench.connect(10_000)
    assert bench.write(A, bytes(500)) == 100
    while bench.send(A, wire):
        pass
    bench.deliver(wire, A)
    assert len(bench.ends[B].deliverable()) == 100
    assert bench.write(A, bytes(500)) == 0  # nothing was acknowledged yet
    assert bench.send(B, wire)
    bench.deliver(wire, B)
    assert bench.write(A, bytes(500)) == 100  # all arrived, so the sender's ring is free …
    assert not bench.send(A, wire)  # … but the far application has read nothing
    bench.read(B, 30)
    assert bench.send(B, wire)
    bench.deliver(wire, B)
    assert bench.send(A, wire)
    assert bench.deliver(wire, A)


def test_greeting_establishes_the_stream_before_any_byte() -> None:
    bench = Bench()
    bench.connect()
    assert bench.ends[B].next_path([0]) is None
    bench.ends[B].greet()
    assert not bench.ends[A].is_established
    bench.settle()
    assert bench.ends[A].is_established


def test_a_part_of_a_frame_stays_with_its_lane() -> None:
    bench = Bench(block=32)
    narrow, wide = bench.connect(window=20), bench.connect(window=1000)
    bench.write(A, bytes(range(64)))
    bench.send(A, narrow)  # 16 bytes of header and 4 of payload
    bench.send(A, wide)
    bench.deliver(narrow, A)
    bench.deliver(wide, A)
    assert bytes(bench.ends[B].deliverable()) == bytes(range(4))
    assert bench.send(A, narrow)
    assert not bench.ends[A].is_done
    bench.settle()
    assert bytes(bench.got[B]) == bytes(range(64))


def test_reset_reaches_the_far_end() -> None:
    bench = Bench()
    wire = bench.connect()
    bench.ends[B].receive(wire.lanes[B], memoryview(reset_frame()))
    assert bench.ends[B].is_reset


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (HEADER.pack(9, 0, 0), "kind 9"),
        (HEADER.pack(DATA, 0, 0), "frame of 0 bytes"),
        (HEADER.pack(DATA, MAX_FRAME + 1, 0), "frame of"),
        (HEADER.pack(DATA, 257, 0), "beyond 256"),
        (HEADER.pack(1, 0, 5), "byte 5 was acknowledged"),
        (HEADER.pack(FIN, 0, 4) + HEADER.pack(DATA, 5, 0), "beyond 4"),
        (HEADER.pack(FIN, 0, 4) + HEADER.pack(FIN, 0, 5), "cannot end"),
        (HEADER.pack(DATA, 2, 0) + b"ab" + HEADER.pack(FIN, 0, 1), "cannot end"),
    ],
)
def test_a_peer_that_breaks_the_protocol_is_refused(frame: bytes, complaint: str) -> None:
    bench = Bench()
    wire = bench.connect()
    with pytest.raises(ProtocolError, match=complaint):
        bench.ends[B].receive(wire.lanes[B], memoryview(frame))


@pytest.mark.parametrize("block", [0, MAX_FRAME + 1])
def test_a_block_has_bounds(block: int) -> None:
    with pytest.raises(ValueError, match="block of"):
        Stream(256, block)


def test_the_backlog_counts_what_waits() -> None:
    sender = Sender(256, 32)
    sender.space()[:40] = bytes(40)
    sender.wrote(40)
    lane = Lane()
    assert sender.backlog == 40
    part = sender.peek()
    assert part == (0, 32)
    sender.commit(lane, part)
    assert sender.backlog == 8
    assert sender.lose(lane) == 32
    assert sender.backlog == 40


def test_frames_that_wait_beyond_a_gap_are_counted() -> None:
    receiver = Receiver(256)
    receiver.place(8, 8, memoryview(b"late"))
    assert receiver.reordered == 1
    receiver.place(0, 0, memoryview(b"earliest"))
    assert receiver.reordered == 0
    assert bytes(receiver.deliverable()) == b"earliestlate"


def test_a_frame_may_lie_across_the_end_of_the_ring() -> None:
    receiver = Receiver(8)
    receiver.place(0, 0, memoryview(b"abcdef"))
    receiver.take(6)
    receiver.place(6, 6, memoryview(b"ghij"))
    assert bytes(receiver.deliverable()) == b"gh"
    receiver.take(2)
    assert bytes(receiver.deliverable()) == b"ij"


def test_of_bytes_that_are_partly_known_the_others_are_kept() -> None:
    receiver = Receiver(8)
    receiver.place(0, 0, memoryview(b"abc"))
    receiver.place(1, 1, memoryview(b"bcde"))
    assert bytes(receiver.deliverable()) == b"abcde"
    assert receiver.duplicates == 2


def test_a_path_with_deep_buffers_gets_no_more_than_its_limit() -> None:
    bench = Bench(buffer=4096, block=32, paths=2, limit=128)
    shallow, deep = bench.connect(window=1 << 20), bench.connect(window=1 << 20)
    bench.write(A, bytes(1000))
    ready = {0: shallow, 1: deep}
    while (path := bench.ends[A].next_path(ready)) is not None:
        bench.send(A, ready[path])
    assert [len(wire.flight[A]) // 48 for wire in (shallow, deep)] == [4, 4]  # frames of 32 + 16
    bench.deliver(deep, A)
    assert bench.ends[B].next_path([0]) == 0  # so much has arrived that it must be told
    bench.send(B, shallow)
    bench.deliver(shallow, B)
    assert bench.ends[A].next_path(ready) == 1


def test_a_full_path_still_carries_acknowledgements() -> None:
    bench = Bench(block=32, paths=2, limit=32)
    wire = bench.connect()
    bench.write(A, bytes(64))
    bench.send(A, wire)
    assert bench.ends[A].next_path([0]) is None
    bench.ends[A].greet()
    assert bench.ends[A].next_path([0]) == 0
    pieces = bench.ends[A].offer(wire.lanes[A])
    assert {piece[0] for piece in pieces} == {ACK, PATH}


def test_a_path_that_is_none_voids_the_stream() -> None:
    stream = Stream(256, 32, paths=2, path_limit=64)
    with pytest.raises(ProtocolError, match="path 2 is not within 0 and 1"):
        stream.receive(stream.attach(), memoryview(HEADER.pack(PATH, 2, 10)))


def test_what_a_dead_lane_held_frees_its_path() -> None:
    paths = Paths(2, 100)
    paths.give(0, 100)
    assert paths.emptiest([0]) is None
    paths.lose(0, 60)
    assert paths.outstanding(0) == 40
    paths.arrived(0, 70)  # some of it had arrived after all
    assert paths.outstanding(0) == 0
    paths.arrived(0, 50)  # overtaken on another lane
    assert paths.outstanding(0) == 0
