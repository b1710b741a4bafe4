"""Costs from a model's shape, where nothing is measured.

``planning.costs`` says what a layer of a dense decoder takes; here a job's few figures become its
shape. Heads are 128 wide and attention is fused, as in the models that are trained today; a tensor
group exchanges over links like those inside a node of A100 (NVSwitch). Memory of a layer on each
GPU: 16 bytes a weight over the tensor group, and its activations (docs/costs.md).

An estimate is optimistic for narrow layers: measure a profile for anything that matters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from geotrain.errors import InputError
from geotrain.model.workload import Profile
from geotrain.planning.costs import layers, memory, shapes
from geotrain.planning.costs.accelerators import ACCELERATORS, Accelerator
from geotrain.planning.costs.accelerators import known as accelerator
from geotrain.planning.costs.clusters import VTRAIN
from geotrain.planning.costs.layers import Training
from geotrain.prefill.profile import LayerTime, PrefillProfile

EFFICIENCY: Final = 0.6
"""Share of the peak that a prefill's matrix products reach. Measured on an H200 with PyTorch 2.11:
0.70 for layers of width 4096 and 8192 at 4,096 tokens; the rest is caution."""

DTYPE_BYTES: Final = {"bfloat16": 2, "float16": 2, "float32": 4}
_PREFILL_TOKENS: Final = (128, 512, 2048, 8192, 32768)
HEAD_WIDTH: Final = 128


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


def known(accelerators: Sequence[str]) -> tuple[Accelerator, ...]:
    """Those that the data centres name, each once and in name order.

    Raises InputError where there is none, or one that nobody knows: it is never taken for another.
    """
    unknown = sorted({name for name in accelerators if accelerator(name) is None})
    if unknown or not accelerators:
        named = ", ".join(unknown) or "none is named"
        raise InputError(
            f"layer times cannot be estimated: accelerators of the data centres: {named}; known:"
            f" {', '.join(ACCELERATORS)}. Set spec.accelerator of the DataCenters, or give"
            " a profileRef with measured times"
        )
    found = {one.name: one for one in map(accelerator, accelerators) if one is not None}
    return tuple(one for _, one in sorted(found.items()))


def slowest(accelerators: Sequence[str]) -> Accelerator:
    """The slowest of those that are named. Raises like ``known``."""
    return min(known(accelerators), key=lambda one: (one.peak * one.matrix_share, one.name))


def state_bytes(dtype: str) -> memory.StateBytes:
    """What a weight of that type takes in training."""
    return memory.SINGLE if DTYPE_BYTES[dtype] == memory.SINGLE.weight else memory.MIXED


def training_profile(shape: Shape, accelerator: Accelerator) -> Profile:
    """Costs of every layer on a tensor-parallel group of an accelerator."""
    return layers.profile(decoder(shape), accelerator, training(shape), VTRAIN.node)


def decoder(shape: Shape) -> shapes.Shape:
    """The shape with what is usual where a job says nothing."""
    return shapes.Shape(
        layers=shape.layers,
        hidden=shape.hidden,
        heads=max(1, shape.hidden // HEAD_WIDTH),
        sequence=shape.sequence,
        vocabulary=shape.vocabulary,
        micro_batch=shape.micro_batch,
        value_bytes=DTYPE_BYTES[shape.dtype],
        fused=True,
    )


def training(shape: Shape) -> Training:
    """How the job trains it; a plan adds the recompute."""
    return Training(tensor=shape.tensor, state=state_bytes(shape.dtype))


def prefill_profile(layers: int, hidden: int, peak: float) -> PrefillProfile:
    """Prefill times of a model on one GPU."""
    times = (
        (n, (24.0 * n * hidden**2 + 2.0 * n**2 * hidden) / (peak * EFFICIENCY))
        for n in _PREFILL_TOKENS
    )
    return PrefillProfile(layers, tuple(LayerTime(n, t) for n, t in times))
