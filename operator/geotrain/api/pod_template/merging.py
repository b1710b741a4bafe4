"""The template of a job or pool with the overrides of one data centre.

Lists are merged as Kubernetes itself merges them (strategic merge): variables, volumes, containers
and pull secrets by name, mounts by path; an entry that is there is replaced whole and keeps its
place, a new one goes to the end. Resources are replaced whole. Nothing is ever only removed.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from geotrain.api.pod_template.faults import Part
from geotrain.api.v1alpha1 import GeoTrainingJob, PrefillPool

Manifest = dict[str, Any]

_BY_NAME = ("volumes", "imagePullSecrets")
_IN_CONTAINER = ("image", "resources", "env", "volumeMounts")


def template_in(holder: GeoTrainingJob | PrefillPool, data_center: str) -> Manifest:
    """The template of a job's or pool's pods in a data centre."""
    template = holder.spec.template.to_manifest()
    for each in holder.spec.overrides:
        if each.data_center == data_center:
            return merged(template, each.to_manifest())
    return template


def merged(template: Part, override: Part) -> Manifest:
    """A template with an override, both as in JSON; neither is changed."""
    spec = dict(template["spec"])
    first, *rest = spec["containers"]
    others = {each["name"]: each for each in override.get("containers", ())}
    spec["containers"] = [
        _container(first, override),
        *(_container(each, others.get(each["name"], {})) for each in rest),
    ]
    if spec.get("initContainers"):
        spec["initContainers"] = [
            _container(each, others.get(each.get("name"), {})) for each in spec["initContainers"]
        ]
    for key in _BY_NAME:
        if key in override:
            spec[key] = _by("name", spec.get(key), override[key])
    if "tolerations" in override:
        held = list(spec.get("tolerations") or ())
        spec["tolerations"] = [*held, *(t for t in override["tolerations"] if t not in held)]
    if "nodeSelector" in override:
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **override["nodeSelector"]}
    if "runtimeClassName" in override:
        spec["runtimeClassName"] = override["runtimeClassName"]
    return {**template, "metadata": _metadata(template, override), "spec": spec}


def _metadata(template: Part, override: Part) -> Manifest:
    metadata = dict(template.get("metadata") or {})
    if "annotations" in override:
        metadata["annotations"] = {
            **(metadata.get("annotations") or {}),
            **override["annotations"],
        }
    return metadata


def _container(container: Part, override: Part) -> Manifest:
    result = dict(container)
    for key in _IN_CONTAINER:
        if key not in override:
            continue
        if key == "env":
            result[key] = _by("name", container.get(key), override[key])
        elif key == "volumeMounts":
            result[key] = _by("mountPath", container.get(key), override[key])
        else:
            result[key] = override[key]
    return result


def _by(key: str, held: Iterable[Part] | None, wanted: Iterable[Part]) -> list[Part]:
    """The entries of both; those of ``wanted`` take the place of those with the same ``key``."""
    entries: dict[Any, Part] = {each.get(key, at): each for at, each in enumerate(held or ())}
    for each in wanted:
        entries[each[key]] = each
    return list(entries.values())


def differences(template: Part, other: Part) -> dict[str, Any]:
    """What a merged template has that the plain one has not, by path, for people and programs."""
    found: dict[str, Any] = {}
    _compare(template, other, "", found)
    return found


def _compare(one: Any, other: Any, path: str, found: dict[str, Any]) -> None:
    if one == other:
        return
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in other:
            _compare(one.get(key), other[key], f"{path}.{key}".removeprefix("."), found)
    elif _is_named(other) and (one is None or _is_named(one)):
        before = {_name(each): each for each in one or ()}
        for each in other:
            _compare(before.get(_name(each)), each, f"{path}[{_name(each)}]", found)
    else:
        found[path] = other


def _is_named(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, Mapping) and ("name" in each or "mountPath" in each) for each in value
    )


def _name(entry: Part) -> str:
    return str(entry.get("mountPath", entry.get("name")))
