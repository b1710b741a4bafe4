"""A writer in another process hammers the page; no reader may ever see half of a state."""

import os
import signal
import subprocess
import sys
import time

import pytest

from geotrain.gate import Gate, GateWriter, State

# In every state all values tell the same number, so that a mix of two states shows.
WRITER = """
import itertools, sys
from geotrain.gate import GateState, GateWriter, State
writer = GateWriter(sys.argv[1])
print("ready", flush=True)
for n in itertools.count(1):
    bubbles = tuple((n * 1e-3 + i, n * 1e-3 + i + 0.5) for i in range(n % 241))
    writer.write(GateState(State.IDLE, n * 1e-3, iteration=n, period=1e6 + n, bubbles=bubbles))
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "page"


@pytest.fixture
def hammer(path):
    operator = os.path.dirname(os.path.dirname(sys.modules["geotrain"].__file__))
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        env={**os.environ, "PYTHONPATH": operator},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_reader_never_sees_a_torn_page(path, hammer):
    reader, states, unknown = Gate(path), [], 0
    deadline = time.monotonic() + 2.0
    while time.monotonic() < deadline:
        state = reader.read()
        if state.state is State.IDLE:
            n = state.iteration
            assert state.idle_until == pytest.approx(n * 1e-3, abs=1e-9)
            assert state.period == 1e6 + n
            assert len(state.bubbles) == n % 241
            assert all(
                begin == pytest.approx(n * 1e-3 + i, abs=1e-9) and end - begin == pytest.approx(0.5)
                for i, (begin, end) in list(enumerate(state.bubbles))[::40]
            )
            states.append(n)
        else:
            unknown += 1
    reader.close()
    assert len(set(states)) > 100, "the reader must have met many different states"
    assert states == sorted(states), "no state may come back after a later one"
    assert unknown < len(states) / 10


def test_a_writer_killed_anywhere_is_followed_by_the_next(path, hammer):
    reader = Gate(path)
    time.sleep(0.05)
    hammer.send_signal(signal.SIGKILL)
    hammer.wait()
    writer = GateWriter(path)
    assert reader.read().state is State.UNKNOWN
    writer.close()
    reader.close()
