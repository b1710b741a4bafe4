"""Whether a CustomResourceDefinition that is served suffices for this version. Pure.

An older one prunes the fields that it does not know, silently: a job would be stored without them.
A newer one knows all that this version knows, and more. So two definitions are compared by what
they take in; rules and patterns, whose order nobody can tell, are not looked at, and neither is
what a reader sees (descriptions, columns).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from geotrain.api.labels import VERSION

Definition = Mapping[str, Any]
"""A CustomResourceDefinition as in JSON."""

_OPEN: Final = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_LIMITS: Final[Mapping[str, tuple[str, Callable[[float, float], bool]]]] = {
    **dict.fromkeys(
        ("maximum", "maxItems", "maxLength", "maxProperties"),
        ("above", lambda served, own: served < own),
    ),
    **dict.fromkeys(
        ("minimum", "minItems", "minLength", "minProperties"),
        ("below", lambda served, own: served > own),
    ),
}


def lacking(served: Definition, own: Definition) -> tuple[str, ...]:
    """What ``own`` takes in and ``served`` does not, by path; empty where it suffices."""
    if served["spec"].get("scope") != own["spec"]["scope"]:
        return (f"scope {own['spec']['scope']}",)
    theirs, ours = _version(served), _version(own)
    assert ours is not None, "this version serves itself"
    if theirs is None:
        return (f"version {VERSION}",)
    found = list(_lacking(_schema(theirs), _schema(ours), ""))
    if "status" not in (theirs.get("subresources") or {}):
        found.append("the subresource status")
    return tuple(found)


def is_newer(served: Definition, own: Definition) -> bool:
    """Whether ``served`` takes in all that ``own`` does, and more."""
    if lacking(served, own):
        return False
    names = {version["name"] for version in served["spec"].get("versions") or ()}
    return bool(names - {VERSION} or lacking(own, served))


def _version(definition: Definition) -> Mapping[str, Any] | None:
    versions = definition["spec"].get("versions") or ()
    return next((v for v in versions if v["name"] == VERSION and v.get("served")), None)


def _schema(version: Mapping[str, Any]) -> Mapping[str, Any]:
    return (version.get("schema") or {}).get("openAPIV3Schema") or {}


def _lacking(served: Mapping[str, Any], own: Mapping[str, Any], path: str) -> Iterator[str]:
    if served.get(_OPEN):
        return
    if _kind(served) != _kind(own):
        yield f"{path} as {_kind(own)}"
        return
    yield from _values(served, own, path)
    for name in sorted(set(served.get("required") or ()) - set(own.get("required") or ())):
        yield f"leaving out {_joined(path, name)}"
    yield from _below(served, own, path)


def _values(served: Mapping[str, Any], own: Mapping[str, Any], path: str) -> Iterator[str]:
    if allowed := served.get("enum"):
        wanted = own.get("enum") or ("any value",)
        yield from (f"{path}={value}" for value in wanted if value not in allowed)
    for limit, (word, is_tighter) in _LIMITS.items():
        if limit in served and (limit not in own or is_tighter(served[limit], own[limit])):
            yield f"{path} {word} a {limit} of {served[limit]}"


def _below(served: Mapping[str, Any], own: Mapping[str, Any], path: str) -> Iterator[str]:
    known = served.get("properties") or {}
    for name, schema in (own.get("properties") or {}).items():
        if name in known:
            yield from _lacking(known[name], schema, _joined(path, name))
        else:
            yield _joined(path, name)
    if own.get(_OPEN):
        yield f"unknown fields of {path}"
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if key in own:
            if key in served:
                yield from _lacking(served[key], own[key], f"{path}{mark}")
            else:
                yield f"{path}{mark}"


def _kind(schema: Mapping[str, Any]) -> str:
    return "int-or-string" if schema.get(_INT_OR_STRING) else str(schema.get("type", "anything"))


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
