"""Profiles as JSON documents: measured layer times in a ConfigMap or a file.

    {"layers": [{"count": 24, "forward": "2.586ms", "inputGradient": "3.979ms",
                 "weightGradient": "2.302ms", "activationBytes": "64Mi",
                 "parameterBytes": "3Gi"}],
     "boundaryBytes": "33554432", "optimizerStep": "4ms", "gradientBytes": "384Mi"}

Times are Go durations for one micro-batch of ``batch.micro`` samples on one tensor-parallel group;
bytes are Kubernetes quantities on each GPU of it, except ``boundaryBytes``: what one micro-batch
sends to the next stage, all GPUs of the group together.
"""

import reprlib
from collections.abc import Callable
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from geotrain.api.v1alpha1.fields import Positive, SpecModel, Whole
from geotrain.prefill.profile import LONGEST_KERNEL
from geotrain.units import BitsPerSecond, Bytes, Seconds, parse_bytes, parse_duration

LONGEST: Final[Seconds] = 86_400.0
"""A day: what takes longer is a slip of the unit."""
FASTEST: Final[BitsPerSecond] = 1e18
"""1000P: what is faster is one too."""

_MOST_CHARACTERS = 32  # as of the quantities of the custom resources


def reader(parse: Callable[[str], float], example: str) -> BeforeValidator:
    """Reads a quantity; says what would be right for anything else."""

    def read(value: Any) -> float:
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str):
            raise ValueError(f"{reprlib.repr(value)} is no quantity; write one like {example}")
        if value.startswith("-"):
            raise ValueError(f"{value} is negative; write 0 or more, like {example}")
        if len(value) > _MOST_CHARACTERS:
            raise ValueError(f"a quantity of {len(value)} characters; write one like {example}")
        return parse(value)

    return BeforeValidator(read)


def _duration(text: str) -> Seconds:
    time = parse_duration(text)
    if time > LONGEST:
        raise ValueError(f"{text} is more than a day; check its unit")
    return time


def _bytes(text: str) -> Bytes:
    size = parse_bytes(text)
    if size >= 2**63:
        raise ValueError(f"{text} is more than 64 bits can hold; check its unit")
    return size


Time = Annotated[Seconds, reader(_duration, '"2.5ms"')]
Amount = Annotated[Bytes, reader(_bytes, '"64Mi"')]


class LayerDocument(SpecModel):
    """Equal layers, one after another."""

    count: Annotated[Whole, Field(ge=1, le=10_000)] = 1
    """How many such layers follow each other."""
    forward: Time
    """Forward of one micro-batch."""
    input_gradient: Time
    """The part of the backward that the stage before waits for."""
    weight_gradient: Time
    """The rest of the backward."""
    activation_bytes: Amount = 0
    """Held from forward to backward when nothing is recomputed."""
    parameter_bytes: Amount = 0
    """Weights, gradients and optimizer state."""
    recompute: Time | None = None
    """What running it again before its backward takes (default: its forward)."""
    optimizer_step: Time = 0.0
    """The layer's part of the optimizer's step."""
    gradient_bytes: Amount | None = None
    """Gradients, which the replicas all-reduce (default: gradientBytes of the profile)."""


class ProfileDocument(SpecModel):
    """A model's measured costs."""

    layers: tuple[LayerDocument, ...] = Field(min_length=1)
    """Layers in order."""
    boundary_bytes: Amount
    """What one micro-batch sends from a stage to the next."""
    optimizer_step: Time = 0.0
    """The optimizer's step, once an iteration."""
    gradient_bytes: Amount = 0
    """Gradients of one layer, which the replicas all-reduce."""


class PrefillPoint(SpecModel):
    """One measured point."""

    tokens: Positive
    """Length of the prompt."""
    time: Time
    """What one layer takes for it."""


class PrefillDocument(SpecModel):
    """A model's measured prefill times."""

    layers: Positive
    """Transformer layers."""
    layer_times: tuple[PrefillPoint, ...] = Field(min_length=1)
    """Points in ascending order of tokens."""
    longest_kernel: Time = LONGEST_KERNEL
    """Longest a worker may keep the GPU at a stretch: prompts are cut until kernels are shorter."""
