"""Signals over a real socket: they arrive in order, and a full or dead listener costs no time."""

import json
import socket
import time

import pytest

from geotrain.progress import Progress


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "signal.sock")


@pytest.fixture
def progress(path):
    progress = Progress.from_environment({"GEOTRAIN_SIGNAL": path})
    yield progress
    progress.close()


def listen(path):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(path)
    listener.settimeout(20)
    return listener


def test_signals_arrive_in_order(path, progress):
    with listen(path) as listener:
        progress.iteration(3)
        progress.computing("0F0", 0.01)
        progress.done()
        events = [json.loads(listener.recv(4096))["event"] for _ in range(3)]
    assert events == ["iteration", "compute", "done"]


def test_a_listener_that_does_not_read_never_blocks(path, progress):
    with listen(path):
        begin = time.monotonic()
        for number in range(2000):
            progress.iteration(number)
        assert time.monotonic() - begin < 1
    assert progress.dropped > 0


def test_a_listener_that_starts_later_or_again_is_found(path, progress, tmp_path):
    progress.iteration(0)
    for number in (1, 2):
        with listen(path) as listener:
            progress.iteration(number)
            assert json.loads(listener.recv(4096))["iteration"] == number
        (tmp_path / "signal.sock").unlink()
    assert progress.dropped == 1
