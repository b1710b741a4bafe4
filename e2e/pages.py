"""Runs the shell blocks of pages as a reader would: one after another, in one terminal."""

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from e2e.lab import ROOT, LabError, programs
from support.pages import Block

PATIENCE = 400  # seconds for one block
MOST_SHOWN = 3000  # characters of what a block printed that failed
_DOCKER = """#!/bin/sh
export PATH='{path}' PYTHONPATH='{root}:{root}/operator'
exec '{python}' -m e2e.registry "$@"
"""
_EXPORT = re.compile(r"^export (\w+)=", re.M)


@dataclass
class Reader:
    """A person at a terminal in the repository's folder.

    What a block exports, later blocks see. ``folder`` holds that and the reader's own ``docker``;
    ``seconds`` is how long each block took, by its place in its page.
    """

    folder: Path
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        environment = programs()
        # Not what this test was started with: no virtual environment is active in a reader's shell.
        path = environment["PATH"].split(os.pathsep)
        path = [each for each in path if each != str(Path(sys.executable).parent)]
        docker = self.folder / "bin" / "docker"
        docker.parent.mkdir()
        docker.write_text(
            _DOCKER.format(path=os.pathsep.join(path), root=ROOT, python=sys.executable)
        )
        docker.chmod(0o755)
        path.insert(0, str(docker.parent))
        self._environment = {**environment, "PATH": os.pathsep.join(path), "NO_COLOR": "1"}
        self._state = self.folder / "exported"
        self._state.touch()

    def run(self, block: Block) -> str:
        """Run a block and return what it printed. Raises LabError with it where it failed."""
        script = f". {self._state}\n{block.text}\nexport -p > {self._state}\n"
        began = time.monotonic()
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
            env=self._environment,
            cwd=ROOT,
            check=False,
        )
        self.seconds[block.name] = time.monotonic() - began
        if done.returncode:
            shown = done.stdout[-MOST_SHOWN:]
            raise LabError(f"{block.name} ended with {done.returncode}:\n{block.text}\n{shown}")
        return done.stdout

    def settle(self, block: Block, values: Mapping[str, str]) -> None:
        """Take the page's own values, run as they stand, and put ``values`` in their place."""
        given = set(_EXPORT.findall(block.text))
        if given != set(values):
            raise LabError(f"{block.name} sets {sorted(given)}, the bed knows {sorted(values)}")
        mine = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in values.items())
        self.run(Block(block.page, block.line, block.language, mine))
