"""Fixtures: the ranks of a job, and the test bed's accelerator."""

import contextlib
import time

import pytest

from support import trainer_ranks
from support.accelerators import AcceleratorServer


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


@pytest.fixture
def accelerator(tmp_path):
    server = AcceleratorServer(tmp_path / "accelerator.sock")
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
