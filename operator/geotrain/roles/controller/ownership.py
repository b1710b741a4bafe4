"""Whose an object is. Pure.

Ours is what carries our labels (who manages it, the job's or pool's name and uid) *and* has a name
that geotrain gives to that kind of object, *and* is in the namespace that the labels tell of: a
copy that a person made of one of our objects is the person's. Whoever takes the labels off one of
our objects makes it their own. Nothing that is not ours is ever changed, deleted or counted as a
part of a job or pool; where it has a name that a job or pool needs, ``Taken`` says so.

Names are made so that no two jobs or pools of a namespace make one name for two objects: what names
both a job and a data centre joins the two by a dot, which neither can hold. Where a kind forbids
dots (a Service is a DNS label, a pod's name becomes a host name), the second comer waits.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from geotrain.api import labels

Manifest = Mapping[str, Any]

_MOST_TOLD: Final = 3

# What follows the job's or pool's name, by kind, and what followed it before 0.1: a '-' before the
# data centre's name, and "-geotrain" for the policy.
_OF_JOB: Final = {
    "Pod": re.compile(r"-r(?P<rank>\d+)"),
    "Service": re.compile(r""),
    "EndpointSlice": re.compile(r"-geotrain(-v6)?(-\d+)?"),
    "NetworkPolicy": re.compile(r"-(ranks|geotrain)"),
    "ConfigMap": re.compile(r"-geotrain(\.(?P<center>[-a-z0-9]+)|-[-a-z0-9]+)"),
    "BandwidthSchedule": re.compile(r"\.(?P<center>[-a-z0-9]+)|-[-a-z0-9]+"),
}
_OF_POOL: Final = {
    "Pod": re.compile(r"-([-a-z0-9]+-\d+|router-[-a-z0-9]+)"),
    "Service": re.compile(r"-router"),
    "Deployment": re.compile(r"-router"),
    "ConfigMap": re.compile(r"-(router|geotrain)"),
    "NetworkPolicy": re.compile(r"-geotrain"),
}


@dataclass(frozen=True, slots=True)
class Need:
    """A name that a job or pool needs in a namespace of one cluster (HUB: the hub's)."""

    data_center: str
    api_version: str
    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, data_center: str, manifest: Manifest) -> "Need":
        """The name of an object that is wanted."""
        meta = manifest["metadata"]
        return cls(
            data_center, manifest["apiVersion"], manifest["kind"], meta["namespace"], meta["name"]
        )


@dataclass(frozen=True, slots=True)
class Taken:
    """A needed name that somebody else's object has; ``whose`` tells as much as its labels do."""

    need: Need
    whose: str

    @property
    def sentence(self) -> str:
        """Which object it is, where, and whose."""
        need = self.need
        where = f"in {need.data_center}" if need.data_center else "on the hub"
        return f"{need.kind} {need.namespace}/{need.name} {where} {self.whose}"


def owner(manifest: Manifest) -> str:
    """The uid of the job or pool that an object was made for, '' where it is not one of ours."""
    meta = manifest["metadata"]
    tags = meta.get("labels") or {}
    home = meta.get("namespace", "")
    if tags.get(labels.MANAGED_BY) != labels.MANAGED_BY_VALUE:
        return ""
    if tags.get(labels.NAMESPACE, home) != home:
        return ""
    if labels.POOL_UID in tags:
        uid, name, suffixes = tags[labels.POOL_UID], tags.get(labels.POOL, ""), _OF_POOL
    else:
        uid, name, suffixes = tags.get(labels.JOB_UID, ""), tags.get(labels.JOB, ""), _OF_JOB
    suffix = suffixes.get(manifest["kind"])
    if suffix is None or not meta["name"].startswith(name):
        return ""
    fits = suffix.fullmatch(meta["name"], len(name))
    return str(uid) if fits and _agrees(fits, tags) else ""


def _agrees(name: re.Match[str], tags: Mapping[str, str]) -> bool:
    """Whether rank and data centre in a name are those that the labels tell of."""
    parts = name.groupdict()
    rank, center = parts.get("rank"), parts.get("center")
    return tags.get(labels.RANK, rank) == rank and tags.get(labels.DATA_CENTER, center) == center


def whose(manifest: Manifest) -> str:
    """Say to whom an object belongs that is not ours to touch."""
    if not owner(manifest):
        return "was not made by geotrain, or has lost its labels"
    tags = manifest["metadata"]["labels"]
    if labels.POOL_UID in tags:
        return f"belongs to PrefillPool {tags[labels.POOL]} (uid {tags[labels.POOL_UID]})"
    return f"belongs to GeoTrainingJob {tags[labels.JOB]} (uid {tags[labels.JOB_UID]})"


def told(taken: Sequence[Taken], subject: str) -> str:
    """What a condition says: the first names, and what to do. ``subject`` is "job" or "pool"."""
    shown = "; ".join(each.sentence for each in taken[:_MOST_TOLD])
    more = f"; and {len(taken) - _MOST_TOLD} more" if len(taken) > _MOST_TOLD else ""
    what = "those objects" if len(taken) > 1 else "that object"
    return f"{shown}{more}; rename the {subject} or remove {what}, which geotrain leaves alone"
