"""What a layout costs: every action of a device, every message, the iteration's end, and memory.

Layers, output, sizes and the optimizer's step are those of ``costs.layers``, which plans count with
as well; here are the groups of a layout that they exchange over, and what only a layout of all axes
has. The exchanges of different kinds that run at the same time are not slowed by each other.

After the last micro-batch a device all-reduces its gradients over all that hold the same weights,
or with optimizer state that is sharded reduce-scatters them, steps its share and all-gathers the
weights (ZeRO-1, arXiv 1910.02054): behind the last micro-batch's backward and the next one's first
forward, as far as the overlap goes, but for one layer each.

A hop carries b s/C h / T values a device. Memory: weights, gradients, optimizer state, gathered
weights of two layers where sharded, and what micro-batches in flight keep.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from math import inf
from typing import Final

from geotrain.model.workload import LayerCosts
from geotrain.planning.costs import layers as costing
from geotrain.planning.costs import memory as sizing
from geotrain.planning.costs.calibrations import Device
from geotrain.planning.costs.collectives import exposed
from geotrain.planning.costs.layers import Exchanges, Overlap, Split, Training
from geotrain.planning.costs.memory import Recompute, Sharing, StateBytes
from geotrain.planning.costs.shapes import Shape
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
from geotrain.planning.schedule import balance
from geotrain.planning.schedule.costs import Costs, Hop, StageCosts, blocked
from geotrain.planning.schedule.layouts import interleaved
from geotrain.units import Bytes, Seconds

EXPLORED: Final = Training(
    sequence_parallel=True,
    state=StateBytes(gradient=4.0, sharded=1),
    lean=True,
    overlap=Overlap(),
)
"""How an exploration trains where it says nothing: as large models are trained today."""


@dataclass(frozen=True)
class Problem:
    """What is to be trained, and on what. ``batch`` counts samples an iteration.

    ``training`` holds for all layouts, but for what they recompute. ``stages`` counts the layers of
    each stage where a pipeline has as many (empty: balanced by time).
    """

    shape: Shape
    network: Network
    device: Device
    batch: int
    training: Training = EXPLORED
    stages: tuple[int, ...] = ()

    @property
    def tokens(self) -> int:
        """Tokens of one iteration."""
        return self.batch * self.shape.sequence

    @cached_property
    def shapes(self) -> dict[int, Shape]:
        """The shape by micro-batch, filled on the way."""
        return {}

    def shape_of(self, layout: Layout) -> Shape:
        """The model with the layout's micro-batch."""
        size = layout.micro_batch
        if size not in self.shapes:
            self.shapes[size] = replace(self.shape, micro_batch=size)
        return self.shapes[size]

    def training_of(self, layout: Layout) -> Training:
        """How a layout trains it."""
        return replace(self.training, recompute=layout.recompute)


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
        self._ways: dict[tuple[str, Spread, int], Way] = {}
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
            way=self._way(transport, spread(pipeline), degrees.tensor),
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

    def _way(self, transport: Transport, members: Spread, tensor: int) -> Way:
        key = transport.name, members, tensor
        if key not in self._ways:
            self._ways[key] = way(self._network, transport, members, tensor)
        return self._ways[key]

    def _unbeaten(self, size: int) -> tuple[Ring, Exchange]:
        if size not in self._best:
            transports = self._network.transports
            self._best[size] = (
                best_ring(self._network, transports, size),
                best_all_to_all(self._network, transports, size),
            )
        return self._best[size]


def split_of(degrees: Degrees) -> Split:
    """Among how many devices a layer is divided."""
    return Split(
        Sharing(
            degrees.tensor,
            degrees.context,
            degrees.expert,
            degrees.shard,
            degrees.context * degrees.data,
        ),
        degrees.pipeline,
    )


def exchanges_over(wires: Wires) -> Exchanges:
    """A layer's exchanges over the groups of a layout."""

    def reduced(size: float) -> Seconds:
        return 2 * wires.tensor.seconds(size)

    return Exchanges(
        reduced,
        wires.context.seconds,
        wires.expert.seconds,
        wires.shard.seconds,
        wires.compute,
    )


@dataclass(frozen=True, slots=True)
class LayerTimes:
    """One layer and one micro-batch on one device, exchanges and recompute included."""

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
    """One layer, the output over the vocabulary, and what an iteration's end takes, once known.

    ``once`` is the layer without what is recomputed in full, by which stages are balanced. All
    schedules of some degrees, micro-batch and recompute have it in common.
    """

    times: LayerTimes
    head: LayerTimes
    once: LayerCosts
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
    ends: tuple[Seconds, ...]
    """Of each device, beyond what compute hides."""

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


def layers_of(problem: Problem, layout: Layout, wires: Wires) -> Layers:
    """One layer and one micro-batch, and the output."""
    shape, training = problem.shape_of(layout), problem.training_of(layout)
    split, exchanges = split_of(layout.degrees), exchanges_over(wires)
    block = costing.block(shape, problem.device, training, split, exchanges)
    once = block.times
    again = once.forward if layout.recompute == Recompute.ALL else 0.0
    output = costing.head(shape, problem.device, split, exchanges).total
    return Layers(
        LayerTimes(once.forward, once.input_gradient + again, once.weight_gradient),
        LayerTimes(output, output, output),
        once,
    )


def layer_times(problem: Problem, layout: Layout, wires: Wires) -> LayerTimes:
    """One layer and one micro-batch."""
    return layers_of(problem, layout, wires).times


def counts(problem: Problem, layout: Layout, known: Layers) -> tuple[int, ...]:
    """Layers of each stage: as given, or so that the slowest stage is fastest."""
    if given_split(problem, layout):
        return problem.stages
    output = LayerCosts(*known.head.parts)
    row = (known.once,) * (problem.shape.layers - 1) + (costing.added(known.once, output),)
    return balance.balanced_layers(row, layout.degrees.pipeline * layout.chunks)


def given_split(problem: Problem, layout: Layout) -> bool:
    """Whether the layers of each stage are given for this layout's pipeline."""
    return layout.chunks == 1 and len(problem.stages) == layout.degrees.pipeline


def step(problem: Problem, layout: Layout, wires: Wires, known: Layers | None = None) -> Step:
    """The costs of a layout whose micro-batches come out even; ``known`` is filled on the way."""
    degrees = layout.degrees
    known = known or layers_of(problem, layout, wires)
    layers = counts(problem, layout, known)
    sent = degrees.context * (1 if problem.training.replicated else degrees.tensor)
    return Step(
        layer=known.times,
        head=known.head,
        layers=layers,
        devices=degrees.pipeline,
        micro_batches=micro_batches(problem, layout),
        message=problem.shape_of(layout).boundary / sent,
        way=wires.way,
        ends=tuple(
            device_end(problem, degrees, wires, known, layers, device)
            for device in range(degrees.pipeline)
        ),
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
    held = _held_layers(layers, degrees.pipeline)[device], tables(problem, degrees, device)
    if held not in known.ends:
        known.ends[held] = end(problem, degrees, wires, known.times, *held)
    return known.ends[held]


def end(
    problem: Problem, degrees: Degrees, wires: Wires, layer: LayerTimes, count: int, ends: int
) -> Seconds:
    """Exchange and step of ``count`` layers, of which ``ends`` hold a table of the vocabulary."""
    training, split = problem.training, split_of(degrees)
    dense, experts = _weights(problem.shape, count, ends)

    def passed(per_weight: float) -> Seconds:
        state = replace(training, state=StateBytes(gradient=per_weight))
        if degrees.expert == 1:
            size = _gradients(problem.shape, state, split, count, ends)
            return wires.replicas.seconds(size / degrees.shard)
        shared = dense / (degrees.tensor * degrees.shard)
        apart = experts / (degrees.tensor * degrees.expert)
        return wires.replicas.seconds(shared * per_weight) + wires.expert_replicas.seconds(
            apart * per_weight
        )

    beside = training.overlap.data * (count - 1)
    kept = training.state
    back = kept.weight if kept.sharded else kept.gradient
    stepped = costing.step(dense + experts, problem.device, training, split)
    return (
        exposed(passed(kept.gradient), layer.backward, beside)
        + exposed(passed(back), layer.forward, beside)
        + stepped
        + problem.device.calibration.fixed
    )


def _gradients(shape: Shape, training: Training, split: Split, count: int, ends: int) -> Bytes:
    """As the layers of a plan's profile have them."""
    inner = costing.gradients(shape.layer_weights, training, split)
    outer = costing.gradients(shape.layer_weights + shape.embedding_weights, training, split)
    return (count - ends) * inner + ends * outer


def tables(problem: Problem, degrees: Degrees, device: int) -> int:
    """How many of a device's layers hold a table of the vocabulary, at the ends of the pipeline."""
    held = (device == 0) + (device == degrees.pipeline - 1)
    is_one = problem.shape.layers == 1 or (problem.shape.tied and degrees.pipeline == 1)
    return min(held, 1) if is_one else held


def _weights(shape: Shape, count: int, ends: int) -> tuple[int, int]:
    """Weights of so many layers: those that every token uses, and those of the experts."""
    return (
        count * shape.dense_weights + ends * shape.embedding_weights,
        count * shape.expert_weights,
    )


def in_flight(layout: Layout, micro_batches: int, device: int) -> int:
    """Stage activations that a device holds at most, of the orders of this search."""
    left = layout.degrees.pipeline - device
    if layout.chunks == 1:
        return min(left, micro_batches)
    warm_up = 2 * (left - 1) + (layout.chunks - 1) * layout.degrees.pipeline
    return min(warm_up + 1, layout.chunks * micro_batches)


def memory(problem: Problem, layout: Layout, layers: tuple[int, ...]) -> float:
    """Bytes that the fullest device needs; ``layers`` counts those of each stage."""
    degrees, split = layout.degrees, split_of(layout.degrees)
    shape, training = problem.shape_of(layout), problem.training_of(layout)
    inner, outer = (_state(shape, training, split, ends) for ends in (0, 1))
    held, transient = _activations(shape, training, split)
    output, last = costing.logits(shape, split), degrees.pipeline - 1
    count = micro_batches(problem, layout)
    fullest = 0.0
    for device, stages in enumerate(_held_layers(layers, degrees.pipeline)):
        ends = tables(problem, degrees, device)
        weights = (stages - ends) * inner + ends * outer + (output if device == last else 0)
        kept = in_flight(layout, count, device) * layers[device] * held
        fullest = max(fullest, weights + kept + transient)
    if degrees.shard > 1:
        fullest += _GATHERED * training.state.weight * shape.dense_weights / degrees.tensor
    return fullest


def _activations(shape: Shape, training: Training, split: Split) -> tuple[Bytes, Bytes]:
    """Of a layer: what each micro-batch in flight holds, and what running it again needs."""
    whole = costing.activation(shape, replace(training, recompute=Recompute.NOTHING), split)
    if training.recompute == Recompute.NOTHING:
        return whole, 0
    if training.recompute == Recompute.ALL:
        return costing.kept(shape, training, split), whole
    return costing.activation(shape, training, split), whole


def _state(shape: Shape, training: Training, split: Split, ends: int) -> Bytes:
    """Of one layer, with so many tables of the vocabulary."""
    dense, experts = _weights(shape, 1, ends)
    return sum(sizing.state(dense, experts, training.state, split.sharing))


_GATHERED = 2
"""Layers whose weights are whole at a time where they are sharded: this one and the next."""


def costs(problem: Problem, layout: Layout, wires: Wires) -> Costs:
    """The costs of stages and hops, for the replay."""
    known = layers_of(problem, layout, wires)
    made = step(problem, layout, wires, known)
    degrees, layer, head = layout.degrees, made.layer, made.head
    stages = []
    for stage, count in enumerate(made.layers):
        last = stage == len(made.layers) - 1
        stages.append(
            StageCosts(
                layers=count,
                forward=count * layer.forward + last * head.forward,
                input_gradient=count * layer.input_gradient + last * head.input_gradient,
                weight_gradient=count * layer.weight_gradient + last * head.weight_gradient,
                all_reduce=made.ends[stage] if stage < degrees.pipeline else 0.0,
            )
        )
    hops = tuple(
        Hop(made.message * 8 / border.rate, border.latency, connections=int(border.is_wide))
        for border in (wires.way.borders[s % degrees.pipeline] for s in range(len(stages) - 1))
    )
    where = interleaved(degrees.pipeline, layout.chunks) if layout.chunks > 1 else ()
    found = Costs(tuple(stages), hops, hops, where)
    return blocked(found) if problem.training.blocking else found
