"""Fixtures: the ranks of a job, and the test bed's accelerator."""

import contextlib
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support import trainer_ranks

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def torch_python():
    return trainer_ranks.torch_python()


@pytest.fixture
def make_ranks(torch_python, tmp_path):
    """Make the ranks of a job; whatever still runs at the end is killed."""
    with contextlib.ExitStack() as stack:

        def make(stages, replicas, micro_batches):
            made = trainer_ranks.Ranks(torch_python, tmp_path, stages, replicas, micro_batches)
            stack.callback(made.kill)
            return made

        yield make


class AcceleratorServer:
    """The test bed's accelerator as a process that can be restarted."""

    def __init__(self, path):
        self.path = path
        self._process = None

    def start(self):
        self._process = subprocess.Popen(
            [sys.executable, str(ROOT / "e2e/testbed/accelerator.py"), self.path],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout.readline() == "ready\n"

    def stop(self):
        self._process.terminate()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture
def accelerator(tmp_path):
    server = AcceleratorServer(str(tmp_path / "accelerator.sock"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def eventually():
    """Wait until a condition holds; fail with its name when it does not."""

    def wait(condition, what, seconds=60):
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"after {seconds} s: no {what}"
            time.sleep(0.05)

    return wait
