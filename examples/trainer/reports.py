"""One JSON object a line, on standard output and, where wanted, at the end of a file."""

from __future__ import annotations

import json
import sys
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
