"""Reads profile.json: how long a stage's actions take on the accelerator, and what a message holds.

forward            the sum over the stage's layers
input gradient     the sum, and the recompute where activations are recomputed: the forward again,
                   or what the profile says
weight gradient    the sum
backward           input gradient + weight gradient
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, product
from typing import Any

from .schedule import BACKWARD, FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_SIZES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_SIZES |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


class ProfileError(Exception):
    """The profile cannot be used; the message says what is wrong in it."""


@dataclass(frozen=True)
class StageProfile:
    """What one stage costs: seconds by kind of action, bytes of a message, the optimizer's step."""

    seconds: Mapping[str, float]
    boundary: int
    optimizer_step: float


def stage_profile(text: str, stage: int, stages: int, recompute: bool) -> StageProfile:
    """Read the costs of ``stage`` out of a profile. Raises ProfileError."""
    try:
        document = json.loads(text)
        layers = _layers(document)
        counts = split([round(sum(layer[:3]) * 1e12) + 1 for layer in layers], stages)
        mine = layers[sum(counts[:stage]) : sum(counts[: stage + 1])]
        forward, inputs, weights, again, steps = map(math.fsum, zip(*mine, strict=True))
        boundary = _bytes(document["boundaryBytes"])
        step = _duration(document.get("optimizerStep", "0s")) + steps
    except (KeyError, TypeError, ValueError) as error:
        raise ProfileError(f"the profile is wrong: {error!r}") from error
    inputs += again if recompute else 0.0
    seconds = {
        FORWARD: forward,
        BACKWARD: inputs + weights,
        INPUT_GRADIENT: inputs,
        WEIGHT_GRADIENT: weights,
    }
    return StageProfile(seconds, boundary, step)


def split(times: list[int], stages: int) -> tuple[int, ...]:
    """How many consecutive layers each stage gets; ``times`` are whole, so that equals tie.

    Raises ValueError with too few layers.
    """
    if len(times) < stages:
        raise ValueError(f"{len(times)} layers cannot make {stages} stages")
    sums = [0, *accumulate(times)]
    limit = _least_slowest(sums, stages)
    best: dict[int, tuple[int, tuple[int, ...]]] = {0: (0, ())}
    for _ in range(stages):
        options: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
        for begin, end in product(best, range(1, len(sums))):
            time = sums[end] - sums[begin]
            if begin < end and time <= limit:
                squares, counts = best[begin]
                options.setdefault(end, []).append((squares + time**2, (*counts, end - begin)))
        best = {end: min(choices) for end, choices in options.items()}
    return best[len(times)][1]


def _least_slowest(sums: list[int], stages: int) -> int:
    """How long the slowest stage takes at least; ``sums`` are of the first layers' times."""
    least = {0: 0}
    for _ in range(stages):
        ends = range(min(least) + 1, len(sums))
        least = {
            end: min(max(least[begin], sums[end] - sums[begin]) for begin in least if begin < end)
            for end in ends
        }
    return least[len(sums) - 1]


def _layers(document: Mapping[str, Any]) -> list[tuple[float, ...]]:
    """Forward, both gradients, recompute and optimizer's step of every layer."""
    names = ("forward", "inputGradient", "weightGradient", "recompute", "optimizerStep")
    return [
        tuple(_duration(each[name]) for name in names)
        for entry in document["layers"]
        for each in [{"recompute": entry["forward"], "optimizerStep": "0s", **entry}]
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
