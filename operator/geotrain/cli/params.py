"""What a command's parameters take, by its function's own hints.

What typer makes of them, and whether it names them in a help text, changes with its version.
"""

import inspect
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any, Final, get_args, get_origin, get_type_hints

_METAVARS: Final = {str: "TEXT", int: "NUMBER", float: "NUMBER", Path: "PATH"}


def hints(command: Any) -> dict[str, Any]:
    """Parameter → type; those of typer itself (--help) are not among them."""
    return get_type_hints(inspect.unwrap(command.callback))


def base(hint: Any) -> Any:
    """The type of one value: of ``list[Path] | None`` it is Path."""
    arguments = [each for each in get_args(hint) if each is not NoneType]
    return base(arguments[0]) if arguments else hint


def is_repeatable(hint: Any) -> bool:
    """Whether several values may be given."""
    arguments = [each for each in get_args(hint) if each is not NoneType]
    return get_origin(hint) is list or any(is_repeatable(each) for each in arguments)


def named(command: Any) -> Any:
    """The command, whose help says what each option takes in capitals, as kubectl's users know."""
    known = hints(command)
    for each in command.params:
        kind = base(known.get(each.name, bool))
        if each.metavar is not None:
            continue
        if each.param_type_name == "argument":
            each.metavar = each.name.upper() + "..." * (each.nargs < 0)
            continue
        if kind is bool:
            continue
        if isinstance(kind, type) and issubclass(kind, Enum):
            each.metavar = "|".join(str(member.value) for member in kind)
        else:
            each.metavar = _METAVARS[kind]
    return command
