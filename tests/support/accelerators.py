"""The test bed's emulated accelerator as a process that a test can stop and start again."""

import json
import socket
import subprocess
import sys
from pathlib import Path

_PROGRAM = Path(__file__).parents[2] / "e2e" / "testbed" / "accelerator.py"


class AcceleratorServer:
    """A server at ``path``."""

    def __init__(self, path):
        self.path = str(path)
        self._process = None

    def start(self):
        """Start it and wait until it answers."""
        command = [sys.executable, str(_PROGRAM), self.path]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout.readline() == "ready\n"

    def stop(self):
        """End it."""
        self._process.terminate()
        self._process.wait()
        self._process.stdout.close()

    def busy(self):
        """What every device has done."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self.path)
            connection.sendall(b'{"query":"busy"}\n')
            with connection.makefile() as lines:
                return json.loads(lines.readline())["devices"]
