import io

import pytest

from geotrain.cli import texts
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
        (BOMB, "its aliases stand for more than 1000000 values"),
        (MERGED, "its aliases stand for more than 1000000 values"),
        (LADDER, "it is more than 100 levels deep"),
        ("[" * 200 + "]" * 200, "it is more than 100 levels deep"),
        ("&a {b: [*a]}", "a part of it contains itself"),
        ("[" * 5000, "is not YAML"),
        ("a: 2020-13-77", "is not YAML: month must be in 1..12"),
        ("a: " + "9" * 5000, "is not YAML: Exceeds the limit"),
    ],
    ids=lambda value: value[:20],
)
def test_what_is_too_much_is_one_sentence(tmp_path, text, says):
    path = tmp_path / "file.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        texts.load(path)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_aliases_and_several_documents_are_read(tmp_path):
    path = tmp_path / "file.yaml"
    path.write_text("a: &a [1, 2]\nb: [*a, *a]\n---\n---\nc: 3\n", encoding="utf-8-sig")
    assert texts.load(path) == [{"a": [1, 2], "b": [[1, 2], [1, 2]]}, None, {"c": 3}]


def test_standard_input_may_begin_with_a_byte_order_mark(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("\ufeff0F0"))
    assert texts.text_of("-") == "0F0"
