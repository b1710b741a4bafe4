from pathlib import Path
from xml.etree import ElementTree

import pytest

from geotrain.cli import pictures
from geotrain.planning.schedule.policies import POLICIES

ROOT = Path(__file__).parents[3]


def test_the_pictures_are_written_and_a_difference_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pictures, "PICTURES", {"gpipe": pictures.PICTURES["gpipe"]})
    assert pictures.main(["--check"]) == 1
    pictures.FOLDER.mkdir(parents=True)
    assert pictures.main([]) == 0
    assert pictures.main(["--check"]) == 0
    (pictures.FOLDER / "gpipe.svg").write_text("old")
    assert pictures.main(["--check"]) == 1
    assert "docs/schedules/gpipe.svg differs" in capsys.readouterr().err


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_every_picture_is_a_schedule_with_a_page_that_says_what_it_costs(name):
    assert name in POLICIES
    page = (ROOT / pictures.FOLDER / f"{name}.md").read_text()
    assert f"`geotrain schedule --policy {name}`" in page
    assert f"({name}.svg)" in page
    assert "| bubble |" in page or "| iteration |" in page
    assert "| memory of" in page
    assert "Source:" in page
    assert (ROOT / pictures.FOLDER / f"{name}.svg").read_text() == pictures.picture(name)


def test_a_picture_has_a_bar_for_each_action():
    """Eight micro-batches of F, I and W on four ranks, the background and the legend."""
    drawn = ElementTree.fromstring(pictures.picture("zb-1p"))
    bars = [each for each in drawn if each.tag.endswith("rect")]
    assert len(bars) == 3 * 8 * 4 + 1 + 3
