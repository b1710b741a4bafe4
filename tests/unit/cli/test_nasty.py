"""Nasty inputs end in one sentence, within their budget, and never with a traceback."""

import json

import pytest

from support.nasty import SENTENCES, answer, kept, nasty

CASES = list(nasty())
SAID = json.loads(SENTENCES.read_text())
LEADS = {2: ("error: ", "no plan: ", "Usage: "), 1: ("no plan: ", ""), 0: ("",)}


def marked(each):
    return pytest.param(each, id=each.name, marks=[pytest.mark.figures] if each.is_long else [])


def test_there_are_many_and_each_has_its_sentence():
    names = [each.name for each in CASES]
    assert len(names) >= 119
    assert len(set(names)) == len(names)
    assert list(SAID) == names, "renew them: make answers"


@pytest.mark.parametrize("each", [marked(each) for each in CASES])
def test_it_ends_in_its_sentence_and_soon(each, tmp_path):
    found = answer(each, tmp_path)
    assert found.code == each.code, found.said
    assert kept(found.said) == SAID[each.name]
    assert found.said.startswith(LEADS[each.code])
    assert "Traceback" not in found.said
    assert found.seconds < each.budget
    if found.said.startswith("error: "):
        sentence = found.said.removesuffix("\n").split("\n")[0]
        assert sentence.isprintable()
        assert len(sentence) < 1300
