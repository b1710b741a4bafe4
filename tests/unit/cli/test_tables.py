"""Tables at every width: no word is broken or lost, and nothing is wider than it may be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.cli.tables import Column, Prose, Style, Table, lines, table, wrapped

pytestmark = pytest.mark.hypothesis

WORDS = st.text("abcdefghij-:%", min_size=1, max_size=14)
CELLS = st.lists(WORDS, max_size=4).map(" ".join)


def text(*blocks, width=None):
    return [line.text for line in lines(blocks, width)]


def of(*rows, heads=("one", "two"), **fields):
    made = Table([Column(head) for head in heads], **fields)
    for row in rows:
        made.add(*row)
    return made


def test_a_table_is_heads_over_rows_with_two_spaces_between():
    shown = of(("a", "bcd"), ("efghi", "k"), heads=("x", "yy"), title="Both", caption="so much")
    assert text(shown) == ["Both", "x      yy", "a      bcd", "efghi  k", "so much"]


def test_titled_tables_are_set_apart():
    assert text(Prose("first"), table("T", "a"), table("U", "b")) == [
        "first", "", "T", "a", "", "U", "b",
    ]  # fmt: skip


def test_a_title_alone_is_a_heading():
    assert text(Table((), "Why")) == ["Why"]


def test_cells_wrap_at_spaces_and_the_widest_column_gives_way():
    shown = of(("name", "a sentence of several words"))
    assert text(shown, width=20) == [
        "one   two", "name  a sentence of", "      several words",
    ]  # fmt: skip


def test_columns_that_may_go_do_so_from_the_last_and_are_named():
    heads = [Column("given"), *(Column(each, optional=True) for each in ("second", "third"))]
    shown = Table(heads)
    shown.add("aaaaaaaa", "bbbbbbbb", "cccccccc")
    assert text(shown, width=20) == [
        "given     second", "aaaaaaaa  bbbbbbbb", "not shown for lack", "of width: third",
    ]  # fmt: skip


def test_what_is_too_wide_for_a_table_becomes_a_block_a_row():
    shown = of(("a" * 18, "b" * 18), ("c", "two words of it"))
    assert text(shown, width=24) == [
        "one  " + "a" * 18,
        "two  " + "b" * 18,
        "",
        "one  c",
        "two  two words of it",
    ]


def test_newlines_of_a_message_do_not_tear_a_row():
    assert text(of(("a", "b\nc\td")))[1] == "a    b c d"


def test_missing_cells_are_empty():
    assert text(of(("a",)))[1] == "a"


def test_wide_characters_count_twice():
    assert text(of(("日本", "x")))[1] == "日本  x"


def test_prose_keeps_its_lead_and_indents_what_follows():
    block = Prose("a sentence of several words", Style.BAD, lead="no   ", indent=5)
    found = list(lines([block], 18))
    assert [each.text for each in found] == ["no   a sentence of", "     several words"]
    assert (found[0].style, found[0].lead, found[1].style) == (Style.BAD, 5, Style.PLAIN)


def test_prose_without_a_lead_is_styled_whole():
    assert {each.style for each in lines([Prose("a b c", Style.TITLE)], 2)} == {Style.TITLE}


def test_without_a_width_everything_is_one_line():
    long = "word " * 100
    assert text(Prose(long.strip(), lead="* "), of(("a", long))) == [
        "* " + long.strip(), "one  two", f"a    {long.strip()}",
    ]  # fmt: skip


def test_rows_carry_their_style():
    shown = of(("a", "b"))
    shown.add("c", "d", style=Style.GOOD)
    assert [each.style for each in lines([shown], None)] == [Style.TITLE, Style.PLAIN, Style.GOOD]


@given(CELLS, st.integers(1, 40))
def test_wrapping_breaks_no_word_and_loses_none(cell, width):
    found = wrapped(cell, width)
    assert " ".join(found).split() == cell.split()
    assert all(len(line) <= width or " " not in line for line in found)


@given(st.lists(WORDS, min_size=1, max_size=5), st.data(), st.integers(1, 100))
def test_whatever_the_width_no_word_is_broken_or_lost(heads, data, width):
    rows = data.draw(
        st.lists(st.lists(CELLS, min_size=len(heads), max_size=len(heads)), max_size=4)
    )
    found = text(of(*rows, heads=heads), width=width)
    words = {word for each in (heads, *rows) for cell in each for word in cell.split()}
    printed = {word for line in found for word in line.split()}
    assert printed <= words | set(heads)
    assert rows == [] or {w for row in rows for cell in row for w in cell.split()} <= printed
    longest = max(map(len, words))
    margin = max(map(len, heads)) + 2
    assert all(len(line) <= max(width, margin + longest) for line in found)
