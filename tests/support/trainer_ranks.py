"""Runs the trainer's ranks as processes of this machine, over loopback."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def torch_python():
    """The interpreter that has PyTorch; skips the test where none is found."""
    candidates = (os.environ.get("GEOTRAIN_TORCH_PYTHON"), sys.executable, "/usr/bin/python3")
    for python in filter(None, candidates):
        probe = subprocess.run([python, "-c", "import torch"], capture_output=True, check=False)
        if probe.returncode == 0:
            return python
    pytest.skip("no interpreter with PyTorch: install python3-torch or set GEOTRAIN_TORCH_PYTHON")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


PATIENCE = 400.0  # seconds; ten are usual, a busy machine imports PyTorch for minutes


class Ranks:
    """A job of stages x replicas, and what its ranks print."""

    def __init__(self, python, folder, stages, replicas, micro_batches):
        self._python = python
        self._folder = folder
        self._world = stages * replicas
        self.variables = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{ROOT / 'operator'}:{ROOT}",
            "GLOO_SOCKET_IFNAME": "lo",
            "MASTER_ADDR": "127.0.0.1",
            "WORLD_SIZE": str(self._world),
            "GEOTRAIN_PIPELINE": str(stages),
            "GEOTRAIN_DATA": str(replicas),
            "GEOTRAIN_MICRO_BATCHES": str(micro_batches),
            "GEOTRAIN_MICRO_BATCH": "1",
        }
        self.processes = []

    def start(self, *arguments, signals=None, **variables):
        """Start all ranks; ``signals`` maps ranks to the sockets of their sidecars."""
        variables["MASTER_PORT"] = str(free_port())
        for rank in range(self._world):
            own = {"RANK": str(rank), "GEOTRAIN_SIGNAL": (signals or {}).get(rank, "")}
            process = self.start_one("--iterations", "20", *arguments, **variables, **own)
            self.processes.append(process)

    def start_one(self, *arguments, **variables):
        """Start one process, its output going to files."""
        number = variables.get("RANK", "alone")
        with (
            (self._folder / f"out-{number}").open("w") as out,
            (self._folder / f"err-{number}").open("w") as err,
        ):
            command = [self._python, "-m", "examples.trainer", *arguments]
            return subprocess.Popen(
                command, env={**self.variables, **variables}, stdout=out, stderr=err
            )

    def alone(self, *arguments):
        """Train the whole model in one process; return its losses."""
        process = self.start_one("--iterations", "20", "--single-process", *arguments)
        try:
            assert process.wait(PATIENCE) == 0, self.errors("alone")
        finally:
            process.kill()
            process.wait()
        return [line["loss"] for line in self.lines("alone")]

    def wait(self, timeout=PATIENCE):
        """Wait for all ranks; return their exit codes."""
        return [process.wait(timeout) for process in self.processes]

    def lines(self, number):
        """What a rank has printed so far."""
        text = (self._folder / f"out-{number}").read_text()
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def errors(self, number):
        """What a rank has complained about."""
        return (self._folder / f"err-{number}").read_text()

    def kill(self):
        """End whatever still runs."""
        for process in self.processes:
            process.kill()
            process.wait()
