"""Costs from a model's shape, where nothing is measured.

One layer of a dense decoder of width h on a sample of s tokens, in floating-point operations
(Narayanan et al., arXiv 2104.04473, appendix; attention causal, so half of the full square):

    matrices   M = 24·s·h²          12·h² weights, a multiplication and an addition each
    attention  A = 2·s²·h           scores and weighted sum
    forward F = M + A,  input gradient I = M + 2·A,  weight gradient W = M
    time = operations / (tensor · peak · EFFICIENCY)

Memory of a layer on each GPU: 16 bytes a weight (weights and gradients in the training type,
optimizer state and main copy in float32) over the tensor group; activations of 34·s·h bytes in
16 bit with a fused attention (Korthikanti et al., arXiv 2205.05198, table 2). The last layer also
carries the output over the vocabulary, first and last the embedding's weights.

An estimate ignores kernels' overheads and so is optimistic for narrow layers: measure a profile
for anything that matters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from geotrain.errors import InputError
from geotrain.model.workload import LayerCosts, Profile
from geotrain.prefill.profile import LayerTime, PrefillProfile
from geotrain.units import Bytes, Seconds

EFFICIENCY: Final = 0.6
"""Share of the peak that large matrix products reach. Measured on an H200 with PyTorch 2.11:
0.70 for layers of width 4096 and 8192 at 4,096 tokens; the rest is caution."""

PEAK_FLOPS: Final[dict[str, float]] = {
    "A100": 312e12,
    "B200": 2250e12,
    "H100": 989e12,
    "H200": 989e12,
    "L40S": 362e12,
}
"""Dense bfloat16 operations a second, from NVIDIA's data sheets (SXM where there are several)."""

DTYPE_BYTES: Final = {"bfloat16": 2, "float16": 2, "float32": 4}
_STATE_BYTES: Final = 16  # of one weight, in mixed precision and in float32 alike
_PREFILL_TOKENS: Final = (128, 512, 2048, 8192, 32768)


@dataclass(frozen=True, slots=True)
class Shape:
    """A dense decoder; ``sequence`` in tokens, ``micro_batch`` in samples."""

    layers: int
    hidden: int
    sequence: int
    vocabulary: int
    dtype: str = "bfloat16"
    micro_batch: int = 1
    tensor: int = 1


def slowest_peak(accelerators: Sequence[str]) -> float:
    """The lowest peak, because a pipeline runs at its slowest stage. Raises InputError."""
    known = [a for a in accelerators if a in PEAK_FLOPS]
    if not known:
        named = ", ".join(sorted(set(accelerators))) or "none"
        raise InputError(
            f"layer times cannot be estimated: accelerators named by the data centres: {named};"
            f" known: {', '.join(PEAK_FLOPS)}. Set spec.accelerator of the DataCenters, or give"
            " a profileRef with measured times"
        )
    return min(PEAK_FLOPS[a] for a in known)


def training_profile(shape: Shape, peak: float) -> Profile:
    """Costs of every layer on a tensor-parallel group of GPUs of ``peak`` operations a second."""
    size = DTYPE_BYTES[shape.dtype]
    tokens = shape.sequence * shape.micro_batch
    layers = [_layer(shape, peak)] * shape.layers
    embedding = LayerCosts(0, 0, 0, 0, _share(shape, _STATE_BYTES * _embedding(shape)))
    output_time = _time(shape, 2.0 * tokens * _embedding(shape), peak)
    output = LayerCosts(output_time, output_time, output_time)
    layers[0] = _sum(layers[0], embedding)
    layers[-1] = _sum(layers[-1], output)
    if shape.layers > 1:  # one layer holds the embedding only once
        layers[-1] = _sum(layers[-1], embedding)
    return Profile(
        layers=tuple(layers),
        boundary=tokens * shape.hidden * size,
        gradient_bytes_per_layer=_share(shape, size * _weights(shape)),
    )


def prefill_profile(layers: int, hidden: int, peak: float) -> PrefillProfile:
    """Prefill times of a model on one GPU."""
    times = (
        (n, (24.0 * n * hidden**2 + 2.0 * n**2 * hidden) / (peak * EFFICIENCY))
        for n in _PREFILL_TOKENS
    )
    return PrefillProfile(layers, tuple(LayerTime(n, t) for n, t in times))


def _layer(shape: Shape, peak: float) -> LayerCosts:
    tokens = shape.sequence * shape.micro_batch
    matrices = 2.0 * tokens * _weights(shape)
    attention = 2.0 * shape.sequence * tokens * shape.hidden
    activation = 17 * DTYPE_BYTES[shape.dtype] * tokens * shape.hidden
    return LayerCosts(
        forward=_time(shape, matrices + attention, peak),
        input_gradient=_time(shape, matrices + 2 * attention, peak),
        weight_gradient=_time(shape, matrices, peak),
        activation=_share(shape, activation),
        parameters=_share(shape, _STATE_BYTES * _weights(shape)),
    )


def _weights(shape: Shape) -> int:
    return 12 * shape.hidden**2


def _embedding(shape: Shape) -> int:
    return shape.vocabulary * shape.hidden


def _time(shape: Shape, operations: float, peak: float) -> Seconds:
    return operations / (shape.tensor * peak * EFFICIENCY)


def _share(shape: Shape, size: Bytes) -> Bytes:
    """What each GPU of the tensor group holds, rounded up."""
    return -(-size // shape.tensor)


def _sum(one: LayerCosts, other: LayerCosts) -> LayerCosts:
    return LayerCosts(
        one.forward + other.forward,
        one.input_gradient + other.input_gradient,
        one.weight_gradient + other.weight_gradient,
        one.activation + other.activation,
        one.parameters + other.parameters,
    )
