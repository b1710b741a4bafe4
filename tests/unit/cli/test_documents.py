"""docs/plan-output.md names every key, and the documents hold what it names."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from geotrain.cli.main import app

ROOT = Path(__file__).parents[3]
DATA = Path(__file__).parent / "data"
FILES = [
    *("-f", str(DATA / "job.yaml"), "--topology", str(DATA / "topology.yaml")),
    *("--topology", str(DATA / "nowhere.yaml"), "-o", "json"),
]
PAGE = (ROOT / "docs/plan-output.md").read_text()
SECTIONS = {part.partition("\n")[0]: part for part in PAGE.split("## geotrain ")[1:]}


def keys(value):
    if isinstance(value, dict):
        yield from value
        for each in value.values():
            yield from keys(each)
    elif isinstance(value, list):
        for each in value:
            yield from keys(each)


@pytest.mark.parametrize(
    ("command", "options"), [("plan", ["--objective", "pareto"]), ("timeline", [])]
)
def test_every_key_is_documented_and_every_documented_key_is_there(command, options):
    result = CliRunner().invoke(app, [command, *FILES, *options])
    assert result.exit_code == 0, result.output
    found = set(keys(json.loads(result.stdout)))
    marked = re.findall(r"`([A-Za-z.\[\]]+)`", SECTIONS[command])
    named = {part for text in marked for part in re.split(r"[.\[\]]+", text) if part}
    assert found <= named
    assert {name for name in named if name[0].islower()} <= found
