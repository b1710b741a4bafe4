"""The WAN's line: packets come out after the delay, in order, and a full queue drops."""

import pytest

from e2e.testbed.wan import IDLE_WAIT, QUEUE_BYTES, Line


def test_packets_come_out_after_the_delay_in_order() -> None:
    line = Line(tun=-1, delay=0.02)
    line.take(b"a", 1.000)
    line.take(b"b", 1.005)
    assert line.due(1.019) == []
    assert line.due(1.0201) == [b"a"]
    assert line.due(1.1) == [b"b"]
    assert line.held == 0


def test_the_next_packet_says_how_long_to_wait() -> None:
    line = Line(tun=-1, delay=0.02)
    assert line.wait(1.0) == IDLE_WAIT
    line.take(b"a", 1.0)
    assert line.wait(1.005) == pytest.approx(0.015)
    assert line.wait(2.0) == 0.0


def test_a_full_queue_drops() -> None:
    line = Line(tun=-1, delay=0.02)
    line.take(bytes(QUEUE_BYTES), 1.0)
    line.take(b"b", 1.0)
    assert len(line.packets) == 1
