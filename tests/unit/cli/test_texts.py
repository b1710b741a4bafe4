import io
from pathlib import Path

import pytest

from geotrain.cli import texts
from geotrain.errors import InputError


def test_files_are_read_as_yaml_and_as_either(tmp_path):
    path = tmp_path / "file.yaml"
    path.write_text("a: [1, 2]\n---\n---\nc: 3\n", encoding="utf-8-sig")
    assert texts.load(path) == [{"a": [1, 2]}, None, {"c": 3}]
    assert texts.load_either(path) == texts.load(path)


def test_standard_input_may_begin_with_a_byte_order_mark(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("\ufeff0F0"))
    assert texts.text_of("-") == "0F0"


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/dev/zero", "/dev/zero cannot be read: it is larger than 16 MiB"),
        ("/", "/ cannot be read: Is a directory"),
        ("a\0b", "cannot be read: embedded null byte"),
        ("a" * 300, "cannot be read: File name too long"),
    ],
)
def test_what_is_no_file_is_one_sentence(path, says):
    with pytest.raises(InputError) as caught:
        texts.text_of(Path(path))
    assert says in str(caught.value)


def test_what_can_be_no_path_is_one_sentence(tmp_path):
    assert texts.is_folder(tmp_path)
    assert not texts.is_folder(tmp_path / "nothing")
    with pytest.raises(InputError, match="cannot be read: File name too long"):
        texts.is_folder(Path("a" * 300))
