"""Inputs made out of others: their structure is changed, so that what is read gets far.

Bytes alone rarely make a YAML document again. Here a document is read, some of its values are
replaced by odd ones, removed, repeated, renamed or wrapped, and it is written again. A table of
cells (a schedule, a CSV of measurements) is changed cell by cell. Equal seeds make equal changes.
"""

import copy
import json
import re
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import yaml

Mutate = Callable[[str, Random], str]

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_EMBEDDED = "profile.json"
"""The key of a ConfigMap whose text is JSON."""

_SCALARS: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 64, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**30,
    -(10**30), 10**400, 0.0, -0.0, 0.5, 1e-300, 1e308, -1e308, float("nan"), float("inf"), "",
    " ", "0", "-1", "nan", "inf", "1e400", "0ms", "1ns", "99999h", "-5ms", "5G", "0G", "1P", "٤",
    "9" * 40, "9" * 31 + "P", "9" * 5000, "1" * 31 + "s", "auto", "\0", "a\nb", "\ud800",
    "\x1b[31m", "\u2028", "ﬁ", "e\u0301" * 40, "x" * 5000, "{}", "[", "=", "<<", "!!float x",
    "2020-13-77",
)  # fmt: skip
_KEYS = ("", "a\nb", "\0", "\ud800", "x" * 5000, "unknown", "kind", "spec", "<<", "forward", "1")
_CELLS = (
    "", " ", "0F0", "0B0", "0I0", "0W0", "0BW0", "1F0", "1B0", "0F1", "0F999999", "999999F0",
    "0SEND_F0", "1RECV_F0", "1SEND_B0", "0RECV_B0", "(0F0;0B0)OVERLAP_F_B", "(0F0;0B0",
    "0F-1", "0f0", "0F1.5", "nan", "1e999", "-1", "0", "9" * 5000, '"', '"a', "a\0b", "٤F٤",
    "\ud800", "\u2028", "\ufeff0F0", "Source", "src_region",
)  # fmt: skip
_DEEP = 3000


def documents(text: str, random: Random) -> str:
    """YAML documents, a ConfigMap's profile among them."""
    read = list(yaml.load_all(text, Loader=_LOADER))
    embedded = [each["data"] for each in read if _has_profile(each)]
    if embedded and random.random() < 0.4:
        data = random.choice(embedded)
        data[_EMBEDDED] = json_document(data[_EMBEDDED], random)
    else:
        read = _changed(read, random, [*_SCALARS, _bomb(), _circle(), _ladder()])
    return yaml.dump_all(read, Dumper=_DUMPER, allow_unicode=random.random() < 0.5)


def json_document(text: str, random: Random) -> str:
    """A JSON document."""
    if random.random() < 0.02:
        return "[" * _DEEP + "]" * _DEEP
    return json.dumps(_changed(json.loads(text), random, _SCALARS), ensure_ascii=False)


def table(text: str, random: Random) -> str:
    """Lines of cells with commas between."""
    rows = [line.split(",") for line in text.split("\n")]
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        row = random.choice(rows)
        at = random.randrange(len(row))
        action = random.randrange(7)
        if action == 0:
            row[at] = random.choice(_CELLS)
        elif action == 1:
            row.insert(at, random.choice(_CELLS))
        elif action == 2 and len(row) > 1:
            del row[at]
        elif action == 3:
            row.insert(at, random.choice(random.choice(rows)))
        elif action == 4:
            other = random.choice(rows)
            there = random.randrange(len(other))
            row[at], other[there] = other[there], row[at]
        elif action == 5:
            row[at] = re.sub("[0-9]+", lambda found: _near(found[0], random), row[at])
        else:
            rows.insert(random.randrange(len(rows) + 1), list(row))
    return random.choice(("\n", "\n", "\n", "\r\n")).join(",".join(row) for row in rows)


def any_of(*mutates: Mutate) -> Mutate:
    """One that reads the text, or the text as it is where none does."""

    def mutate(text: str, random: Random) -> str:
        for each in mutates:
            try:
                return each(text, random)
            except (ValueError, yaml.YAMLError, RecursionError, TypeError, AttributeError):
                continue
        return text

    return mutate


def _changed(document: Any, random: Random, odd: Any) -> Any:
    holder = [document]
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        places = list(_places(holder))
        where, key = random.choice(places)
        _change(where, key, random, odd, random.choice(places))
    return holder[0]


def _change(where: Any, key: Any, random: Random, odd: Any, other: tuple[Any, Any]) -> None:
    action = random.randrange(8)
    if action <= 2:
        where[key] = random.choice(odd)
    elif action == 3 and isinstance(where, dict):
        del where[key]
    elif action == 4 and isinstance(where, dict):
        where[str(random.choice(_KEYS))] = where.pop(key)
    elif action == 5:
        where[key] = copy.deepcopy(other[0][other[1]])
    elif action == 6:
        for _ in range(random.choice((1, 2, 400))):
            where[key] = [where[key]] if random.random() < 0.5 else {"a": where[key]}
    elif isinstance(where[key], list) and where[key]:
        where[key] = where[key] * random.choice((0, 2, 100))
    elif isinstance(where[key], dict):
        where[key]["unknown"] = random.choice(odd)
    elif isinstance(where[key], int | float | str):
        where[key] = _scaled(where[key], random)


def _scaled(value: float | str, random: Random) -> float | str:
    """Another value of the same kind and not far away, in units that may be other ones."""
    if isinstance(value, str):
        return re.sub("[0-9]+", lambda found: _near(found[0], random), value)
    return random.choice((value + 1, value - 1, -value, value * 2, value * 1000))


def _near(digits: str, random: Random) -> str:
    number = int(digits[:20])
    return str(random.choice((0, 1, abs(number - 1), number + 1, number * 2, number * 10**6)))


def _places(holder: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with every key of it, each container once."""
    seen: set[int] = set()
    left = [holder]
    while left:
        where = left.pop()
        if id(where) in seen:
            continue
        seen.add(id(where))
        for key, value in list(where.items() if isinstance(where, dict) else enumerate(where)):
            yield where, key
            if isinstance(value, dict | list):
                left.append(value)


def _has_profile(document: Any) -> bool:
    data = document.get("data") if isinstance(document, dict) else None
    return isinstance(data, dict) and isinstance(data.get(_EMBEDDED), str)


def _bomb() -> list[Any]:
    """What is written in a few bytes of aliases and is a billion values long."""
    value: list[Any] = ["x"] * 10
    for _ in range(9):
        value = [value] * 10
    return value


def _circle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def _ladder() -> list[Any]:
    """Deep without brackets in brackets: each level is an alias of the one before."""
    value: list[Any] = []
    steps = [value]
    for _ in range(300):
        value = [value]
        steps.append(value)
    return steps
