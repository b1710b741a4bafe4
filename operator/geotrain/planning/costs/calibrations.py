"""What training reaches of a data sheet, as it was measured: a calibration is data with a source.

The time of a layer's part is a sum, as on one stream of kernels::

    operations / (peak x matrix share) + bytes / (memory rate x memory share) + overhead

``overhead`` is what one layer's kernels lose for each pass over the micro-batch: launches, and the
fill and drain of every product. ``contention`` is an empirical factor on all of a stage's work
where tensor groups share a node in a pipeline, ``1 + contention x log2(node / t)`` for 1 < t <
node: vTrain's cluster shows it in most runs of that kind, in some not at all, and nothing in a data
sheet tells it. ``fixed`` is spent once an iteration. ``residual`` is the error on rows that the
constants were not fitted to; it is the error bar of a plan that counts with them.
"""

from dataclasses import dataclass, replace
from math import log2

from geotrain.model.topology import MessageRates
from geotrain.planning.costs.accelerators import Accelerator
from geotrain.planning.costs.tiers import Tier
from geotrain.units import Bytes, Seconds


@dataclass(frozen=True, slots=True)
class Residual:
    """Absolute relative errors of predicted iterations on ``rows`` that did not calibrate."""

    rows: int
    median: float
    p90: float

    def __post_init__(self) -> None:
        if self.rows < 1 or not 0 <= self.median <= self.p90:
            raise ValueError("a residual has rows, and a median that is not above its p90")


@dataclass(frozen=True, slots=True)
class Calibration:
    """Constants of one accelerator in one kind of cluster; what is left out loses nothing.

    ``link_rates`` are what messages of a size reach inside a node of ``node`` devices (None: the
    data sheet's). Raises ValueError with what is wrong.
    """

    accelerator: str = ""
    source: str = ""
    licence: str = ""
    matrix_share: float = 1.0
    memory_share: float = 1.0
    overhead: Seconds = 0.0
    contention: float = 0.0
    node: int = 8
    fixed: Seconds = 0.0
    link_rates: MessageRates | None = None
    residual: Residual | None = None

    def __post_init__(self) -> None:
        for name in ("matrix_share", "memory_share"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give a share above 0 to 1")
        for name in ("overhead", "contention", "fixed"):
            if not 0 <= getattr(self, name) < 1e6:
                raise ValueError(f"{name} is {getattr(self, name)}; give 0 or more")
        if self.node < 1:
            raise ValueError(f"a node of {self.node} devices; give 1 or more")

    def contended(self, tensor: int, pipeline: int) -> float:
        """By how much longer a stage of that layout takes than one that has a node to itself."""
        if pipeline < 2 or not 1 < tensor < self.node:
            return 1.0
        return 1.0 + self.contention * log2(self.node / tensor)


@dataclass(frozen=True, slots=True)
class Device:
    """An accelerator as training reaches it. Seconds are those of one device."""

    accelerator: Accelerator
    calibration: Calibration = Calibration()

    def limited(self, memory: Bytes) -> "Device":
        """The same, of which training may use so much memory."""
        return replace(self, accelerator=replace(self.accelerator, memory=memory))

    @property
    def memory(self) -> Bytes:
        """What the device has."""
        return self.accelerator.memory

    @property
    def operations(self) -> float:
        """Operations a second that large matrix products reach."""
        return self.accelerator.peak * self.calibration.matrix_share

    @property
    def moved(self) -> float:
        """Bytes a second that kernels between the products reach."""
        return self.accelerator.memory_rate * self.calibration.memory_share


@dataclass(frozen=True, slots=True)
class Node:
    """What a tensor group exchanges over.

    A node has ``gpus`` on ``near``; ``far`` between nodes is all of a node's links together.
    """

    gpus: int
    near: Tier
    far: Tier
