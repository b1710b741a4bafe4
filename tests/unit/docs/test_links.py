"""Links of all pages lead somewhere, offline: files, folders and headings."""

import re
from posixpath import dirname, join, normpath

import pytest

from support import pages
from support.pages import ROOT

NAVIGATION = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]


@pytest.mark.parametrize("page", pages.pages())
def test_every_link_leads_somewhere(page):
    lost = [link for link in pages.links(pages.read(page)) if not _leads(page, link)]
    assert not lost, f"{page} links to what is not there: {lost}"


def _leads(page: str, link: str) -> bool:
    if link.startswith(("http://", "https://", "mailto:")):
        return True
    path, _, anchor = link.partition("#")
    target = normpath(join(dirname(page), path)) if path else page
    if not (ROOT / target).exists():
        return False
    if not anchor:
        return True
    return target.endswith(".md") and anchor in pages.anchors(pages.read(target))


def test_pages_of_the_site_link_only_within_it():
    """What lies outside docs/ has no page there; such files are named in code instead."""
    for page in pages.pages():
        if page.startswith("docs/"):
            for link in pages.links(pages.read(page)):
                if "://" not in link and link.partition("#")[0]:
                    target = normpath(join(dirname(page), link.partition("#")[0]))
                    assert target.startswith("docs/"), f"{page} links to {target}"


def test_each_page_is_in_the_navigation_once():
    listed = [f"docs/{page}" for page in re.findall(r"[\w/.-]+\.md$", NAVIGATION, re.M)]
    there = {page for page in pages.pages() if page.startswith("docs/")}
    generated = {"docs/contributing.md", "docs/reporting.md", "docs/changelog.md"}
    assert set(listed) - generated == there
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("# Two words", "two-words"),
        ("## `network.json`, and [why](x.md)", "networkjson-and-why"),
        ("### Given {#short}", "short"),
        ("## Upgrade (and back)", "upgrade-and-back"),
    ],
)
def test_anchors_are_made_as_readers_find_them(heading, anchor):
    assert pages.anchors(heading) == {anchor}


def test_links_in_blocks_and_comments_are_not_links():
    text = "[a](b.md)\n```sh\n[c](d.md)\n```\n<!-- [e](f.md) -->\n[![g](h.svg)](i.md#j)\n"
    assert pages.links(text) == ("b.md", "i.md#j")
