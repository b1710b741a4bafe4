"""Where output goes: how wide it is, whether it takes colours, and what is told of long work.

Not on a terminal, or with NO_COLOR set, everything is plain text. The width is that of the
terminal or of COLUMNS; a pipe or a file without COLUMNS has none.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

import typer

from geotrain.cli.tables import Block, Line, Prose, Style, lines, wrapped
from geotrain.units import Seconds

PATIENCE: Final[Seconds] = 2.0
"""Work that takes longer is told of."""
GRID: Final = 100
"""Columns of a picture of text where nothing says how wide it may be."""
_TURN: Final[Seconds] = 0.2
_NARROWEST: Final = 20
_SPINNER: Final = "|/-\\"
_LOOKS: Final[dict[Style, dict[str, object]]] = {
    Style.TITLE: {"bold": True},
    Style.GOOD: {"fg": "green"},
    Style.BAD: {"fg": "red", "bold": True},
    Style.WARNING: {"fg": "yellow"},
    Style.FAINT: {"dim": True},
}


def show(*blocks: Block, wide: bool = False) -> None:
    """Print blocks to standard output; ``wide`` lets lines run on as far as they need."""
    emit(lines(blocks, None if wide else width()), sys.stdout)


def tell(text: str, lead: str = "", style: Style = Style.PLAIN) -> None:
    """Print a sentence to standard error: wrapped on a terminal, else on one line."""
    text, *more = text.split("\n")  # a grid, which is to stay as it is
    room = _columns(sys.stderr) if sys.stderr.isatty() else None
    block = Prose(text, style, lead)
    emit([*lines([block], room), *(Line(each) for each in more)], sys.stderr)


def warn(sentence: str) -> None:
    """Print a warning to standard error."""
    tell(sentence, "warning: ", Style.WARNING)


def emit(found: Iterable[Line], stream: TextIO) -> None:
    """Write lines; what is set off looks so on a terminal that takes it."""
    styled = takes_styles(stream)
    for line in found:
        stream.write((_styled(line) if styled else line.text) + "\n")


def width() -> int | None:
    """Columns of standard output, None where there is no limit."""
    text = os.environ.get("COLUMNS", "")
    if text.isascii() and text.isdecimal() and int(text) > 0:
        return max(_NARROWEST, int(text))
    return _columns(sys.stdout)


def _columns(stream: TextIO) -> int | None:
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError, AttributeError):  # a pipe, a file, or no file at all
        return None
    return max(_NARROWEST, columns) if columns else None


def fitted(draw: Callable[[int], str], columns: int | None = None) -> str:
    """A picture of text whose lines fit the terminal, or which is as wide as it was asked for.

    ``draw`` takes the width of what can be stretched; labels beside it come on top.
    """
    drawn, room = draw(columns or GRID), width()
    if columns is not None or room is None:
        return drawn
    pairs = list(zip(drawn.splitlines(), draw(GRID + 1).splitlines(), strict=True))
    stretched = [len(one) for one, other in pairs if len(one) != len(other)]
    if stretched:
        drawn = draw(max(_NARROWEST, room - max(stretched) + GRID))
    shown = zip(drawn.splitlines(), pairs, strict=True)
    return "\n".join(
        line if len(one) != len(other) else "\n".join(wrapped(line, room))
        for line, (one, other) in shown
    )


def is_terminal() -> bool:
    """Whether standard output is one that can be cleared."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def takes_styles(stream: TextIO) -> bool:
    """Whether bold and colours may be written."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not plain


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Tell on standard error that ``what`` goes on, if it takes more than two seconds.

    On a terminal a line counts the seconds and is wiped at the end; else one plain line is said.
    """
    ended = threading.Event()
    teller = threading.Thread(target=_tell_on, args=(what, ended), daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()


def _tell_on(what: str, ended: threading.Event) -> None:
    begin = time.monotonic()
    if ended.wait(PATIENCE):
        return
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        tell(f"{what} …")
        return
    turn = 0
    while not ended.wait(_TURN):
        turn += 1
        mark = _SPINNER[turn % len(_SPINNER)]
        sys.stderr.write(f"\r{mark} {what}, {time.monotonic() - begin:.0f} s\033[K")
        sys.stderr.flush()
    sys.stderr.write("\r\033[K")
    sys.stderr.flush()


def _styled(line: Line) -> str:
    look = _LOOKS.get(line.style)
    if look is None or not line.text:
        return line.text
    end = line.lead or len(line.text)
    return typer.style(line.text[:end], **look) + line.text[end:]  # type: ignore[arg-type]
