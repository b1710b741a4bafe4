"""Reads profile.json: how long a stage's actions take on the accelerator, and what a message holds.

forward            the sum over the stage's layers
input gradient     the sum, and the recompute where activations are recomputed: the forward again,
                   or what the profile says; less what runs early
weight gradient    the sum
backward           input gradient + weight gradient
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from .schedule import BACKWARD, FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT
from .settings import EARLY, NONE, Place

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_SIZES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_SIZES |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


class ProfileError(Exception):
    """The profile cannot be used; the message says what is wrong in it."""


@dataclass(frozen=True)
class Layer:
    """Seconds of a layer's parts, and the bytes of its activations."""

    forward: float
    input_gradient: float
    weight_gradient: float
    recompute: float
    step: float
    activation: int


@dataclass(frozen=True)
class StageProfile:
    """What one stage costs: seconds by kind of action, bytes of a message, the optimizer's step.

    ``early`` are the seconds of a backward that come before its gradient, and not among the others.
    """

    seconds: Mapping[str, float]
    boundary: int
    optimizer_step: float
    early: float = 0.0


def stage_profile(text: str, place: Place) -> StageProfile:
    """Read the costs of a rank's stage out of a profile. Raises ProfileError."""
    try:
        document = json.loads(text)
        layers = _layers(document)
        mine = _stage(layers, place)
        boundary = _bytes(document["boundaryBytes"])
        step = _duration(document.get("optimizerStep", "0s"))
    except (KeyError, TypeError, ValueError) as error:
        raise ProfileError(f"the profile is wrong: {error!r}") from error
    total = partial(_total, mine)
    again = total("recompute") if place.recompute != NONE else 0.0
    early = (
        math.fsum(layer.recompute for layer in _early(mine)) if place.recompute == EARLY else 0.0
    )
    inputs, weights = total("input_gradient") + again - early, total("weight_gradient")
    seconds = {
        FORWARD: total("forward"),
        BACKWARD: inputs + weights,
        INPUT_GRADIENT: inputs,
        WEIGHT_GRADIENT: weights,
    }
    return StageProfile(seconds, boundary, step + total("step"), early)


def _stage(layers: list[Layer], place: Place) -> list[Layer]:
    """The stage's layers: those of the plan, or as even a share as can be."""
    if place.first_layer is not None:
        begin, end = place.first_layer, place.first_layer + place.layers
    else:
        begin, end = (len(layers) * n // place.stages for n in (place.stage, place.stage + 1))
    if not begin < end <= len(layers):
        raise ValueError(f"{len(layers)} layers have no layers {begin} to {end - 1}")
    return layers[begin:end]


def _early(layers: list[Layer]) -> Iterator[Layer]:
    """The last layers, as long as what they hold fits where one layer's activations do."""
    room = max(layer.activation for layer in layers)
    for layer in reversed(layers):
        room -= layer.activation
        if room < 0:
            return
        yield layer


def _total(layers: list[Layer], name: str) -> float:
    return math.fsum(getattr(layer, name) for layer in layers)


def _layers(document: Mapping[str, Any]) -> list[Layer]:
    return [
        Layer(
            forward=_duration(entry["forward"]),
            input_gradient=_duration(entry["inputGradient"]),
            weight_gradient=_duration(entry["weightGradient"]),
            recompute=_duration(entry.get("recompute", entry["forward"])),
            step=_duration(entry.get("optimizerStep", "0s")),
            activation=_bytes(entry.get("activationBytes", 0)),
        )
        for entry in document["layers"]
        for _ in range(int(entry.get("count", 1)))
    ]


def _duration(text: str) -> float:
    """Read a Go duration such as 2.586ms."""
    parts = _DURATION_PART.findall(str(text))
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration such as 2.586ms")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def _bytes(text: str | int) -> int:
    """Read a Kubernetes quantity such as 64Mi."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kMGT]?|[KMGT]i)", str(text))
    if not match:
        raise ValueError(f"{text!r} is not a quantity such as 64Mi")
    return round(float(match[1]) * _SIZES[match[2]])
