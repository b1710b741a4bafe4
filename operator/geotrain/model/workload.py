"""What is to be trained: layers and their measured costs, parallelism, batch and wishes."""

from dataclasses import dataclass
from typing import Literal

from geotrain.model.topology import DataCenter
from geotrain.units import Bytes, Seconds

PlacementPolicy = Literal["Atlas", "Fixed"]
SchedulePolicy = Literal["Auto", "GPipe", "OneFOneB", "Atlas", "GeoPipe", "ZeroBubble", "Greedy"]
Sharing = Literal["Spatial", "Temporal"]
Objective = Literal["Throughput", "Cost"]


@dataclass(frozen=True, slots=True)
class LayerCosts:
    """One layer and one micro-batch on one tensor-parallel group.

    ``backward`` is ``input_gradient + weight_gradient``. ``activation`` is held from F to B when
    nothing is recomputed; ``parameters`` is the memory of weights, gradients and optimizer state.
    ``recompute`` is what running it again costs (None: its forward), ``step`` its part of the
    optimizer's, ``gradients`` what replicas all-reduce of it (None: as the profile says). ``state``
    divides ``parameters`` into weights, gradients and optimizer state, where that is known.
    """

    forward: Seconds
    input_gradient: Seconds
    weight_gradient: Seconds
    activation: Bytes = 0
    parameters: Bytes = 0
    recompute: Seconds | None = None
    step: Seconds = 0.0
    gradients: Bytes | None = None
    state: tuple[Bytes, Bytes, Bytes] | None = None

    @property
    def backward(self) -> Seconds:
        """The whole backward, without recompute."""
        return self.input_gradient + self.weight_gradient

    def __post_init__(self) -> None:
        for name in (*_ALWAYS, "recompute", "gradients"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"a layer's {name} is {value}; give 0 or more")
        if self.state is not None and sum(self.state) != self.parameters:
            raise ValueError("a layer's state must add up to its parameters")


_ALWAYS = ("forward", "input_gradient", "weight_gradient", "activation", "parameters", "step")


@dataclass(frozen=True, slots=True)
class Profile:
    """Measured costs of a model, layer by layer, and the size of what crosses a stage boundary.

    ``boundary`` is what all GPUs of a group send together, ``kept`` what each keeps of a layer that
    is recomputed (None: the boundary). ``tied`` are gradients on each GPU that the first stage and
    the last exchange, where they share a table of the vocabulary.
    """

    layers: tuple[LayerCosts, ...]
    boundary: Bytes
    optimizer_step: Seconds = 0.0
    gradient_bytes_per_layer: Bytes = 0
    tied: Bytes = 0
    kept: Bytes | None = None

    @property
    def recomputed(self) -> Bytes:
        """What each GPU keeps of a layer that is recomputed."""
        return self.boundary if self.kept is None else self.kept


@dataclass(frozen=True, slots=True)
class Workload:
    """A job as the planner sees it. ``data`` of None lets the planner choose the degree.

    ``early_recompute``: the trainer recomputes while it waits for a gradient. ``borrowed_paths``:
    in turns a flow also uses the wide-area paths of the data centre's other stages, which is right
    where paths are capped by pod pair. ``most_connections`` is the end of what a path may have.
    ``round_batch``: a degree that does not divide the global batch may round it down to the next
    multiple. ``profiles`` by accelerator go before ``profile`` in data centres that have it, and
    ``places`` by data centre before both; they describe the same layers. ``layers`` counts the
    consecutive layers of each stage (empty: as makes the slowest stage fastest). ``blocking``: a
    GPU does nothing else while it sends to a stage of its data centre. ``error`` is the median and
    the 90th percentile of what estimates of such costs were off, where that was measured; ``notes``
    say what the costs assume.
    """

    profile: Profile
    pipeline: int
    data: int | None
    tensor: int
    global_batch: int
    micro_batch: int = 1
    placement: PlacementPolicy = "Atlas"
    allowed: tuple[str, ...] = ()
    fixed: tuple[tuple[str, int], ...] = ()
    objective: Objective = "Throughput"
    schedule: SchedulePolicy = "Auto"
    recompute: bool = True
    memory_per_gpu: Bytes | None = None
    connections: int | None = None
    sharing: Sharing = "Temporal"
    early_recompute: bool = False
    borrowed_paths: bool = False
    most_connections: int = 512
    round_batch: bool = False
    profiles: tuple[tuple[str, Profile], ...] = ()
    places: tuple[tuple[str, Profile], ...] = ()
    layers: tuple[int, ...] = ()
    blocking: bool = False
    error: tuple[float, float] | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        count = len(self.profile.layers)
        for name, profile in (*self.profiles, *self.places):
            if len(profile.layers) != count:
                raise ValueError(
                    f"the profile for {name} has {len(profile.layers)} layers, and the"
                    f" model {count}; describe the same layers"
                )
        if self.layers and (len(self.layers), sum(self.layers)) != (self.pipeline, count):
            raise ValueError(
                f"layers a stage {', '.join(map(str, self.layers))} are {len(self.layers)} stages"
                f" of {sum(self.layers)} layers; the pipeline has {self.pipeline} of {count}"
            )
        if any(each < 1 for each in self.layers):
            raise ValueError("every stage needs a layer; give layers a stage of 1 or more")

    def profile_in(self, center: DataCenter) -> Profile:
        """Costs in a data centre: its own, its accelerator's, or those of all."""
        usual = dict(self.profiles).get(center.accelerator, self.profile)
        return dict(self.places).get(center.name, usual)

    def micro_batches(self, data: int) -> int:
        """M, the micro-batches of one replica in one iteration; 0 when it does not divide."""
        each, rest = divmod(self.global_batch, data * self.micro_batch)
        return 0 if rest and not self.round_batch else each

    def samples(self, data: int) -> int:
        """Samples of one iteration: the global batch, or what is left of it when rounded."""
        return self.micro_batches(data) * data * self.micro_batch
