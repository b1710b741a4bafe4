"""The ConfigMaps: what a part of the gang reads, and what its plan was made from."""

import json
from dataclasses import asdict
from itertools import groupby
from typing import Any, Final

from geotrain.api import labels
from geotrain.model.workload import Profile
from geotrain.planning.schedule.actions import write_order
from geotrain.roles.controller.children.gang import Gang, config_name, owner
from geotrain.roles.controller.children.network import network_document
from geotrain.roles.controller.decision import Manifest

INPUTS: Final = "inputs.json"


def config_map(gang: Gang, data_center: str) -> Manifest:
    """What trainer and sidecar find in their configuration folder."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": gang.metadata(
            config_name(gang.name, data_center), **{labels.DATA_CENTER: data_center}
        ),
        "data": {
            "schedule.csv": write_order(gang.plan.order),
            "profile.json": _text(profile_document(_profile(gang, data_center))),
            "network.json": _text(network_document(gang, data_center)),
        },
    }


def _profile(gang: Gang, data_center: str) -> Profile:
    """The costs that the plan counted there."""
    inputs = gang.planned.inputs
    center = inputs.topology.data_center(data_center)
    assert center is not None, "a plan runs in data centres of its topology"
    return inputs.workload.profile_in(center)


def ledger(gang: Gang) -> Manifest:
    """The plan's inputs, kept on the hub."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**gang.metadata(ledger_name(gang.name)), "ownerReferences": [owner(gang.job)]},
        "data": {INPUTS: gang.planned.inputs.to_text()},
    }


def ledger_name(job: str) -> str:
    """The name of the ConfigMap that keeps a plan's inputs."""
    return f"{job}-geotrain-plan"


def profile_document(profile: Profile) -> dict[str, Any]:
    """The profile as users write it, equal neighbouring layers counted."""
    layers = []
    for costs, alike in groupby(profile.layers):
        each = asdict(costs)
        optional = {
            "recompute": None if costs.recompute is None else _duration(costs.recompute),
            "optimizerStep": _duration(costs.step) if costs.step else None,
            "gradientBytes": None if costs.gradients is None else str(costs.gradients),
        }
        layers.append(
            {
                "count": len(list(alike)),
                "forward": _duration(each["forward"]),
                "inputGradient": _duration(each["input_gradient"]),
                "weightGradient": _duration(each["weight_gradient"]),
                "activationBytes": str(each["activation"]),
                "parameterBytes": str(each["parameters"]),
                **{name: value for name, value in optional.items() if value is not None},
            }
        )
    return {
        "layers": layers,
        "boundaryBytes": str(profile.boundary),
        "optimizerStep": _duration(profile.optimizer_step),
        "gradientBytes": str(profile.gradient_bytes_per_layer),
    }


def _duration(seconds: float) -> str:
    """Exact to the nanosecond, unlike ``format_duration``, which is for people."""
    return f"{round(seconds * 1e9)}ns"


def _text(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"))
