"""Fixtures: a worker process beside a gate page and an emulated accelerator."""

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from geotrain.gate import GateWriter
from support.accelerators import AcceleratorServer

ROOT = Path(__file__).parents[3]
PROFILE = {"layers": 10, "layerTimes": [{"tokens": 1000, "time": "4ms"}]}


class Program:
    """A program that serves HTTP, as in its container."""

    def __init__(self, module, arguments, variables, python=sys.executable):
        self._process = subprocess.Popen(
            [python, "-m", module, "--port", "0", *arguments],
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": f"{ROOT / 'operator'}:{ROOT}",
                **variables,
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        line = self._process.stdout.readline()
        assert line.startswith("serving on port"), line
        self.port = int(line.split()[-1])

    def call(self, path, body=None, timeout=60):
        """Return (status, headers, JSON) of a request."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                return response.status, response.headers, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, json.load(error)

    def later(self, path, body):
        """Call in a thread; the returned function waits for the answer."""
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.call(path, body)))
        thread.start()

        def answer():
            thread.join(60)
            return answers[0]

        return answer

    def terminate(self):
        """Ask it to end."""
        self._process.send_signal(signal.SIGTERM)

    def wait(self, timeout=90):
        """Wait for its end; return the exit code."""
        return self._process.wait(timeout)

    def close(self):
        """End it for sure."""
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture
def accelerator(tmp_path):
    server = AcceleratorServer(tmp_path / "accelerator.sock")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def gate(tmp_path):
    writer = GateWriter(tmp_path / "gates" / "team-a_gpt_r2")
    yield writer
    writer.close()


@pytest.fixture
def run(tmp_path, accelerator):
    """Start programs; the worker's device is that of rank 2."""
    programs = []

    def start(*arguments, module="examples.prefill.worker", python=sys.executable, **variables):
        profile = tmp_path / "prefill.json"
        profile.write_text(json.dumps(PROFILE))
        environment = {
            "GEOTRAIN_PROFILE": str(profile),
            "GEOTRAIN_GATE": str(tmp_path / "gates" / "team-a_gpt_r2"),
            "GEOTRAIN_ACCELERATOR": accelerator.path,
        }
        programs.append(Program(module, arguments, {**environment, **variables}, python))
        return programs[-1]

    yield start
    for program in programs:
        program.close()
