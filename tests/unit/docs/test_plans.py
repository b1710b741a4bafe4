"""docs/plans.md is what geotrain says of the manifests in examples/plans, figure by figure."""

import pytest

from geotrain.cli import manifests
from support.pages import ROOT
from support.readings import printed, readings, stale

READINGS = readings()
PLANS = sorted((ROOT / "examples/plans").glob("*.yaml"))


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_each_manifest_is_read_on_the_page(path):
    (job,) = manifests.read([path]).jobs
    assert job.spec.model is not None
    name = f"examples/plans/{path.name}"
    assert any(name in reading.command for reading in READINGS)
    assert name in path.read_text() or "docs/plans.md" in path.read_text()


def test_there_are_six():
    assert len(PLANS) == 6


def test_figures_of_the_prose_are_those_of_the_answers():
    assert not stale(), "read the page again"


@pytest.mark.figures
@pytest.mark.parametrize("reading", READINGS, ids=lambda each: " ".join(each.command))
def test_the_page_shows_what_is_answered(reading):
    assert printed(reading.command) == reading.printed, (
        "make answers renews the page; read it again"
    )
