"""Whoever runs a page's blocks sees what a reader at a terminal sees."""

import pytest

from e2e import registry
from e2e.lab import LabError
from e2e.pages import Reader
from support.pages import Block


def block(text: str, line: int = 1) -> Block:
    return Block("page.md", line, "sh", text)


def test_later_blocks_see_what_earlier_ones_export(tmp_path):
    reader = Reader(tmp_path)
    reader.run(block("export WHERE='dc west'\nelsewhere=1\n"))
    assert reader.run(block('echo "$WHERE ${elsewhere:-}"\n', line=5)) == "dc west \n"
    assert set(reader.seconds) == {"page.md:1", "page.md:5"}


def test_a_block_that_fails_is_shown_with_what_it_said(tmp_path):
    with pytest.raises(LabError, match=r"page\.md:1 ended with 1:\nfalse \| cat\n"):
        Reader(tmp_path).run(block("false | cat\n"))


def test_values_are_set_only_where_the_page_sets_them(tmp_path):
    reader = Reader(tmp_path)
    values = block("export A=1  # why\nexport B=$(hostname)\n")
    reader.settle(values, {"A": "x y", "B": "z"})
    assert reader.run(block('echo "$A$B"\n')) == "x yz\n"
    with pytest.raises(LabError, match=r"sets \['A', 'B'\], the bed knows \['A'\]"):
        reader.settle(values, {"A": "1"})


def test_docker_builds_and_pushes_and_does_nothing_else(tmp_path, capsys):
    assert registry.main(["system", "prune"]) == 2
    assert "a page only builds and pushes" in capsys.readouterr().err
    with pytest.raises(LabError, match="docker run x: a page only builds and pushes"):
        Reader(tmp_path).run(block("docker run x\n"))
