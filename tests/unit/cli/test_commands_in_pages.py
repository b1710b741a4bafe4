"""The commands that pages and examples show for the example files do what they say."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from geotrain.cli.main import app

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.yaml")]
COMMAND = re.compile(r"^(?:# )?(?:\.venv/bin/)?geotrain ((?:plan|explore)\b.* examples/.*)$", re.M)
COMMANDS = sorted({found for page in PAGES for found in COMMAND.findall(page.read_text())})


def test_there_are_some_for_both():
    assert {command.split()[0] for command in COMMANDS} == {"plan", "explore"}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_a_page_works(command, monkeypatch):
    monkeypatch.chdir(ROOT)
    words = shlex.split(command)
    if words[0] == "explore":  # the whole search takes a minute where lines are traced
        words += ["--budget", "1ns"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
