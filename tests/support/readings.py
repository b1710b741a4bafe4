"""docs/plans.md: every command of it with what it prints, and figures in the prose from there.

A block of the page with ``<!-- test: figures -->`` holds one command, and the text block after it
what it prints, but for the table of choices. ``make answers`` renews these texts; then the test
names the figures of the prose that none of them has.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from typer.testing import CliRunner

from geotrain.cli.main import app
from support.pages import FIGURES, ROOT, blocks, read

PAGE: Final = "docs/plans.md"
_FIGURE: Final = re.compile(r"(?<![\w.-])\d+(?:,\d{3})*(?:\.\d+)?(?![\w-])")
_UNITS: Final = re.compile(r"(\d)(Gi|Mi|Ki|ms|us|s|G|M|T|B|%)\b")


@dataclass(frozen=True)
class Reading:
    """A command, what the page says that it prints, and the line of the fence before that."""

    command: tuple[str, ...]
    printed: str
    line: int


def readings() -> tuple[Reading, ...]:
    """All of the page, in its order."""
    found = list(blocks(read(PAGE), PAGE))
    return tuple(
        Reading(block.commands[0][1:], after.text, after.line)
        for block, after in pairwise(found)
        if block.place == FIGURES
    )


def printed(command: tuple[str, ...]) -> str:
    """What a command prints on a terminal of 100 columns, but for the choices."""
    before = os.getcwd()
    os.chdir(ROOT)
    try:
        result = CliRunner().invoke(app, list(command), env={"COLUMNS": "100"})
    finally:
        os.chdir(before)
    assert result.exit_code == 0, (command, result.output, result.exception)
    return "\n\n".join(_kept(result.stdout)) + "\n"


def _kept(text: str) -> Iterator[str]:
    for part in text.rstrip().split("\n\n"):
        if part.startswith("Choices"):  # of which the notes behind it are kept
            part = part[part.find("\nnote: ") + 1 :] if "\nnote: " in part else ""
        if part:
            yield part


def stale() -> list[str]:
    """Figures of the prose that neither an output nor a manifest beside it has."""
    text = read(PAGE)
    fenced = "\n".join(block.text for block in blocks(text, PAGE))
    manifests = "\n".join(path.read_text() for path in sorted((ROOT / "examples/plans").glob("*")))
    known = set(_figures(fenced + manifests))
    prose = re.sub(r"```.*?```", "", text, flags=re.S)
    return [each for each in dict.fromkeys(_figures(prose)) if each not in known]


def _figures(text: str) -> Iterator[str]:
    """Numbers without their units; 1 to 9 are words of the prose as well."""
    spaced = _UNITS.sub(r"\1 \2", text)
    yield from (each for each in _FIGURE.findall(spaced) if len(each) > 1)


def renew() -> None:
    """Write what every command prints into the page."""
    lines = read(PAGE).splitlines()
    for reading in reversed(readings()):  # the last first, so that the lines of others stay
        old = reading.printed.splitlines()
        lines[reading.line : reading.line + len(old)] = printed(reading.command).splitlines()
    (ROOT / PAGE).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    renew()
