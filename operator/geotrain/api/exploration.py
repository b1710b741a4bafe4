"""Explorations as documents: what ``geotrain explore -f`` reads, in YAML or JSON.

    model: {layers: 128, hiddenSize: 16384, sequenceLength: 8192, feedForward: 53248, heads: 128,
            keyValueHeads: 8}
    batch: {global: 2048}
    accelerator: {flops: 400T, memory: 75G}
    network:
      rings: aware
      tiers:
        - {name: node, units: 8, rate: 3600G, latency: 2us}
        - {name: zone, units: 256, rate: 400G, latency: 5us}
        - {name: region, units: 2, rate: 50G, port: 400G, latency: 1ms}
      transports:
        - {name: default, efficiency: [0.85, 0.85, 0.5]}
    layout: {tensor: 8, pipeline: 16, microBatch: 1, schedule: Interleaved, chunks: 2}

Rates are bit/s of one device, ``flops`` operations a second that large matrix products reach.
The data degree is what the other degrees leave of the devices.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf, prod
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError

from geotrain.api import calibrations, estimate
from geotrain.api.estimate import Place
from geotrain.api.profiles import FASTEST, Amount, Time, reader
from geotrain.api.v1alpha1 import DataCenter, GeoTrainingJob
from geotrain.api.v1alpha1.fields import NO_FLAG, Flag, Share, SpecModel, Whole
from geotrain.api.v1alpha1.resource import explain
from geotrain.errors import InputError
from geotrain.model.topology import Topology
from geotrain.planning.costs import accelerators
from geotrain.planning.costs.accelerators import Accelerator
from geotrain.planning.costs.calibrations import Calibration, Device
from geotrain.planning.costs.connections import MOST_CONNECTIONS, NCCL_SOCKETS
from geotrain.planning.costs.layers import Overlap, Training
from geotrain.planning.costs.memory import Recompute, StateBytes
from geotrain.planning.costs.shapes import Experts, Shape
from geotrain.planning.explore.layouts import Axis, Degrees, Layout, Placement, Schedule
from geotrain.planning.explore.network import Network, Rings, Tier, Transport
from geotrain.planning.explore.regions import Pods, Region, regions
from geotrain.planning.explore.steps import EXPLORED, Problem
from geotrain.units import BitsPerSecond, parse_bytes, parse_rate

MOST_DEVICES: Final = 1_000_000
"""Devices whose degrees are still counted at once."""

Most = Annotated[Whole, Field(ge=1, le=10**9)]
"""A count that arithmetic stays quick with."""


def _rate(text: str) -> BitsPerSecond:
    rate = parse_rate(text)
    if rate > FASTEST:
        raise ValueError(f"{text} is more than 1000P; check its unit")
    return rate


Speed = Annotated[BitsPerSecond, reader(_rate, '"400G"')]
Operations = Annotated[float, reader(_rate, '"400T"')]
Portion = Annotated[float, Field(ge=0, le=1), NO_FLAG]


class ExpertsDocument(SpecModel):
    """A mixture of experts in every layer."""

    count: Most
    """Experts of a layer."""
    per_token: Most
    """How many of them a token is sent to."""
    feed_forward: Most
    """Width of one expert."""
    shared: Annotated[Whole, Field(ge=0, le=10**6)] = 0
    """Experts that every token passes besides."""


class ModelDocument(SpecModel):
    """A decoder of equal layers."""

    layers: Annotated[Whole, Field(ge=1, le=10_000)]
    """Transformer layers."""
    hidden_size: Most
    """Width of a layer."""
    sequence_length: Most
    """Tokens of one sample."""
    feed_forward: Most | None = None
    """Width of the feed-forward part; left out where there are only experts."""
    gated: Flag = True
    """Whether feed-forward parts and experts have a gate (default true)."""
    attention: Literal["Fused", "Unfused"] = "Fused"
    """Whether a kernel keeps no scores and skips what causality masks (default: it does)."""
    heads: Most
    """Attention heads."""
    key_value_heads: Most | None = None
    """Heads of keys and values (default: as many as heads)."""
    vocabulary_size: Annotated[Whole, Field(ge=0, le=10**9)] = 0
    """Entries of the embedding; 0 leaves embedding and output out."""
    experts: ExpertsDocument | None = None
    """A mixture of experts, if the model is one."""
    parameter_bytes: Literal[1, 2, 4] = 2
    """Bytes of a weight and of an activation."""
    gradient_bytes: Literal[1, 2, 4] = 4
    """Bytes of a gradient, kept and sent."""
    optimizer_bytes: Annotated[Whole, Field(ge=0, le=64)] = 12
    """Bytes of optimizer state for each weight, the main copy among them."""
    tied_embeddings: Flag = False
    """Whether embedding and output are one table (default false)."""


class BatchDocument(SpecModel):
    """How much one iteration trains on."""

    global_: Annotated[Whole, Field(ge=1, le=10**9, alias="global")]
    """Samples of one iteration."""


class AcceleratorDocument(SpecModel):
    """One device: by name, or by its speed and memory, or by name with one of them changed."""

    name: str | None = None
    """A known accelerator, like H200."""
    flops: Operations | None = None
    """Operations a second that large matrix products reach (default: the named one's)."""
    memory: Amount | None = None
    """What training may use of its memory (default: all of the named one's)."""


class TierDocument(SpecModel):
    """One level of the network."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """What it is called."""
    units: Annotated[Whole, Field(ge=1, le=10**6)]
    """Units of the tier below (devices, for the first) that it joins."""
    rate: Speed
    """What each device gets of the links between these units when all use them."""
    port: Speed | None = None
    """What one device can use alone (default: the rate)."""
    latency: Time
    """From one unit to another."""


class TransportDocument(SpecModel):
    """A way to carry messages."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """What it is called."""
    efficiency: tuple[Share, ...]
    """Share of the rate that payload reaches, tier by tier."""
    compute: Share = 1.0
    """Share of the device's speed that it leaves."""


class NetworkDocument(SpecModel):
    """The machine, from the inside out."""

    rings: Rings = "aware"
    """Whether rings are ordered by unit (aware) or in any order (oblivious)."""
    tiers: Annotated[tuple[TierDocument, ...], Field(max_length=8)]
    """Levels from the inside out."""
    transports: Annotated[tuple[TransportDocument, ...], Field(max_length=16)] = ()
    """Transports to choose from (default: one that reaches every rate)."""


class LayoutDocument(SpecModel):
    """The layout to compare with."""

    tensor: Most = 1
    """Tensor-parallel degree."""
    context: Most = 1
    """Context-parallel degree."""
    pipeline: Most = 1
    """Pipeline-parallel degree."""
    expert: Most = 1
    """Data replicas whose tensor groups hold the experts once."""
    shard: Most = 1
    """Data replicas that share one copy of the other weights (FSDP)."""
    nesting: tuple[Axis, ...] = ("tensor", "context", "pipeline", "data")
    """Axes from the inside out."""
    outer: Axis | None = None
    """An axis that takes what it can of the outermost tiers first."""
    outer_tiers: Annotated[Whole, Field(ge=0, le=8)] = 0
    """How many outermost tiers these are."""
    schedule: Schedule = "OneFOneB"
    """OneFOneB or Interleaved."""
    chunks: Most = 1
    """Stages of each device (Interleaved)."""
    micro_batch: Most = 1
    """Samples of a micro-batch."""
    recompute: Recompute = Recompute.NOTHING
    """none, attention, selective (feed-forward) or full."""
    transport: str | None = None
    """Name of a transport (default: the first)."""


class OverlapDocument(SpecModel):
    """Share of the compute beside an exchange that can hide it."""

    tensor: Portion = 0.0
    """Tensor-parallel passes."""
    context: Portion = 1.0
    """Keys and values, behind attention."""
    expert: Portion = 0.0
    """All-to-alls, behind the feed-forward part."""
    data: Portion = 1.0
    """Gradients and weights."""


class TrainingDocument(SpecModel):
    """How the trainer works, whatever the layout; the defaults are those of large models today."""

    sequence_parallel: Flag = True
    """The tensor group splits norms and dropouts too."""
    lean: Flag = True
    """No dropout, and cheap parts are made again in place of being kept."""
    sharded_optimizer: Flag = True
    """Replicas share the optimizer's state (ZeRO-1)."""
    replicated: Flag = False
    """Each device of a tensor group sends the whole boundary."""
    blocking: Flag = False
    """A device does nothing else while it sends a boundary."""


class ExplorationDocument(SpecModel):
    """A model, a machine and a layout to start from."""

    model: ModelDocument
    """The model's shape."""
    batch: BatchDocument
    """The batch."""
    accelerator: AcceleratorDocument
    """The device."""
    network: NetworkDocument
    """The network."""
    layout: LayoutDocument = LayoutDocument()
    """The given layout."""
    overlap: OverlapDocument = OverlapDocument()
    """What runs behind compute."""
    training: TrainingDocument = TrainingDocument()
    """How the trainer works."""


def exploration(content: Mapping[str, Any]) -> tuple[Problem, Layout]:
    """Read a document. Raises InputError that names every wrong field."""
    try:
        read = ExplorationDocument.model_validate(dict(content), by_alias=True, by_name=False)
        return _problem(read), _layout(read)
    except InputError as error:
        raise InputError(f"the exploration is wrong: {error}") from error
    except ValidationError as error:
        raise InputError(
            f"the exploration is wrong: {explain(error, ExplorationDocument)}"
        ) from error
    except ValueError as error:
        raise InputError(f"the exploration is wrong: {error}") from error


def of_job(
    job: GeoTrainingJob,
    topology: Topology,
    centers: Sequence[DataCenter],
    calibration: Calibration | None = None,
) -> tuple[tuple[Region, Problem, Layout], ...]:
    """The job on one data centre, on two, and so on, always on as many devices.

    The given layout is the job's: tensor and data parallelism inside, 1F1B. ``data: auto`` takes
    as many replicas as find room. Costs are those of a plan, on the slowest accelerator of the data
    centres that take part. Raises InputError where the devices find room nowhere.
    """
    if job.spec.model is None:
        raise InputError("spec.model: explore needs the model's shape; a profile does not say it")
    spec, shape = job.spec, estimate.decoder(job)
    tensor, pipeline = spec.parallelism.tensor, spec.parallelism.pipeline
    found = {place.name: place for place in estimate.places(job, centers, calibration)}
    for data in _replicas(job, topology):
        degrees = Degrees(tensor, 1, data, pipeline)
        layout = Layout(
            degrees,
            Placement(("tensor", "context", "data", "pipeline")),
            micro_batch=spec.batch.micro,
            recompute=Recompute.ALL if spec.schedule.recompute else Recompute.NOTHING,
            transport="tcp",
        )
        spread = tuple(
            (region, _on(job, region, _slowest(found, region.data_centers), shape), layout)
            for region in regions(
                topology, degrees.devices, _pods(job, found), spec.placement.data_centers
            )
        )
        if spread:
            return spread
    raise InputError(
        f"{job.name}: tensor {tensor} x pipeline {pipeline} x data {spec.parallelism.data} finds no"
        " data centres that share it evenly, have room for it and are linked"
    )


def _slowest(found: Mapping[str, Place], names: Sequence[str]) -> Place:
    """The slowest of some data centres; one that names no accelerator counts as slowest of all."""
    named = [found[name] for name in names if name in found]
    return estimate.slowest(named if len(named) == len(names) else tuple(found.values()))


def _pods(job: GeoTrainingJob, found: Mapping[str, Place]) -> Callable[[Sequence[str]], Pods]:
    """The job's pods in some data centres."""
    spec = job.spec
    most = NCCL_SOCKETS if spec.network.enforcement == "None" else MOST_CONNECTIONS
    wanted = spec.network.connections
    count = wanted if isinstance(wanted, int) else None

    def pods(names: Sequence[str]) -> Pods:
        return Pods(spec.parallelism.tensor, _slowest(found, names).node, count, most)

    return pods


def _on(job: GeoTrainingJob, region: Region, place: Place, shape: Shape) -> Problem:
    wanted = job.spec.schedule.memory_per_gpu
    memory = place.device.memory
    limit = memory if wanted is None else min(memory, parse_bytes(wanted))
    return Problem(
        shape,
        region.network,
        place.device.limited(limit),
        job.spec.batch.global_,
        estimate.training(job),
        job.spec.parallelism.layers_per_stage,
    )


def _replicas(job: GeoTrainingJob, topology: Topology) -> Iterator[int]:
    """Data degrees to try: the job's, or from the most that there is room for."""
    spec = job.spec
    if isinstance(spec.parallelism.data, int):
        yield spec.parallelism.data
        return
    free = sum(each.gpus for each in topology.data_centers)
    batch = spec.batch.global_ // spec.batch.micro
    most = min(free // (spec.parallelism.tensor * spec.parallelism.pipeline), batch)
    yield from (data for data in range(most, 0, -1) if batch % data == 0)


def _problem(read: ExplorationDocument) -> Problem:
    tiers = tuple(
        Tier(tier.name, tier.units, tier.rate, tier.latency, tier.port)
        for tier in read.network.tiers
    )
    transports = tuple(
        Transport(each.name, each.efficiency, each.compute) for each in read.network.transports
    )
    plain = Transport("plain", (1.0,) * len(tiers))
    return Problem(
        shape=_shape(read.model),
        network=Network(tiers, transports or (plain,), read.network.rings),
        device=_device(read.accelerator),
        batch=read.batch.global_,
        training=_training(read),
    )


def _training(read: ExplorationDocument) -> Training:
    model, hidden = read.model, read.overlap
    sharded = 1 if read.training.sharded_optimizer else 0
    return replace(
        EXPLORED,
        sequence_parallel=read.training.sequence_parallel,
        lean=read.training.lean,
        state=StateBytes(
            float(model.parameter_bytes),
            float(model.gradient_bytes),
            float(model.optimizer_bytes),
            sharded,
        ),
        blocking=read.training.blocking,
        replicated=read.training.replicated,
        overlap=Overlap(hidden.tensor, hidden.context, hidden.expert, hidden.data),
    )


def _device(read: AcceleratorDocument) -> Device:
    if read.name is None:
        if read.flops is None or read.memory is None:
            raise ValueError("accelerator: give a name, or flops and memory")
        return Device(_sheet(read.flops, read.memory))
    known = calibrations.usual(accelerators.named(read.name, "accelerator.name"))
    if read.flops is not None:
        plain = _sheet(read.flops, known.memory if read.memory is None else read.memory)
        return Device(plain)
    return known if read.memory is None else known.limited(read.memory)


def _sheet(operations: float, memory: int) -> Accelerator:
    """A device of which only its speed is told: kernels between products take no time."""
    if not 0 < operations < inf or memory < 1:
        raise ValueError("an accelerator needs a finite speed and a memory above 0")
    return Accelerator("given", operations, memory, inf)


def _shape(model: ModelDocument) -> Shape:
    experts = model.experts
    if experts is None and model.feed_forward is None:
        raise ValueError("model: give feedForward, or experts")
    return Shape(
        layers=model.layers,
        hidden=model.hidden_size,
        heads=model.heads,
        sequence=model.sequence_length,
        vocabulary=model.vocabulary_size,
        value_bytes=model.parameter_bytes,
        feed_forward=model.feed_forward or 0,
        kv_heads=model.key_value_heads or 0,
        gated=model.gated,
        fused=model.attention == "Fused",
        experts=None
        if experts is None
        else Experts(experts.count, experts.per_token, experts.feed_forward, experts.shared),
        tied=model.tied_embeddings,
    )


def _layout(read: ExplorationDocument) -> Layout:
    given, names = read.layout, [each.name for each in read.network.transports]
    devices = prod(tier.units for tier in read.network.tiers)
    if devices > MOST_DEVICES:
        raise ValueError(f"network: {devices} devices are more than {MOST_DEVICES}")
    data, rest = divmod(devices, given.tensor * given.context * given.pipeline)
    if rest or not data:
        raise ValueError(
            f"layout: tensor {given.tensor} x context {given.context} x pipeline {given.pipeline} "
            f"does not divide the {devices} devices of the network"
        )
    return Layout(
        degrees=Degrees(
            given.tensor, given.context, data, given.pipeline, given.expert, given.shard
        ),
        placement=Placement(given.nesting, given.outer or "", given.outer_tiers),
        schedule=given.schedule,
        chunks=given.chunks,
        micro_batch=given.micro_batch,
        recompute=given.recompute,
        transport=given.transport or (names[0] if names else "plain"),
    )
