"""Files as text, and as YAML or JSON, within bounds."""

import sys
from pathlib import Path
from typing import Any, Final

from geotrain.api import documents
from geotrain.errors import InputError

MOST_BYTES: Final = 16 * 2**20
"""Of a file; the longest schedule that is replayed fits as CSV."""


def load(path: Path) -> list[Any]:
    """Every document of a YAML file; ``-`` is standard input. Raises InputError with the cause."""
    return documents.yaml_documents(text_of(path), str(path))


def load_either(path: Path) -> list[Any]:
    """Every document of a file in JSON or YAML. Raises InputError with the cause."""
    return documents.either(text_of(path), str(path))


def text_of(path: Path) -> str:
    """A file's text, of standard input for ``-``, without the mark that editors put before UTF-8.

    Raises InputError that names the file.
    """
    try:
        if str(path) == "-":
            text = sys.stdin.read(MOST_BYTES + 1)
        else:
            with path.open(encoding="utf-8") as file:
                text = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {_cause(error)}") from error
    if len(text) > MOST_BYTES:
        raise InputError(f"{path} cannot be read: it is larger than {MOST_BYTES // 2**20} MiB")
    return text.removeprefix("\ufeff")


def is_folder(path: Path) -> bool:
    """Whether there is a folder. Raises InputError for what can be no path at all."""
    try:
        return path.is_dir()
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {_cause(error)}") from error


def _cause(error: OSError | ValueError) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    # A name with a NUL in it is a ValueError too.
    return "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)
