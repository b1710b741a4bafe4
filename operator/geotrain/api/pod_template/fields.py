"""Field names and JSON types of a pod, as the API server knows them.

``pod_fields.json`` lists the types of core/v1 PodSpec, compact: ``string``, ``[T]`` a list, ``{T}``
a map, other names a type of the list. It is made from the OpenAPI of the newest supported
kube-apiserver (``python -m support.pod_fields``). Fields never leave core/v1, so it covers the
older ones too; what a member is too old for, its own API server says.
"""

import difflib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from geotrain.api.pod_template.faults import Fault

_SCALARS: Final[dict[str, tuple[tuple[type, ...], str]]] = {
    "string": ((str,), "write text, in quotes where YAML would read a number or a flag"),
    "integer": ((int,), "write a whole number"),
    "number": ((int, float), "write a number"),
    "boolean": ((bool,), "write true or false"),
    "quantity": ((str, int, float), "write an amount like 8, 500m or 64Gi"),
    "int-or-string": ((str, int), "write a whole number or text"),
}


def field_faults(value: Any, kind: str = "PodSpec", path: str = "spec") -> Iterator[Fault]:
    """Every field that core/v1 does not have, with the nearest name, and every wrong type.

    ``kind`` is written as in ``pod_fields.json``. None counts as absent, as in Kubernetes.
    """
    if value is None or kind == "any":
        return
    if kind in _SCALARS:
        yield from _scalar(value, kind, path)
    elif kind.startswith("["):
        yield from _list(value, kind[1:-1], path)
    elif kind.startswith("{"):
        yield from _map(value, kind[1:-1], path)
    else:
        yield from _object(value, kind, path)


def _scalar(value: Any, kind: str, path: str) -> Iterator[Fault]:
    allowed, right = _SCALARS[kind]
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        yield Fault(path, right)


def _list(value: Any, kind: str, path: str) -> Iterator[Fault]:
    if not isinstance(value, list | tuple):
        yield Fault(path, "write a list")
        return
    for index, each in enumerate(value):
        yield from field_faults(each, kind, f"{path}[{index}]")


def _map(value: Any, kind: str, path: str) -> Iterator[Fault]:
    if not isinstance(value, Mapping):
        yield Fault(path, "write a mapping")
        return
    for key, each in value.items():
        yield from field_faults(each, kind, f"{path}[{key}]")


def _object(value: Any, kind: str, path: str) -> Iterator[Fault]:
    if not isinstance(value, Mapping):
        yield Fault(path, "write a mapping")
        return
    known = _types()[kind]
    for key, each in value.items():
        if key in known:
            yield from field_faults(each, known[key], f"{path}.{key}")
        else:
            yield Fault(f"{path}.{key}", f"unknown field{_like(str(key), known)}")


def _like(key: str, known: Mapping[str, str]) -> str:
    lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(key.lower(), lower, n=1)
    return f"; did you mean {lower[near[0]]}?" if near else ""


@cache
def _types() -> dict[str, dict[str, str]]:
    text = (files("geotrain.api.pod_template") / "pod_fields.json").read_text(encoding="utf-8")
    types: dict[str, dict[str, str]] = json.loads(text)["types"]
    return types
