"""One JSON object a line: iterations on standard output, actions into a file of their own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TextIO


class Reports:
    """Writes a line for each iteration."""

    def __init__(self, path: str | None = None, stream: TextIO = sys.stdout) -> None:
        self._path = path
        self._stream = stream

    def write(self, **values: object) -> None:
        """Write one line at once, so that it can be followed."""
        line = json.dumps(values)
        print(line, file=self._stream, flush=True)
        if self._path:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(line + "\n")


class Trace:
    """Writes a line for each action: when its message arrived, when it began and ended.

    Times are seconds of CLOCK_MONOTONIC, so lines of ranks on one machine can be laid side by side.
    """

    def __init__(self, folder: str, rank: int) -> None:
        self._path = Path(folder, f"actions-r{rank}.jsonl")
        self._path.parent.mkdir(parents=True, exist_ok=True)

    def write(
        self, iteration: int, action: str, arrived: float | None, begin: float, end: float
    ) -> None:
        """Write one action; ``arrived`` is None where it needs no message."""
        line = {"iteration": iteration, "action": action, "begin": begin, "end": end}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**line, "arrived": arrived}) + "\n")
