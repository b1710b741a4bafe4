"""A plan: who runs what where, in which order, over which connections and in which windows.

Ranks are numbered stage by stage, ``rank = stage * data + replica``, as Megatron-LM numbers
pipeline (outermost) and data parallelism. All times are seconds from the start of an iteration,
which is when stage 0 starts its first forward.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from geotrain.units import BitsPerSecond, Bytes, Seconds


class Kind(StrEnum):
    """What an action does; the text is that of torch.distributed.pipelining."""

    FORWARD = "F"
    BACKWARD = "B"
    INPUT_GRADIENT = "I"
    WEIGHT_GRADIENT = "W"
    SEND_FORWARD = "SEND_F"
    RECEIVE_FORWARD = "RECV_F"
    SEND_BACKWARD = "SEND_B"
    RECEIVE_BACKWARD = "RECV_B"


@dataclass(frozen=True, slots=True, order=True)
class Action:
    """One step of a stage for one micro-batch; ``str`` gives ``2F0``."""

    stage: int
    kind: Kind
    micro_batch: int

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.micro_batch}"


Order = tuple[tuple[Action, ...], ...]
"""The compute actions of every stage, in execution order; index 0 is stage 0."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Consecutive stages per data centre, in pipeline order, and the data-parallel degree."""

    segments: tuple[tuple[str, int], ...]
    data: int

    @property
    def stages(self) -> int:
        """P, the pipeline's length."""
        return sum(n for _, n in self.segments)

    def data_center_of(self, stage: int) -> str:
        """The data centre that runs ``stage``."""
        for name, count in self.segments:
            if stage < count:
                return name
            stage -= count
        raise IndexError(f"stage {stage} is beyond the pipeline")


@dataclass(frozen=True, slots=True)
class Bubble:
    """An interval in which a rank's GPU waits."""

    rank: int
    begin: Seconds
    end: Seconds


@dataclass(frozen=True, slots=True)
class Flow:
    """Traffic of one rank to one rank of another data centre.

    ``mates`` are ranks of the source's DP-cell, and with borrowed paths of its data centre, whose
    WAN paths the flow may use in its turn; the flow's own rank is not among them. ``rate`` is what
    one path is guaranteed in the flow's window, ``idle_rate`` what it is outside.
    """

    id: int
    source: int
    target: int
    source_data_center: str
    target_data_center: str
    mates: tuple[int, ...]
    connections: int
    rate: BitsPerSecond
    idle_rate: BitsPerSecond


@dataclass(frozen=True, slots=True)
class Window:
    """An interval of the iteration in which one flow owns its paths at ``rate`` each."""

    flow: int
    offset: Seconds
    length: Seconds
    rate: BitsPerSecond


@dataclass(frozen=True, slots=True)
class Interval:
    """An action on a rank's GPU, or a transfer on a link, in the replay."""

    label: str
    begin: Seconds
    end: Seconds


@dataclass(frozen=True, slots=True)
class Alternative:
    """A plan that was tried: its segments, degree, schedule and why it lost ('' for the winner)."""

    segments: tuple[tuple[str, int], ...]
    data: int
    schedule: str
    iteration: Seconds | None
    samples_per_second: float | None
    price_per_iteration: float | None
    why: str


@dataclass(frozen=True, slots=True)
class Proof:
    """How far a choice may be from the best of all placements, degrees and orders of the policy.

    ``replayed`` counts the placements with their degrees of which orders were replayed; what the
    others reach at best is bounded. ``loss`` is how much worse in the objective the choice may be
    than the best, as a share: 0 where it is the best, None where no bound is known.
    """

    replayed: int
    loss: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The planner's answer. Equal inputs give an equal plan, byte for byte.

    By stage: ``layers`` counts the consecutive layers, ``in_flight`` the most micro-batches that
    are held at once. By rank: ``compute`` is what its GPU does, ``steps`` the all-reduce and
    optimizer step that end its iteration. ``sharing`` is how replicas share the wide area, Spatial
    or Temporal. ``notes`` are sentences about the choice as a whole, ``proof`` how good it is.
    ``error`` is the median and the 90th percentile of what iterations with such costs were off, as
    a share; None where nobody knows.
    """

    placement: Placement
    tensor: int
    micro_batches: int
    schedule: str
    order: Order
    iteration: Seconds
    gpu_use: float
    bubble_share: float
    connections: dict[tuple[str, str], int]
    wan_bytes: dict[tuple[str, str], Bytes]
    price_per_iteration: float
    flows: tuple[Flow, ...]
    windows: tuple[Window, ...]
    bubbles: tuple[Bubble, ...]
    first_action: tuple[Seconds, ...]
    compute: tuple[tuple[Interval, ...], ...] = ()
    steps: tuple[Interval, ...] = ()
    transfers: dict[int, tuple[Interval, ...]] = field(default_factory=dict)
    alternatives: tuple[Alternative, ...] = ()
    layers: tuple[int, ...] = ()
    in_flight: tuple[int, ...] = ()
    sharing: str = "Temporal"
    notes: tuple[str, ...] = ()
    proof: Proof | None = None
    error: tuple[float, float] | None = None

    @property
    def ranks(self) -> int:
        """Pods of the job."""
        return self.placement.stages * self.placement.data

    def stage_of(self, rank: int) -> int:
        """The pipeline stage that a rank runs."""
        return rank // self.placement.data

    def replica_of(self, rank: int) -> int:
        """The data-parallel replica that a rank belongs to."""
        return rank % self.placement.data

    def data_center_of(self, rank: int) -> str:
        """Where a rank runs."""
        return self.placement.data_center_of(self.stage_of(rank))
