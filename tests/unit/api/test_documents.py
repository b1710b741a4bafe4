"""YAML and JSON as text: within bounds, and never read in two ways."""

import pytest

from geotrain.api import documents
from geotrain.errors import InputError

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 10)}]\n"
    for before, name in zip("abcdefg", "bcdefgh", strict=True)
)
MERGED = "a: &a {x: 1, y: 2}\n" + "".join(
    f"{name}: &{name} {{<<: [{', '.join(['*' + before] * 10)}]}}\n"
    for before, name in zip("abcdefg", "bcdefgh", strict=True)
)
LADDER = "- &l0 []\n" + "".join(f"- &l{n + 1} [*l{n}]\n" for n in range(200))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BOMB, "it stands for more than 300000 values"),
        (MERGED, "it stands for more than 300000 values"),
        ("[" + "1," * 400_000 + "1]", "it stands for more than 300000 values"),
        (LADDER, "it is more than 100 levels deep"),
        ("[" * 200 + "]" * 200, "it is more than 100 levels deep"),
        ("&a {b: [*a]}", "a part of it contains itself"),
        ("[" * 5000, "is not YAML"),
        ("a: 2020-13-77", "is not YAML: month must be in 1..12"),
        ("a: " + "9" * 5000, "is not YAML: Exceeds the limit"),
    ],
    ids=lambda value: value[:20],
)
def test_what_is_too_much_is_one_sentence(text, says):
    sentence = fault(documents.yaml_documents, text)
    assert sentence.startswith("job.yaml ")
    assert says in sentence


def fault(read, text):
    with pytest.raises(InputError) as caught:
        read(text, "job.yaml")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_aliases_and_several_documents_are_read():
    text = "a: &a [1, 2]\nb: [*a, *a]\n---\n---\nc: 3\n"
    assert documents.yaml_documents(text, "x") == [
        {"a": [1, 2], "b": [[1, 2], [1, 2]]},
        None,
        {"c": 3},
    ]


@pytest.mark.parametrize(
    ("text", "key", "line", "first"),
    [
        ("a: 1\na: 2\n", "'a'", 2, 1),
        ("a: 1\nb:\n  c: {d: 1,\n    d: 1}\n", "'d'", 4, 3),
        ("- x: 1\n- y: 1\n  z: 2\n  y: 1\n", "'y'", 4, 2),
        ("---\na: 1\n---\na: 1\nb: 2\na: 3\n", "'a'", 6, 4),
        ("1: x\n'1': y\n", "'1'", 2, 1),
        ("yes: x\ntrue: y\n", "'true'", 2, 1),
        ("~: x\nnull: y\n", "'null'", 2, 1),
        ("16: x\n0x10: y\n", "'16'", 2, 1),
        ("a: &a {x: 1}\nb:\n  <<: *a\n  <<: *a\n", "'<<'", 4, 3),
        ('"a": 1\n"\\x61": 2\n', "'a'", 2, 1),
        ("k" * 1000 + ": 1\n" + "k" * 1000 + ": 2\n", "'kkkkkkkkkkkk...kkkkkkkkkkkkk'", 2, 1),
        ("\u00e9: 1\n\u00e9: 2\n", "'\u00e9'", 2, 1),
    ],
)
def test_a_key_that_is_given_twice_is_refused_with_its_lines(text, key, line, first):
    assert fault(documents.yaml_documents, text) == (
        f"job.yaml line {line}: the key {key} is given twice, first on line {first}; keep one of"
        " them"
    )


def test_a_key_of_a_merged_mapping_may_be_given_again():
    text = "a: &a {x: 1, y: 2}\nb:\n  <<: *a\n  x: 3\n"
    assert documents.yaml_documents(text, "x")[0]["b"] == {"x": 3, "y": 2}


@pytest.mark.parametrize("read", [documents.json_document, documents.either])
def test_json_may_not_say_a_key_twice_either(read):
    assert fault(read, '{"a": 1,\n "b": {"c": 1,\n "c": 2}}') == (
        "job.yaml line 3: the key 'c' is given twice, first on line 2; keep one of them"
    )
    # Half a character is JSON and no YAML, so nobody says where.
    assert fault(read, '{"a": 1, "a": "\\ud800"}').endswith(
        "the key 'a' is given twice; keep one of them"
    )


def test_json_is_read_before_yaml_which_takes_small_numbers_for_text():
    assert documents.either('{"a": 3e-06}', "x") == [{"a": 3e-06}]
    assert documents.either("a: 1\n---\nb: 2", "x") == [{"a": 1}, {"b": 2}]
    assert documents.json_document("[1]", "x") == [1]
    assert fault(documents.json_document, "a: 1").startswith("job.yaml is not JSON: ")
    assert fault(documents.json_document, "[" * 100_000).startswith("job.yaml is not JSON: ")
    assert fault(documents.either, "[" * 100_000).startswith("job.yaml is not YAML: ")


@pytest.mark.parametrize("read", [documents.yaml_documents, documents.either])
def test_yaml_has_at_most_so_many_characters(read):
    text = " " * (documents.MOST_CHARACTERS + 1)
    assert "it has more than the 2097152 characters that YAML may have" in fault(read, text)


def test_json_may_be_longer_and_where_a_key_stands_twice_is_then_not_told():
    text = f'[{" " * documents.MOST_CHARACTERS}{{"a": 1, "a": 2}}]'
    assert documents.json_document(text.replace(', "a"', ', "b"'), "x") == [{"a": 1, "b": 2}]
    assert fault(documents.json_document, text) == (
        "job.yaml: the key 'a' is given twice; keep one of them"
    )
