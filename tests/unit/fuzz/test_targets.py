"""What ``make fuzz`` tries with many inputs, with a few: a value, or one line that says why."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz import NAMES as ALL
from fuzz.targets import TARGETS, changed, check, require_sentence
from geotrain.errors import InputError

NAMES = pytest.mark.parametrize("name", TARGETS)


@NAMES
def test_what_is_begun_with_is_read(name):
    for data in TARGETS[name].seeds:
        TARGETS[name].run(data)


@NAMES
@given(st.data())
def test_whatever_a_file_holds_there_is_an_answer_or_a_sentence(name, data):
    target = TARGETS[name]
    content = data.draw(st.sampled_from(target.seeds))
    for number in data.draw(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=3)):
        content = changed(target, content, number)
    check(target, content)


@NAMES
@given(st.binary(max_size=40), st.integers(0, 2000), st.integers(0, 12))
def test_bytes_that_were_cut_or_overwritten_are_a_sentence(name, noise, at, lost):
    content = TARGETS[name].seeds[0]
    check(TARGETS[name], content[:at] + noise + content[at + lost :])


@NAMES
def test_most_changes_leave_something_to_read(name):
    target = TARGETS[name]
    made = [changed(target, seed, number) for seed in target.seeds for number in range(20)]
    assert len(set(made) - set(target.seeds)) > len(made) / 2
    assert made[:5] == [changed(target, target.seeds[0], number) for number in range(5)]


def test_each_has_its_name():
    assert tuple(TARGETS) == ALL


def test_a_message_of_several_lines_is_a_fault():
    with pytest.raises(AssertionError):
        require_sentence(InputError("x", "not a grid"))
