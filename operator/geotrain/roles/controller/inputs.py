"""What a plan was made from, kept as text so that the same plan can be made again, byte for byte.

A job's plan is long, and its inputs are short; planning is exact. So the controller keeps the
inputs in a ConfigMap on the hub (``ledger``) and, after a restart, plans again from them and not
from the topology of that moment.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final

from geotrain.api.v1alpha1 import GeoTrainingJob
from geotrain.errors import InputError
from geotrain.model.plan import Plan
from geotrain.model.topology import DataCenter, Lan, MessageRates, Topology, WanLink
from geotrain.model.workload import LayerCosts, Profile, Workload
from geotrain.roles.controller.digests import digest

_LONG = frozenset({"compute", "steps", "transfers", "alternatives", "price_per_iteration", "error"})
_PLANNED_FIELDS = (
    "model",
    "profile_ref",
    "parallelism",
    "batch",
    "placement",
    "schedule",
    "network",
    "template",
)
_CAME_LATER: Final[Mapping[str, Mapping[str, Any]]] = {
    "model": {"attention": "Fused", "tied_embeddings": False},
    "parallelism": {"sequence_parallel": False, "layers_per_stage": []},
    "network": {"boundaries": "Scattered", "sends": "Overlapped"},
}
"""Fields that came after the first release, and their defaults."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """A planning problem; ``spec`` is the digest of the spec that asked for it."""

    spec: str
    topology: Topology
    workload: Workload

    def to_text(self) -> str:
        """JSON; floats are written so that reading gives the very same number."""
        content = {
            "spec": self.spec,
            "topology": asdict(self.topology),
            "workload": asdict(self.workload),
        }
        return json.dumps(content, separators=(",", ":"), sort_keys=True, allow_nan=False)

    @classmethod
    def from_text(cls, text: str) -> "Inputs":
        """Read what ``to_text`` wrote. Raises InputError when it is anything else."""
        try:
            content = json.loads(text)
            return cls(
                str(content["spec"]), _topology(content["topology"]), _workload(content["workload"])
            )
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"these are no inputs of a plan: {error}") from error


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan with what it came from. ``revision`` names what the members are to hold."""

    inputs: Inputs
    plan: Plan
    revision: str


def spec_digest(job: GeoTrainingJob) -> str:
    """Changes when the spec changes in anything that plan or pods are made from."""
    spec = job.spec.model_dump(mode="json", by_alias=False, exclude_none=True)
    kept = {name: spec.get(name) for name in _PLANNED_FIELDS}
    # A field that is at its default changes no digest, so that it may come with an upgrade.
    for part, usual in _CAME_LATER.items():
        fields_of = kept[part] or {}
        kept[part] = kept[part] and {
            name: value for name, value in fields_of.items() if usual.get(name, ...) != value
        }
    for name in ("overrides", "calibration_ref"):
        if spec.get(name):
            kept[name] = spec[name]
    return digest(kept)


def revision(job: GeoTrainingJob, plan: Plan) -> str:
    """Changes when plan or template do: gangs of two revisions cannot work together."""
    kept = {f.name: getattr(plan, f.name) for f in fields(plan) if f.name not in _LONG}
    pods: list[Any] = [job.spec.template.to_manifest(), job.spec.network.enforcement]
    pods += [(each.data_center, each.to_manifest()) for each in job.spec.overrides]
    return digest([repr(sorted(kept.items())), *pods])


def with_reserved(topology: Topology, reserved: Mapping[tuple[str, str], float]) -> Topology:
    """The topology without the rates that windows of other jobs already hold.

    A link of which nothing is left is gone.
    """
    left = (_less(link, reserved.get((link.source, link.target), 0.0)) for link in topology.links)
    return replace(topology, links=tuple(link for link in left if link is not None))


def _less(link: WanLink, taken: float) -> WanLink | None:
    if taken <= 0:
        return link
    share = link.reservable - taken / link.capacity
    return replace(link, reservable=share) if share > 0 else None


def _topology(content: Mapping[str, Any]) -> Topology:
    centers = tuple(
        DataCenter(**{**each, "lan": Lan(**each.get("lan", {}))})
        for each in content["data_centers"]
    )
    links = tuple(
        WanLink(**{**each, "message_rates": _message_rates(each.get("message_rates"))})
        for each in content["links"]
    )
    return Topology(centers, links)


def _message_rates(content: Mapping[str, Any] | None) -> MessageRates | None:
    if content is None:
        return None
    return MessageRates(tuple(content["sizes"]), tuple(content["rates"]))


def _workload(content: Mapping[str, Any]) -> Workload:
    profile = _profile(content["profile"])
    profiles, places = (
        tuple((name, _profile(each)) for name, each in content.get(key, ()))
        for key in ("profiles", "places")
    )
    fixed = tuple((name, stages) for name, stages in content["fixed"])
    error = content.get("error")
    read = {
        "profile": profile,
        "profiles": profiles,
        "places": places,
        "fixed": fixed,
        "allowed": tuple(content["allowed"]),
        "layers": tuple(content.get("layers", ())),
        "notes": tuple(content.get("notes", ())),
        "error": None if error is None else tuple(error),
    }
    return Workload(**{**content, **read})


def _profile(content: Mapping[str, Any]) -> Profile:
    layers = tuple(
        LayerCosts(**{**each, "state": tuple(each["state"])} if each.get("state") else each)
        for each in content["layers"]
    )
    return Profile(**{**content, "layers": layers})
