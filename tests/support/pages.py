"""The pages people read, taken apart: fenced blocks, the commands in them, links and headings.

A fenced block says in its first line what it is, and shell blocks are all tested. Which test runs a
block stands in a comment on the line before it, which no reader of the site sees:

    (nothing)                    by a unit test: what needs no cluster
    <!-- test: quick start -->   on the bed, in the order of the page (e2e/test_quickstart.py)
    <!-- test: running job -->   on the bed, while the quick start's job runs
    <!-- test: at the end -->    on the bed, when the quick start has removed everything
    <!-- test: figures -->       with what it prints, by make figures (support/readings.py)
    <!-- not run: REASON -->     nowhere; only its words are checked against the real commands
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = ("docs", "examples", "charts", "e2e", "tests", "benchmarks")
LANGUAGES: Final = frozenset({"sh", "text", "yaml", "json", "python", "csv"})
UNIT, QUICK_START, RUNNING_JOB, AT_THE_END, FIGURES, NOT_RUN = PLACES = (
    "unit", "quick start", "running job", "at the end", "figures", "not run",
)  # fmt: skip
PROGRAMS: Final = ("make", "geotrain", "kubectl", "helm", "docker", "export", "python3", "pip")

_FENCE: Final = re.compile(r"^( *)(`{3,})(.*)$")
_MARK: Final = re.compile(r"<!-- (?:test: (?P<place>[a-z ]+)|not run: (?P<why>.+)) -->")
_COMMENT: Final = re.compile(r"<!--.*?-->", re.S)
_LINK: Final = re.compile(r"(?<!\\)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)[^)]*\)")
_HEADING: Final = re.compile(r"^#{1,6} (.*?)(?: \{#([\w-]+)\})?$", re.M)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page. ``place`` is where it is tested, ``why`` why it is not."""

    page: str
    line: int
    language: str
    text: str
    place: str = UNIT
    why: str = ""

    @property
    def name(self) -> str:
        """Where it stands."""
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> tuple[tuple[str, ...], ...]:
        """The words of each command of a shell block: continued lines joined, comments left out."""
        return tuple(_commands(self.text))


def pages() -> tuple[str, ...]:
    """Every Markdown page of the project: in the root, and in the folders that hold pages."""
    found = [*ROOT.glob("*.md"), *(path for top in FOLDERS for path in (ROOT / top).rglob("*.md"))]
    return tuple(sorted(str(path.relative_to(ROOT)) for path in found))


def read(page: str) -> str:
    """The text of a page."""
    return (ROOT / page).read_text(encoding="utf-8")


def all_blocks() -> tuple[Block, ...]:
    """The blocks of all pages."""
    return tuple(block for page in pages() for block in blocks(read(page), page))


def blocks(text: str, page: str = "page.md") -> Iterator[Block]:
    """The fenced blocks of a page. Raises ValueError for one that is not closed."""
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        opened = _FENCE.match(lines[number])
        if opened is None:
            number += 1
            continue
        indent, fence, language = opened.groups()
        end = next(
            (n for n in range(number + 1, len(lines)) if lines[n].strip() == fence), len(lines)
        )
        if end == len(lines):
            raise ValueError(f"{page}:{number + 1}: this block is not closed")
        body = "".join(line.removeprefix(indent) + "\n" for line in lines[number + 1 : end])
        place, why = _marked(lines[number - 1] if number else "")
        yield Block(page, number + 1, language.strip(), body, place, why)
        number = end + 1


def _marked(line: str) -> tuple[str, str]:
    mark = _MARK.fullmatch(line.strip())
    if mark is None:
        return UNIT, ""
    return (NOT_RUN, mark["why"]) if mark["why"] else (mark["place"], "")


def _commands(text: str) -> Iterator[tuple[str, ...]]:
    heredoc = ""
    for line in text.replace("\\\n", " ").splitlines():
        if heredoc:
            heredoc = "" if line.strip() == heredoc else heredoc
            continue
        opened = re.search(r"<<-?\s*['\"]?(\w+)['\"]?", line)
        heredoc = opened[1] if opened else ""
        plain = line[: opened.start()] if opened else line
        lexer = shlex.shlex(plain, posix=True, punctuation_chars="|&;()<>")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in lexer:
            if set(word) <= set("|&;()"):
                if words:
                    yield tuple(words)
                words = []
            else:
                words.append(word)
        if words:
            yield tuple(words)


def links(text: str) -> tuple[str, ...]:
    """Where the links of a page lead, outside its blocks."""
    return tuple(_LINK.findall(_prose(text)))


def anchors(text: str) -> frozenset[str]:
    """The anchors of a page's headings, as GitHub and Python-Markdown both make them."""
    found: list[str] = []
    for title, given in _HEADING.findall(_prose(text)):
        words = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", title).strip().lower()
        slug = given or re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", words))
        found.append(slug)
    return frozenset(found)


def _prose(text: str) -> str:
    """A page without its blocks and comments."""
    kept: list[str] = []
    fence = ""
    for line in text.splitlines():
        opened = _FENCE.match(line)
        if opened and not fence:
            fence = opened[2]
        elif fence and line.strip() == fence:
            fence = ""
        elif not fence:
            kept.append(line)
    return _COMMENT.sub("", "\n".join(kept))
