"""The chart's schema knows the settings as they are."""

import json
from pathlib import Path

import pytest

from geotrain.cli import chart_values
from geotrain.settings import Settings

ROOT = Path(__file__).parents[3]


def test_the_charts_schema_agrees_with_the_settings() -> None:
    text = (ROOT / chart_values.SCHEMA).read_text()
    assert chart_values.completed(text) == text


def test_every_setting_can_be_given_but_those_that_the_chart_makes() -> None:
    sections = chart_values.settings_schema()["properties"]
    assert sections.keys() == {"log", "controller"}
    own = {"sidecarImage", "healthPort"}
    fields = Settings.model_json_schema()["$defs"]["ControllerSettings"]["properties"].keys()
    assert sections["controller"]["properties"].keys() == fields - own
    assert all(section["additionalProperties"] is False for section in sections.values())


def test_a_difference_is_said_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    chart_values.SCHEMA.parent.mkdir(parents=True)
    chart_values.SCHEMA.write_text(json.dumps({"$defs": {}}))
    assert chart_values.main(["--check"]) == 1
    assert "run make crds" in capsys.readouterr().err
    assert chart_values.main([]) == 0
    assert chart_values.main(["--check"]) == 0
