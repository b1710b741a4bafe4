"""Accelerators by name, and the shares of their data sheet that training reaches.

The time of a layer's part is a sum, as on one stream of kernels::

    operations / (peak x matrix share) + bytes / (memory rate x memory share) + overhead

``overhead`` is what one layer's kernels lose for each pass over the micro-batch: launches, and the
fill and drain of every product. docs/costs.md says which shares were calibrated on what.
"""

from dataclasses import dataclass
from typing import Final

from geotrain.units import Bytes, Seconds


@dataclass(frozen=True, slots=True)
class Accelerator:
    """``peak`` in dense 16-bit operations a second, ``memory_rate`` in bytes a second."""

    name: str
    peak: float
    memory: Bytes
    memory_rate: float
    matrix_share: float
    memory_share: float
    overhead: Seconds

    def seconds(self, operations: float, moved: float, passes: float = 1.0) -> Seconds:
        """What ``operations`` and ``moved`` bytes in ``passes`` over a layer take on one device."""
        return (
            operations / (self.peak * self.matrix_share)
            + moved / (self.memory_rate * self.memory_share)
            + passes * self.overhead
        )


_GIB = 2**30

# Calibrated on every second of vTrain's measured iterations, from the second on; then on layers
# that this project measured on an H200. Others take the H200's shares (docs/costs.md).
_AMPERE = (0.805, 0.649, 403e-6)
_HOPPER = (0.71, 0.95, 180e-6)

ACCELERATORS: Final[dict[str, Accelerator]] = {
    each.name: each
    for each in (
        Accelerator("A100", 312e12, 80 * _GIB, 2.039e12, *_AMPERE),
        Accelerator("A100-40", 312e12, 40 * _GIB, 1.555e12, *_AMPERE),
        Accelerator("B200", 2250e12, 180 * _GIB, 8e12, *_HOPPER),
        Accelerator("H100", 989e12, 80 * _GIB, 3.35e12, *_HOPPER),
        Accelerator("H200", 989e12, 141 * _GIB, 4.8e12, *_HOPPER),
        Accelerator("L40S", 362e12, 48 * _GIB, 0.864e12, *_HOPPER),
    )
}
"""Peaks, memories and rates from NVIDIA's data sheets (SXM where there are several)."""
