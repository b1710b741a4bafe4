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

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError

from geotrain.api import estimate
from geotrain.api.profiles import FASTEST, Amount, Time, reader
from geotrain.api.v1alpha1 import GeoTrainingJob
from geotrain.api.v1alpha1.fields import NO_FLAG, Share, SpecModel, Whole
from geotrain.api.v1alpha1.resource import explain
from geotrain.errors import InputError
from geotrain.model.topology import Topology
from geotrain.planning.costs import accelerators
from geotrain.planning.explore.layouts import Axis, Degrees, Layout, Placement, Schedule
from geotrain.planning.explore.network import Network, Rings, Tier, Transport
from geotrain.planning.explore.regions import Region, regions
from geotrain.planning.explore.shapes import Experts, Recompute, Shape
from geotrain.planning.explore.steps import Device, Overlap, Problem
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
    """Width of the gated feed-forward part; left out where there are only experts."""
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
    recompute: Recompute = "none"
    """none, selective (feed-forward) or full."""
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


def exploration(content: Mapping[str, Any]) -> tuple[Problem, Layout]:
    """Read a document. Raises InputError that names every wrong field."""
    try:
        read = ExplorationDocument.model_validate(dict(content))
        return _problem(read), _layout(read)
    except InputError as error:
        raise InputError(f"the exploration is wrong: {error}") from error
    except ValidationError as error:
        raise InputError(f"the exploration is wrong: {explain(error)}") from error
    except ValueError as error:
        raise InputError(f"the exploration is wrong: {error}") from error


def of_job(
    job: GeoTrainingJob, topology: Topology, named: Sequence[str]
) -> tuple[tuple[Region, Problem, Layout], ...]:
    """The job on one data centre, on two, and so on, always on as many devices.

    The given layout is the job's: tensor and data parallelism inside, 1F1B. ``data: auto`` takes
    as many replicas as find room. Raises InputError where the devices find room nowhere.
    """
    spec, shape = job.spec, job_shape(job)
    tensor, pipeline = spec.parallelism.tensor, spec.parallelism.pipeline
    known = estimate.slowest(named)
    wanted = spec.schedule.memory_per_gpu
    memory = known.memory if wanted is None else parse_bytes(wanted)
    device = Device(known.peak * known.matrix_share, memory)
    allowed = spec.placement.data_centers
    for data in _replicas(job, topology):
        degrees = Degrees(tensor, 1, data, pipeline)
        layout = Layout(
            degrees,
            Placement(("tensor", "context", "data", "pipeline")),
            micro_batch=spec.batch.micro,
            recompute="full" if spec.schedule.recompute else "none",
            transport="tcp",
        )
        found = tuple(
            (region, Problem(shape, region.network, device, spec.batch.global_), layout)
            for region in regions(topology, degrees.devices, tensor, allowed)
        )
        if found:
            return found
    raise InputError(
        f"{job.name}: tensor {tensor} x pipeline {pipeline} x data {spec.parallelism.data} finds no"
        " data centres that share it evenly, have room for it and are linked"
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


def job_shape(job: GeoTrainingJob) -> Shape:
    """The decoder that ``spec.model`` describes. Raises InputError where there is none."""
    model = job.spec.model
    if model is None:
        raise InputError("spec.model: explore needs the model's shape; a profile does not say it")
    heads = max(1, model.hidden_size // estimate.HEAD_WIDTH)
    state = estimate.state_bytes(model.parameter_dtype)
    return Shape(
        layers=model.layers,
        hidden=model.hidden_size,
        sequence=model.sequence_length,
        feed_forward=round(8 * model.hidden_size / 3),  # gated: as many weights as 4 h without
        heads=heads,
        key_value_heads=heads,
        vocabulary=model.vocabulary_size,
        parameter_bytes=round(state.weight),
        gradient_bytes=round(state.gradient),
        optimizer_bytes=round(state.optimizer),
    )


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
        overlap=Overlap(
            read.overlap.tensor, read.overlap.context, read.overlap.expert, read.overlap.data
        ),
    )


def _device(read: AcceleratorDocument) -> Device:
    known = None if read.name is None else accelerators.named(read.name, "accelerator.name")
    if known is not None:
        reached = known.peak * known.matrix_share
        return Device(
            reached if read.flops is None else read.flops,
            known.memory if read.memory is None else read.memory,
        )
    if read.flops is None or read.memory is None:
        raise ValueError("accelerator: give a name, or flops and memory")
    return Device(read.flops, read.memory)


def _shape(model: ModelDocument) -> Shape:
    experts = model.experts
    return Shape(
        layers=model.layers,
        hidden=model.hidden_size,
        sequence=model.sequence_length,
        feed_forward=model.feed_forward or 0,
        heads=model.heads,
        key_value_heads=model.key_value_heads or model.heads,
        vocabulary=model.vocabulary_size,
        experts=None
        if experts is None
        else Experts(experts.count, experts.per_token, experts.feed_forward, experts.shared),
        parameter_bytes=model.parameter_bytes,
        gradient_bytes=model.gradient_bytes,
        optimizer_bytes=model.optimizer_bytes,
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
