"""Tables of text that fit their width. Pure: rows in, lines out.

A line is never broken inside a word. Where the columns do not fit, cells are wrapped at spaces; if
their longest words still do not fit, the columns that say so are left out, the last first; and if
that does not help either, each row becomes a block with a line a field. Without a width (a pipe, a
file) every row is one line, so that columns stay where they are and programs can read them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from rich.cells import cell_len

GAP: Final = 2
"""Spaces between two columns."""


class Style(StrEnum):
    """How a line or a word is set off on a terminal."""

    PLAIN = ""
    TITLE = "title"
    GOOD = "good"
    BAD = "bad"
    WARNING = "warning"
    FAINT = "faint"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of output; ``lead``, its first characters, may be set off from the rest."""

    text: str
    style: Style = Style.PLAIN
    lead: int = 0


@dataclass(frozen=True, slots=True)
class Prose:
    """A sentence or two, wrapped at spaces; further lines are indented by ``indent``."""

    text: str
    style: Style = Style.PLAIN
    lead: str = ""
    indent: int = 0


@dataclass(frozen=True, slots=True)
class Column:
    """A column; an ``optional`` one may be left out where it is narrow."""

    head: str
    optional: bool = False


@dataclass(slots=True)
class Table:
    """Rows under heads, with an optional title above and a caption below."""

    columns: Sequence[Column]
    title: str = ""
    caption: str = ""
    rows: list[tuple[str, ...]] = field(default_factory=list)
    styles: list[Style] = field(default_factory=list)

    def add(self, *cells: str, style: Style = Style.PLAIN) -> None:
        """Put a row at the end; missing cells are empty."""
        clean = [" ".join(cell.split()) for cell in cells]
        self.rows.append((*clean, *[""] * (len(self.columns) - len(clean))))
        self.styles.append(style)


Block: TypeAlias = Table | Prose


def table(title: str, *heads: str) -> Table:
    """An empty table of columns that are all needed."""
    return Table([Column(head) for head in heads], title)


def lines(blocks: Iterable[Block], width: int | None) -> Iterator[Line]:
    """All blocks at a width, None for any. Tables with a title are set apart by an empty line."""
    for number, block in enumerate(blocks):
        if isinstance(block, Prose):
            yield from _prose(block, width)
        else:
            if number and block.title:
                yield Line("")
            yield from _table(block, width)


def wrapped(text: str, width: int | None) -> list[str]:
    """Lines of at most ``width`` cells; a word that is longer has a line of its own."""
    if width is None or cell_len(text) <= width:
        return [text]
    found: list[str] = []
    line = ""
    for word in text.split():
        longer = f"{line} {word}" if line else word
        if line and cell_len(longer) > width:
            found.append(line)
            line = word
        else:
            line = longer
    return [*found, line]


def _prose(block: Prose, width: int | None) -> Iterator[Line]:
    if width is None:
        yield Line(f"{block.lead}{block.text}", block.style, len(block.lead))
        return
    first, *rest = wrapped(block.text, max(1, width - cell_len(block.lead)))
    yield Line(f"{block.lead}{first}", block.style, len(block.lead))
    for line in wrapped(" ".join(rest), max(1, width - block.indent)) if rest else ():
        yield Line(" " * block.indent + line, Style.PLAIN if block.lead else block.style)


def _table(block: Table, width: int | None) -> Iterator[Line]:
    if block.title:
        yield Line(block.title, Style.TITLE)
    if not block.columns:
        return
    shown = _shown(block, width)
    if shown is None:
        yield from _blocks(block, width)
    else:
        yield from _grid(block, shown, width)
        left_out = [each.head for number, each in enumerate(block.columns) if number not in shown]
        if left_out:
            said = f"not shown for lack of width: {', '.join(left_out)}"
            yield from (Line(each, Style.FAINT) for each in wrapped(said, width))
    if block.caption:
        yield from (Line(each, Style.FAINT) for each in wrapped(block.caption, width))


def _shown(block: Table, width: int | None) -> list[int] | None:
    """The columns that fit, by number; None where not even the necessary ones do."""
    shown = list(range(len(block.columns)))
    while width is not None and _total([_narrowest(block, each) for each in shown]) > width:
        spare = [each for each in shown if block.columns[each].optional]
        if not spare:
            return None
        shown.remove(spare[-1])
    return shown


def _grid(block: Table, shown: Sequence[int], width: int | None) -> Iterator[Line]:
    widths = _widths(block, shown, width)
    heads = [block.columns[each].head for each in shown]
    yield from (Line(each, Style.TITLE) for each in _row(widths, heads))
    for row, style in zip(block.rows, block.styles, strict=True):
        cells = [row[each] for each in shown]
        yield from (Line(each, style) for each in _row(widths, cells))


def _widths(block: Table, shown: Sequence[int], width: int | None) -> list[int]:
    """A width for each column: what it would like, or less of the widest until all fit."""
    widths = [max(map(cell_len, _cells(block, each))) for each in shown]
    least = [_narrowest(block, each) for each in shown]
    while width is not None and _total(widths) > width:
        room = [(now, number) for number, now in enumerate(widths) if now > least[number]]
        widths[max(room)[1]] -= 1
    return widths


def _row(widths: Sequence[int], cells: Sequence[str]) -> Iterator[str]:
    parts = [wrapped(cell, width) for cell, width in zip(cells, widths, strict=True)]
    for number in range(max(map(len, parts))):
        line = [
            _padded(part[number] if number < len(part) else "", width)
            for part, width in zip(parts, widths, strict=True)
        ]
        yield (" " * GAP).join(line).rstrip()


def _blocks(block: Table, width: int | None) -> Iterator[Line]:
    """A block a row, a line a field, for what is too wide as a table."""
    margin = max(cell_len(column.head) for column in block.columns) + GAP
    for number, (row, style) in enumerate(zip(block.rows, block.styles, strict=True)):
        if number:
            yield Line("")
        for column, cell in zip(block.columns, row, strict=True):
            inner = None if width is None else max(1, width - margin)
            for place, part in enumerate(wrapped(cell, inner)):
                head = column.head if place == 0 else ""
                yield Line(f"{_padded(head, margin)}{part}".rstrip(), style)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))


def _cells(block: Table, number: int) -> list[str]:
    return [block.columns[number].head, *(row[number] for row in block.rows)]


def _narrowest(block: Table, number: int) -> int:
    """The longest word of a column."""
    words = (word for cell in _cells(block, number) for word in cell.split())
    return max(map(cell_len, words), default=0)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)
