"""What a layout costs: every action of a device, every message, the iteration's end, and memory.

One micro-batch of b samples and one layer, on one device (T tensor, C context, tokens = b s / T C;
passes are ring passes as in ``network``)::

    compute    forward: matrices + attention; input gradient: matrices + 2 attention; weight
               gradient: matrices; operations / (device x transport's compute)
    tensor     4 passes over the tensor group of b s/C h values, forward and backward each, with
               sequence parallelism (arXiv 2205.05198); 2 where the feed-forward part is experts
    context    keys and values once around the context ring, twice in the backward (Ring
               Attention, arXiv 2310.01889), behind attention
    expert     two all-to-alls of tokens x per_token h values over the tensor groups of ``expert``
               replicas, forward and backward each (GShard, arXiv 2006.16668)
    shard      the layer's weights gathered in forward and in backward, its gradients
               reduce-scattered in each backward, behind compute (FSDP)
    recompute  ``full`` runs the forward again in the input gradient, exchanges included

An exchange that runs behind compute costs what exceeds ``overlap`` x that compute. Exchanges of
different kinds that run at the same time are not slowed by each other.

After the last micro-batch a device reduce-scatters its gradients over all that hold the same
weights, steps its share of the optimizer state (ZeRO-1, arXiv 1910.02054) and all-gathers the
weights: behind the last micro-batch's backward and the next one's first forward, but for one
layer each.

A hop carries b s/C h / T values a device. Memory: weights, gradients, optimizer state over the
replicas, gathered weights of two layers where sharded, and what micro-batches in flight keep.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from math import inf

from geotrain.planning.costs.collectives import exposed
from geotrain.planning.explore.layouts import (
    Degrees,
    Factors,
    Layout,
    innermost,
    spread,
    times,
    without,
)
from geotrain.planning.explore.network import (
    Border,
    Exchange,
    Network,
    Ring,
    Spread,
    Transport,
    Way,
    all_to_all,
    best_all_to_all,
    best_ring,
    ring,
    way,
)
from geotrain.planning.explore.shapes import Recompute, Shape
from geotrain.planning.schedule.costs import Costs, Hop, StageCosts
from geotrain.planning.schedule.layouts import interleaved
from geotrain.units import Bytes, Seconds


@dataclass(frozen=True, slots=True)
class Device:
    """An accelerator: operations a second that large matrix products reach, and its memory."""

    operations: float
    memory: Bytes

    def __post_init__(self) -> None:
        if not 0 < self.operations < inf or self.memory < 1:
            raise ValueError("an accelerator needs a finite speed and a memory above 0")


@dataclass(frozen=True, slots=True)
class Overlap:
    """Share of the compute beside an exchange that can hide it."""

    tensor: float = 0.0
    context: float = 1.0
    expert: float = 0.0
    data: float = 1.0

    def __post_init__(self) -> None:
        for name in ("tensor", "context", "expert", "data"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"overlap {name} is {getattr(self, name)}; give a share of 0 to 1")


@dataclass(frozen=True, slots=True)
class Problem:
    """What is to be trained, and on what. ``batch`` counts samples an iteration."""

    shape: Shape
    network: Network
    device: Device
    batch: int
    overlap: Overlap = Overlap()

    @property
    def tokens(self) -> int:
        """Tokens of one iteration."""
        return self.batch * self.shape.sequence


@dataclass(frozen=True, slots=True)
class Wires:
    """What exchanges take over the groups of a layout, whatever their size.

    ``replicas`` hold the same weights, ``expert_replicas`` the same experts.
    """

    tensor: Ring
    context: Ring
    shard: Ring
    replicas: Ring
    expert_replicas: Ring
    expert: Exchange
    way: Way
    compute: float


class Book:
    """Exchanges by spread, each worked out once."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._rings: dict[tuple[str, Spread], Ring] = {}
        self._exchanges: dict[tuple[str, Spread], Exchange] = {}
        self._ways: dict[tuple[str, Spread], Way] = {}
        self._best: dict[int, tuple[Ring, Exchange]] = {}

    def placed(self, degrees: Degrees, table: Factors, transport: Transport) -> Wires:
        """The exchanges of degrees that are placed."""
        tensor, context, data, pipeline = table
        shard = innermost(data, degrees.shard)
        expert = innermost(data, degrees.expert)
        all_replicas = times(context, data)

        def ringed(row: tuple[int, ...]) -> Ring:
            return self._ring(transport, spread(row))

        return Wires(
            tensor=ringed(tensor),
            context=ringed(context),
            shard=ringed(shard),
            replicas=ringed(without(all_replicas, shard)),
            expert_replicas=ringed(without(all_replicas, expert)),
            expert=self._exchange(transport, spread(times(tensor, expert))),
            way=self._way(transport, spread(pipeline)),
            compute=transport.compute,
        )

    def best(self, degrees: Degrees) -> Wires:
        """Exchanges that no placement and no transport of the network beats."""
        replicas = degrees.context * degrees.data

        def ringed(size: int) -> Ring:
            return self._unbeaten(size)[0]

        return Wires(
            tensor=ringed(degrees.tensor),
            context=ringed(degrees.context),
            shard=ringed(degrees.shard),
            replicas=ringed(replicas // degrees.shard),
            expert_replicas=ringed(replicas // degrees.expert),
            expert=self._unbeaten(degrees.tensor * degrees.expert)[1],
            way=Way((Border(inf, 0.0),) * degrees.pipeline, 0.0, 0.0),
            compute=max(transport.compute for transport in self._network.transports),
        )

    def _ring(self, transport: Transport, members: Spread) -> Ring:
        key = transport.name, members
        if key not in self._rings:
            self._rings[key] = ring(self._network, transport, members)
        return self._rings[key]

    def _exchange(self, transport: Transport, members: Spread) -> Exchange:
        key = transport.name, members
        if key not in self._exchanges:
            self._exchanges[key] = all_to_all(self._network, transport, members)
        return self._exchanges[key]

    def _way(self, transport: Transport, members: Spread) -> Way:
        key = transport.name, members
        if key not in self._ways:
            self._ways[key] = way(self._network, transport, members)
        return self._ways[key]

    def _unbeaten(self, size: int) -> tuple[Ring, Exchange]:
        if size not in self._best:
            transports = self._network.transports
            self._best[size] = (
                best_ring(self._network, transports, size),
                best_all_to_all(self._network, transports, size),
            )
        return self._best[size]


@dataclass(frozen=True, slots=True)
class LayerTimes:
    """One layer and one micro-batch on one device, exchanges included."""

    forward: Seconds
    input_gradient: Seconds
    weight_gradient: Seconds

    @property
    def backward(self) -> Seconds:
        """The whole backward."""
        return self.input_gradient + self.weight_gradient

    @property
    def parts(self) -> tuple[Seconds, Seconds, Seconds]:
        """Forward, input gradient, weight gradient."""
        return self.forward, self.input_gradient, self.weight_gradient


@dataclass(frozen=True, slots=True)
class Layers:
    """One layer, and what an iteration's end takes by a device's layers and ends, once known.

    All schedules of some degrees, micro-batch and recompute have it in common.
    """

    times: LayerTimes
    ends: dict[tuple[int, int], Seconds] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """A layout's costs before they become those of stages.

    ``layers`` counts each stage's; stage s runs on device s modulo ``devices``. ``head`` is what
    the last stage does besides its layers. ``message`` is what a device sends to the next stage.
    """

    layer: LayerTimes
    head: LayerTimes
    layers: tuple[int, ...]
    devices: int
    micro_batches: int
    message: float
    way: Way
    first_end: Seconds
    last_end: Seconds

    def layers_of(self, device: int) -> int:
        """Layers of all stages of a device."""
        return _held_layers(self.layers, self.devices)[device]


def micro_batches(problem: Problem, layout: Layout) -> int:
    """Micro-batches that one replica runs in an iteration; 0 where they do not come out even."""
    each, rest = divmod(problem.batch, layout.degrees.data * layout.micro_batch)
    return 0 if rest else each


@lru_cache(maxsize=1000)
def _held_layers(layers: tuple[int, ...], devices: int) -> tuple[int, ...]:
    """Layers of all stages of each device."""
    return tuple(sum(layers[device::devices]) for device in range(devices))


@lru_cache(maxsize=1000)
def split(layers: int, stages: int) -> tuple[int, ...]:
    """Layers of each stage, as even as can be; the first stages have one more."""
    each, rest = divmod(layers, stages)
    return (each + 1,) * rest + (each,) * (stages - rest)


def layer_times(problem: Problem, layout: Layout, wires: Wires) -> LayerTimes:
    """One layer and one micro-batch, as in the table above."""
    shape, cover, degrees = problem.shape, problem.overlap, layout.degrees
    tokens = _tokens(problem, layout)
    speed = problem.device.operations * wires.compute
    matrices = tokens * shape.matrix_operations / speed
    attention = tokens * shape.attention_operations / speed
    value = shape.parameter_bytes
    passes = 4 if shape.experts is None else 2
    tensor = passes * wires.tensor.seconds(tokens * degrees.tensor * shape.hidden * value)
    exchange = exposed(tensor, matrices, cover.tensor)
    if shape.experts is not None:
        routed = tokens * shape.experts.per_token * shape.hidden * value
        both = 2 * wires.expert.seconds(routed)
        exchange += exposed(both, tokens * shape.feed_forward_operations / speed, cover.expert)
    keys = 2 * tokens * degrees.context * shape.key_value * value
    forward = matrices + attention + exchange
    forward += exposed(wires.context.seconds(keys), attention, cover.context)
    gradient = matrices + 2 * attention + exchange
    gradient += exposed(wires.context.seconds(2 * keys), 2 * attention, cover.context)
    gradient += _again(shape, tokens, speed, layout.recompute, forward)
    if degrees.shard > 1:
        weights = shape.dense_weights / degrees.tensor
        gather = wires.shard.seconds(weights * value)
        scatter = wires.shard.seconds(weights * shape.gradient_bytes)
        backward = gradient + matrices
        forward += exposed(gather, forward, cover.data)
        gradient += exposed(gather + scatter, backward, cover.data)
    return LayerTimes(forward, gradient, matrices)


def _again(
    shape: Shape, tokens: float, speed: float, recompute: Recompute, forward: Seconds
) -> Seconds:
    """What recompute adds to a layer's backward."""
    if recompute == "full":
        return forward
    if recompute == "none":
        return 0.0
    return 2 / 3 * tokens * shape.feed_forward_operations / speed


def _tokens(problem: Problem, layout: Layout) -> float:
    """Tokens of a micro-batch on one device."""
    parts = layout.degrees.tensor * layout.degrees.context
    return layout.micro_batch * problem.shape.sequence / parts


def step(problem: Problem, layout: Layout, wires: Wires, known: Layers | None = None) -> Step:
    """The costs of a layout whose micro-batches come out even; ``known`` is filled on the way."""
    shape, degrees = problem.shape, layout.degrees
    known = known or Layers(layer_times(problem, layout, wires))
    tokens = _tokens(problem, layout)
    head = tokens * shape.head_operations / (problem.device.operations * wires.compute)
    again = head if layout.recompute == "full" else 0.0
    layers = split(shape.layers, degrees.pipeline * layout.chunks)
    return Step(
        layer=known.times,
        head=LayerTimes(head, head + again, head),
        layers=layers,
        devices=degrees.pipeline,
        micro_batches=micro_batches(problem, layout),
        message=tokens * shape.hidden * shape.parameter_bytes,
        way=wires.way,
        first_end=device_end(problem, degrees, wires, known, layers, 0),
        last_end=device_end(problem, degrees, wires, known, layers, degrees.pipeline - 1),
    )


def device_end(
    problem: Problem,
    degrees: Degrees,
    wires: Wires,
    known: Layers,
    layers: tuple[int, ...],
    device: int,
) -> Seconds:
    """What a device's gradients and weights take beyond what compute hides."""
    held = _held_layers(layers, degrees.pipeline)[device], _ends(degrees, device)
    if held not in known.ends:
        known.ends[held] = end(problem, degrees, wires, known.times, *held)
    return known.ends[held]


def end(
    problem: Problem, degrees: Degrees, wires: Wires, layer: LayerTimes, count: int, ends: int
) -> Seconds:
    """The same for ``count`` layers and ``ends`` embeddings of the vocabulary."""
    shape = problem.shape
    dense, experts = _held(shape, degrees, count, ends)

    def passes(size: int) -> Seconds:
        taken = wires.replicas.seconds(dense * size)
        return taken + (wires.expert_replicas.seconds(experts * size) if experts else 0.0)

    beside = problem.overlap.data * (count - 1)
    return exposed(passes(shape.gradient_bytes), layer.backward, beside) + exposed(
        passes(shape.parameter_bytes), layer.forward, beside
    )


def _ends(degrees: Degrees, device: int) -> int:
    """How many ends of the pipeline a device is: each holds an embedding."""
    return (device == 0) + (device == degrees.pipeline - 1)


def _held(shape: Shape, degrees: Degrees, count: int, ends: int) -> tuple[float, float]:
    """Weights that a device of ``count`` layers keeps: those of experts apart."""
    dense = count * shape.dense_weights + ends * shape.vocabulary * shape.hidden
    experts = count * shape.expert_weights / (degrees.tensor * degrees.expert)
    return dense / (degrees.tensor * degrees.shard), experts


def in_flight(layout: Layout, micro_batches: int, device: int) -> int:
    """Stage activations that a device holds at most, of the orders of this search."""
    left = layout.degrees.pipeline - device
    if layout.chunks == 1:
        return min(left, micro_batches)
    warm_up = 2 * (left - 1) + (layout.chunks - 1) * layout.degrees.pipeline
    return min(warm_up + 1, layout.chunks * micro_batches)


def memory(problem: Problem, layout: Layout) -> float:
    """Bytes that the fullest device needs: the first of the pipeline or the last."""
    return max(_memory(problem, layout, device) for device in {0, layout.degrees.pipeline - 1})


def _memory(problem: Problem, layout: Layout, device: int) -> float:
    shape, degrees = problem.shape, layout.degrees
    layers = split(shape.layers, degrees.pipeline * layout.chunks)
    count = _held_layers(layers, degrees.pipeline)[device]
    dense, experts = _held(shape, degrees, count, _ends(degrees, device))
    replicas = degrees.context * degrees.data
    state = shape.optimizer_bytes * (dense * degrees.shard + experts * degrees.expert) / replicas
    held = in_flight(layout, micro_batches(problem, layout), device)
    kept = held * layers[device] * shape.kept(layout.recompute) + shape.transient(layout.recompute)
    if device == degrees.pipeline - 1:
        kept += _LOGIT * shape.vocabulary
    total = (dense + experts) * (shape.parameter_bytes + shape.gradient_bytes) + state
    if degrees.shard > 1:
        total += _GATHERED * shape.parameter_bytes * shape.dense_weights / degrees.tensor
    return total + _tokens(problem, layout) * kept


_LOGIT = 4
"""Bytes of a logit: the loss is computed in 32 bit."""

_GATHERED = 2
"""Layers whose weights are whole at a time where they are sharded: this one and the next."""


def costs(problem: Problem, layout: Layout, wires: Wires) -> Costs:
    """The costs of stages and hops, for the replay."""
    known = Layers(layer_times(problem, layout, wires))
    made = step(problem, layout, wires, known)
    degrees, layer, head = layout.degrees, made.layer, made.head
    stages = []
    for stage, count in enumerate(made.layers):
        last = stage == len(made.layers) - 1
        ending = 0.0
        if stage < degrees.pipeline:
            ending = device_end(problem, degrees, wires, known, made.layers, stage)
        stages.append(
            StageCosts(
                layers=count,
                forward=count * layer.forward + last * head.forward,
                input_gradient=count * layer.input_gradient + last * head.input_gradient,
                weight_gradient=count * layer.weight_gradient + last * head.weight_gradient,
                all_reduce=ending,
            )
        )
    hops = tuple(
        Hop(made.message * 8 / border.rate, border.latency)
        for border in (wires.way.borders[s % degrees.pipeline] for s in range(len(stages) - 1))
    )
    where = interleaved(degrees.pipeline, layout.chunks) if layout.chunks > 1 else ()
    return Costs(tuple(stages), hops, hops, where)
