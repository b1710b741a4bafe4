"""Settings are whole or refused, and a refusal names every fault by its path."""

from pathlib import Path

import pytest

from geotrain.errors import InputError
from geotrain.settings import Settings


def test_an_empty_file_means_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("")
    assert Settings.from_file(tmp_path / "empty.yaml") == Settings()


def test_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text("controller: {settle_timeout: 3}")
    assert Settings.from_file(tmp_path / "settings.yaml").controller.settle_timeout == 3.0


def test_every_fault_is_named_by_its_path() -> None:
    with pytest.raises(InputError) as refused:
        Settings.from_document({"controller": {"settle_timeout": "soon"}, "colour": "blue"})
    assert "controller.settle_timeout: " in str(refused.value)
    assert "colour: " in str(refused.value)


def test_settings_are_a_mapping() -> None:
    with pytest.raises(InputError, match="not a mapping"):
        Settings.from_document([])


@pytest.mark.parametrize(
    ("text", "complaint"), [(None, "cannot be read"), ("a: [", "are not YAML")], ids=["none", "cut"]
)
def test_a_file_that_is_none(tmp_path: Path, text: str | None, complaint: str) -> None:
    path = tmp_path / "settings.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=complaint):
        Settings.from_file(path)
