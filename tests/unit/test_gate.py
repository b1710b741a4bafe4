import math
import struct

import pytest

from geotrain import gate
from geotrain.gate import Gate, GateState, GateWriter, State


class Clock:
    """Time that only moves when somebody sleeps."""

    def __init__(self, now=100.0):
        self.now = now
        self.slept = []
        self.on_sleep = None

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds
        if self.on_sleep:
            self.on_sleep()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "gates" / "team-a_gpt_r2"


@pytest.fixture
def writer(path, clock):
    writer = GateWriter(path, clock)
    yield writer
    writer.close()


@pytest.fixture
def reader(path, clock):
    reader = Gate(path, clock, clock.sleep)
    yield reader
    reader.close()


def idle(until, **more):
    return GateState(state=State.IDLE, idle_until=until, **more)


def test_what_is_written_is_read(writer, reader):
    bubbles = ((100.5, 100.75), (101.0, 101.125))
    writer.write(idle(100.5, iteration=7, period=1.5, bubbles=bubbles))
    assert reader.read() == GateState(
        State.IDLE, idle_until=100.5, updated=100.0, iteration=7, period=1.5, bubbles=bubbles
    )


def test_the_page_has_the_documented_layout(writer, path):
    writer.write(idle(100.5, iteration=7, period=1.5, bubbles=((100.5, 100.75),)))
    page = path.read_bytes()
    assert len(page) == 4096
    assert page[:8] == b"GTGATE1\0"
    assert struct.unpack_from("<QIIqqqq", page, 8)[1:] == (
        2, 1, 100_500_000_000, 100_000_000_000, 7, 1_500_000_000,
    )  # fmt: skip
    assert struct.unpack_from("<qq", page, 56) == (100_500_000_000, 100_750_000_000)


def test_a_page_holds_240_bubbles_and_drops_the_rest(writer, reader):
    bubbles = tuple((200.0 + i, 200.5 + i) for i in range(241))
    writer.write(idle(150.0, bubbles=bubbles))
    assert reader.read().bubbles == bubbles[:240]


def test_a_new_page_is_unknown_and_closed(writer, reader):
    assert reader.read().state is State.UNKNOWN
    assert not reader.open_for(0.0, guard=0.0)


def test_a_missing_page_is_unknown_until_it_appears(path, clock, reader):
    assert reader.read() == GateState()
    writer = GateWriter(path, clock)
    writer.write(idle(101.0))
    assert reader.open_for(0.5)
    writer.close()


@pytest.mark.parametrize(
    ("state", "seconds", "is_open"),
    [
        (idle(100.010), 0.008, True),
        (idle(100.010), 0.009, False),  # would end within the guard
        (idle(math.inf), 1e6, True),
        (idle(None), 0.0, False),  # nobody knows how long: training goes first
        (GateState(State.COMPUTING, idle_until=101.0), 0.001, False),
        (GateState(State.UNKNOWN, idle_until=101.0), 0.001, False),
    ],
)
def test_open_only_for_work_that_ends_before_the_guard(writer, reader, state, seconds, is_open):
    writer.write(state)
    assert reader.open_for(seconds, guard=0.0019) is is_open


@pytest.mark.parametrize(("period", "limit"), [(0.0, 10.0), (1.0, 5.0), (60.0, 300.0)])
def test_a_silent_writer_closes_the_gate(writer, reader, clock, period, limit):
    writer.write(idle(1000.0, period=period))
    clock.now += limit
    assert reader.read().state is State.IDLE
    clock.now += 0.001
    assert reader.read() == GateState()


def test_when_training_is_done_the_gate_stays_open(writer, reader, clock):
    writer.write(idle(math.inf, period=1.0))
    clock.now += 1e6
    assert reader.read().is_done
    assert reader.open_for(10.0)


@pytest.mark.parametrize("last", [idle(101.0), idle(math.inf)], ids=["stale", "done"])
def test_a_page_that_took_the_place_of_another_is_followed(path, clock, writer, reader, last):
    writer.write(last)
    assert reader.read() == GateState(State.IDLE, last.idle_until, updated=100.0)
    path.unlink()
    second = GateWriter(path, clock)
    clock.now += 11
    second.write(GateState(State.COMPUTING))
    assert reader.read() == GateState(State.COMPUTING, updated=111.0)
    second.close()


def test_a_page_that_was_removed_is_unknown(path, clock, writer, reader):
    writer.write(idle(101.0))
    reader.read()
    path.unlink()
    clock.now += 11
    assert reader.read() == GateState()


def test_a_file_that_is_only_being_created_is_unknown(path, reader):
    path.parent.mkdir()
    path.write_bytes(b"")
    assert reader.read() == GateState()


def test_a_restarted_writer_goes_on_with_the_page_of_one_that_died_midway(path, clock, reader):
    first = GateWriter(path, clock)
    first.write(idle(101.0))
    first.close()
    page = bytearray(path.read_bytes())
    struct.pack_into("<Q", page, 8, 5)  # odd: died while writing
    path.write_bytes(page)
    assert reader.read() == GateState()
    second = GateWriter(path, clock)
    second.write(idle(102.0))
    assert reader.read().idle_until == 102.0
    assert struct.unpack_from("<Q", path.read_bytes(), 8)[0] % 2 == 0
    second.close()


@pytest.mark.parametrize(
    ("offset", "value"),
    [(0, b"X"), (20, b"\xff\xff"), (24, b"\x01"), (4088, b"\0\0\0\0")],
    ids=["magic", "count", "body", "checksum"],
)
def test_a_damaged_page_is_unknown(path, writer, reader, offset, value):
    writer.write(idle(101.0))
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(value)
    assert reader.read() == GateState()


def test_a_page_that_changes_under_the_copy_is_read_again(path, writer, reader, clock):
    writer.write(idle(101.0))
    with path.open("r+b", buffering=0) as file:
        file.seek(8)
        file.write(struct.pack("<Q", 3))

        def finish():
            file.seek(8)
            file.write(struct.pack("<Q", 4))

        clock.on_sleep = finish
        assert reader.read().idle_until == 101.0
    assert clock.slept == [0.0]


def test_a_sequence_that_is_seen_before_what_was_written_under_it_is_not_believed(path, reader):
    writer = GateWriter(path)
    old = path.read_bytes()
    writer.write(idle(math.inf))
    path.write_bytes(path.read_bytes()[:16] + old[16:])
    assert reader.read() == GateState()
    writer.write(idle(math.inf))
    assert reader.read().is_done
    writer.close()


def test_a_page_is_taken_apart_once_as_long_as_nothing_is_written(writer, reader):
    writer.write(idle(101.0, bubbles=((101.5, 102.0),)))
    first = reader.read()
    assert reader.read() is first
    writer.write(idle(101.0, bubbles=((101.5, 102.0),)))
    assert reader.read() is not first


def test_a_state_of_a_later_version_is_unknown(writer, reader):
    writer.write(GateState(state=9, idle_until=101.0))
    assert reader.read().state is State.UNKNOWN


def test_waiting_ends_when_the_bubble_begins(writer, reader, clock):
    writer.write(GateState(State.COMPUTING, period=1.0, bubbles=((99.0, 99.5), (100.25, 100.5))))

    def at_the_bubble():
        if clock.now >= 100.25:
            writer.write(idle(100.5, period=1.0))

    clock.on_sleep = at_the_bubble
    assert reader.wait(0.01)
    assert 100.25 <= clock.now <= 100.252  # the pauses shrink towards the expected start
    assert max(clock.slept) <= 0.01


def test_waiting_without_a_prediction_polls(writer, reader, clock):
    writer.write(GateState(State.COMPUTING))
    assert not reader.wait(0.01, timeout=0.012)
    assert clock.slept == pytest.approx([0.005, 0.005, 0.002])


def test_an_open_gate_does_not_sleep(writer, reader, clock):
    writer.write(idle(math.inf))
    assert reader.wait(0.01, timeout=0.0)
    assert clock.slept == []


def test_closing_twice_is_harmless(writer, reader):
    writer.write(idle(101.0))
    reader.read()
    reader.close()
    reader.close()
    assert reader.read().idle_until == 101.0


def test_the_checksum_lies_beyond_the_last_bubble():
    assert gate._BUBBLES_AT + gate.MAX_BUBBLES * gate._BUBBLE.size <= gate._CHECKSUM_AT
