"""The site builds strictly, and a page of it asks nobody else for anything."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.pages import ROOT

LOADED = re.compile(
    r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=\"?(https?://[^\s\">]+)", re.I
)
IN_STYLES = re.compile(r"(?:@import|url\()\s*['\"]?https?://")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_it_builds_and_loads_nothing_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        text = page.read_text()
        assert not [url for url in LOADED.findall(text) if "squidfunk.github.io" not in url], page
    for sheet in site.rglob("*.css"):
        assert not IN_STYLES.search(sheet.read_text()), sheet


def test_pages_of_the_root_are_in_it_with_links_that_lead(site):
    text = (site / "contributing.html").read_text()
    assert "Decide in one place, act in another" in text
    assert (site / "changelog.html").exists()
    assert (site / "reporting.html").exists()
