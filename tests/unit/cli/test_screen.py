"""What is written where: styles only on a terminal, widths, and what is told of long work."""

import io
import os
import pty
import re
import sys
import time

import pytest

from geotrain.cli import screen
from geotrain.cli.tables import Line, Prose, Style, table


class Terminal(io.StringIO):
    def isatty(self):
        return True

    def fileno(self):
        raise OSError


@pytest.fixture
def plain_environment(monkeypatch):
    for name in ("NO_COLOR", "COLUMNS", "TERM"):
        monkeypatch.delenv(name, raising=False)


def test_a_terminal_gets_styles_and_a_pipe_none(plain_environment):
    for stream, wanted in ((Terminal(), "\x1b[1mhead\x1b[0m\n"), (io.StringIO(), "head\n")):
        screen.emit([Line("head", Style.TITLE)], stream)
        assert stream.getvalue() == wanted


def test_only_the_lead_is_set_off(plain_environment):
    stream = Terminal()
    screen.emit([Line("no: it does not fit", Style.BAD, 4)], stream)
    assert (
        re.sub(r"\x1b\[[0-9;]*m", "|", stream.getvalue()).rstrip("|\n").endswith("it does not fit")
    )
    assert "\x1b[0mit does" in stream.getvalue()


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_whoever_wants_no_styles_gets_none(plain_environment, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    stream = Terminal()
    screen.emit([Line("head", Style.TITLE), Line("x", Style.PLAIN)], stream)
    assert "\x1b" not in stream.getvalue()
    assert not screen.takes_styles(stream)


@pytest.mark.parametrize(
    ("columns", "width"), [("80", 80), ("200", 200), ("3", 20), ("0", None), ("x", None)]
)
def test_columns_says_how_wide_it_is(plain_environment, monkeypatch, capsys, columns, width):
    monkeypatch.setenv("COLUMNS", columns)
    assert screen.width() == width


def test_a_terminal_says_how_wide_it_is(plain_environment, monkeypatch):
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as stream, os.fdopen(ours, "rb", buffering=0):
        monkeypatch.setattr(sys, "stdout", stream)
        assert screen.width() is None  # a pty that nobody gave a size
        assert screen.is_terminal()


def test_a_pipe_has_no_width(plain_environment, capsys):
    assert screen.width() is None
    shown = table("", "why")
    shown.add("word " * 60)
    screen.show(shown)
    assert len(capsys.readouterr().out.splitlines()[1]) > 250


def test_wide_lets_lines_run_on(plain_environment, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "30")
    screen.show(Prose("word " * 20), wide=True)
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_errors_are_one_line_off_a_terminal(plain_environment, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "30")
    screen.warn("word " * 20)
    told = capsys.readouterr().err
    assert told.startswith("warning: word")
    assert told.count("\n") == 1


def test_a_grid_below_an_error_stays_as_it_is(capsys):
    screen.tell("wrong here\n0F0,  0F1\n^^^", "error: ", Style.BAD)
    assert capsys.readouterr().err == "error: wrong here\n0F0,  0F1\n^^^\n"


def test_a_picture_is_stretched_to_the_terminal(plain_environment, monkeypatch):
    def draw(columns):
        return "\n".join(["a head that is longer than that", f"row {'.' * columns}", "end"])

    assert screen.fitted(draw).splitlines()[1] == f"row {'.' * 100}"
    monkeypatch.setenv("COLUMNS", "60")
    assert screen.fitted(draw).splitlines()[1] == f"row {'.' * 56}"
    monkeypatch.setenv("COLUMNS", "24")
    assert screen.fitted(draw).splitlines()[:2] == ["a head that is longer", "than that"]
    assert screen.fitted(draw, 30).splitlines()[1] == f"row {'.' * 30}"
    assert screen.fitted(lambda _: "nothing") == "nothing"


def test_short_work_is_not_told_of(capsys):
    with screen.progress("planning"):
        pass
    assert capsys.readouterr().err == ""


def test_long_work_is_told_of_in_one_plain_line(monkeypatch, capsys):
    monkeypatch.setattr(screen, "PATIENCE", 0.01)
    with screen.progress("planning"):
        time.sleep(0.3)
    assert capsys.readouterr().err == "planning …\n"


def test_a_terminal_counts_the_seconds_and_is_wiped(plain_environment, monkeypatch):
    monkeypatch.setattr(screen, "PATIENCE", 0.01)
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with screen.progress("planning"):
        time.sleep(0.5)
    assert "planning, 0 s" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_an_empty_line_has_no_style(plain_environment):
    stream = Terminal()
    screen.emit([Line("", Style.TITLE), Line("plain")], stream)
    assert stream.getvalue() == "\nplain\n"
