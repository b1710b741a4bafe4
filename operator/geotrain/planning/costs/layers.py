"""Times and sizes of a transformer's layers from its shape: one set of functions for everybody.

A stage of a plan, a layout that ``explore`` weighs, a row that ``calibrate`` fits and the table
that ``geotrain costs`` prints are sums of these. With t tensor ranks, c context ranks, C the
all-reduce of a boundary over the tensor group, and every part by its own rate (``calibrations``)::

                     operations                bytes                                  exchanges
    forward          (matrices + attention)    repeated + (divided + scores) / t        2 C
    input gradient   (matrices + 2 attention)  repeated + (divided + 2 scores) / t      2 C
    weight gradient  matrices                  -                                        -
    recompute        the forward again; or attention and its scores; or 2/3 of the feed-forward

Operations are divided by t c and bytes by c (Shoeybi et al., arXiv 1909.08053). With sequence
parallelism ``repeated`` is divided by t too, and the backward gathers the scattered inputs again:
C/2 for each of the two products (Korthikanti et al., arXiv 2205.05198, section 4.2).

    experts   1 C for attention, and two all-to-alls of the routed tokens over the groups that hold
              the experts, forward and backward each (GShard, arXiv 2006.16668)
    context   keys and values once around, twice in the backward, behind attention
              (arXiv 2310.01889)
    shard     weights gathered in forward and backward, gradients scattered in the backward, behind
              compute (FSDP, arXiv 2304.11277)

An exchange that runs behind compute costs what exceeds ``overlap`` x that compute. The embedding
belongs to the first layer, the output over the vocabulary and its loss to the last; neither is ever
recomputed. The optimizer's step moves ``STEP_BYTES`` for each weight, where the layer runs.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from math import ceil
from typing import Final

from geotrain.model.workload import LayerCosts, Profile
from geotrain.planning.costs import collectives, memory
from geotrain.planning.costs.calibrations import Device, Node
from geotrain.planning.costs.collectives import exposed
from geotrain.planning.costs.memory import Recompute, Sharing, StateBytes
from geotrain.planning.costs.shapes import Shape
from geotrain.units import Bytes, Seconds

STEP_BYTES: Final = 36.0
"""Adam in mixed precision: reads gradient, main weight and moments, writes the three and the
weight: 4 + 12 + 12 + 2, and a pass over the gradients for their norm and scale."""


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


PLAIN_OVERLAP: Final = Overlap(data=0.0)
"""Gradients are all-reduced when the last micro-batch is through."""


@dataclass(frozen=True, slots=True)
class Training:
    """How a model is trained: what is recomputed, kept, hidden, and how a boundary is sent.

    ``replicated``: every device of a tensor group sends the whole boundary to its peer instead of
    its part. ``blocking``: a device does nothing else while it sends one.
    """

    recompute: Recompute = Recompute.NOTHING
    sequence_parallel: bool = False
    state: StateBytes = memory.MIXED
    lean: bool = False
    overlap: Overlap = PLAIN_OVERLAP
    replicated: bool = False
    blocking: bool = False


@dataclass(frozen=True, slots=True)
class Split:
    """Among how many devices a layer is divided, and how many stages the pipeline has."""

    sharing: Sharing = field(default=Sharing())
    pipeline: int = 1


def nothing(_: float) -> Seconds:
    """An exchange of a group of one."""
    return 0.0


@dataclass(frozen=True, slots=True)
class Exchanges:
    """What a layer's exchanges take by their bytes.

    ``tensor`` is an all-reduce, ``context`` and ``shard`` are one pass of a ring, ``expert`` is one
    all-to-all. ``compute`` is the share of the device's speed that they leave.
    """

    tensor: Callable[[float], Seconds] = nothing
    context: Callable[[float], Seconds] = nothing
    expert: Callable[[float], Seconds] = nothing
    shard: Callable[[float], Seconds] = nothing
    compute: float = 1.0


def inside(node: Node, tensor: int) -> Exchanges:
    """Those of a tensor group of neighbours, whose experts are spread over it."""

    def reduced(size: float) -> Seconds:
        return collectives.tensor_exchange(size, tensor, node.gpus, node.near, node.far)

    def routed(size: float) -> Seconds:
        return collectives.all_to_all(size, tensor, node.gpus, node.near, node.far)

    return Exchanges(tensor=reduced, expert=routed)


@dataclass(frozen=True, slots=True)
class Parts:
    """Seconds of one pass over a layer or the output, by what takes them.

    ``contention`` is what sharing a node adds, ``sharding`` what is gathered and scattered.
    """

    matrices: Seconds = 0.0
    attention: Seconds = 0.0
    memory: Seconds = 0.0
    overhead: Seconds = 0.0
    tensor: Seconds = 0.0
    experts: Seconds = 0.0
    context: Seconds = 0.0
    sharding: Seconds = 0.0
    contention: Seconds = 0.0

    @property
    def total(self) -> Seconds:
        """All parts together."""
        shared = self.tensor + self.experts + self.context + self.sharding + self.contention
        return self.matrices + self.attention + self.memory + self.overhead + shared

    def plus(self, other: "Parts") -> "Parts":
        """Part by part."""
        return Parts(*(getattr(self, p.name) + getattr(other, p.name) for p in fields(self)))

    def times(self, count: float) -> "Parts":
        """So many of them."""
        return Parts(*(count * getattr(self, part.name) for part in fields(self)))

    def contended(self, factor: float) -> "Parts":
        """With what a factor on all of it adds."""
        return replace(self, contention=(factor - 1.0) * self.total)


@dataclass(frozen=True, slots=True)
class Block:
    """The parts of one layer, one micro-batch and one device.

    ``again`` is what the backward computes again in part; a full recompute is the forward.
    """

    forward: Parts
    input_gradient: Parts
    weight_gradient: Parts
    again: Parts = field(default=Parts())

    @property
    def times(self) -> LayerCosts:
        """The layer's times; a partial recompute is part of the input gradient."""
        return LayerCosts(
            self.forward.total,
            self.input_gradient.total + self.again.total,
            self.weight_gradient.total,
        )


def block(
    shape: Shape, device: Device, training: Training, split: Split, exchanges: Exchanges
) -> Block:
    """One layer. Degrees that do not divide the shape are taken as if they did."""
    shares, cover = split.sharing, training.overlap
    work = _Work(shape, device, shares, exchanges.compute)
    matrices, attention, scores = work.matrices, work.attention, work.scores
    others = work.others(training)
    tensor, again, experts = _exchanged(shape, training, shares, exchanges, work)
    keys = 2 * shape.tokens * shape.key_value * shape.value_bytes / shares.tensor
    forward = Parts(
        matrices,
        attention,
        others + scores,
        work.overhead,
        tensor,
        experts,
        exposed(exchanges.context(keys), attention, cover.context),
    )
    backward = Parts(
        matrices,
        2 * attention,
        others + 2 * scores,
        work.overhead,
        tensor + again,
        experts,
        exposed(exchanges.context(2 * keys), 2 * attention, cover.context),
    )
    weights = Parts(matrices, overhead=work.overhead)
    if shares.shard > 1:
        size = shape.dense_weights / shares.tensor
        gather = exchanges.shard(size * training.state.weight)
        scatter = exchanges.shard(size * training.state.gradient)
        behind = backward.total + weights.total
        forward = replace(forward, sharding=exposed(gather, forward.total, cover.data))
        backward = replace(backward, sharding=exposed(gather + scatter, behind, cover.data))
    factor = device.calibration.contended(shares.tensor, split.pipeline)
    parts = (forward, backward, weights, _again(shape, training, work))
    return Block(*(each.contended(factor) for each in parts))


@dataclass(frozen=True, slots=True)
class _Work:
    """What one device computes and moves of a layer."""

    shape: Shape
    device: Device
    sharing: Sharing
    compute: float

    def products(self, operations: float) -> Seconds:
        """Operations of the whole group."""
        parts = self.sharing.tensor * self.sharing.context
        return operations / parts / (self.device.operations * self.compute)

    def moved(self, size: float) -> Seconds:
        """Bytes on this device."""
        return size / self.sharing.context / (self.device.moved * self.compute)

    @property
    def matrices(self) -> Seconds:
        return self.products(self.shape.matrix_operations)

    @property
    def attention(self) -> Seconds:
        return self.products(self.shape.attention_operations)

    @property
    def scores(self) -> Seconds:
        return self.moved(self.shape.attention_bytes / self.sharing.tensor)

    @property
    def overhead(self) -> Seconds:
        return self.device.calibration.overhead

    def others(self, training: Training) -> Seconds:
        """The kernels between the products, but for attention's scores."""
        norms = self.sharing.tensor if training.sequence_parallel else 1
        divided = self.shape.divided_bytes / self.sharing.tensor
        return self.moved(divided + self.shape.repeated_bytes / norms)


def _exchanged(
    shape: Shape, training: Training, sharing: Sharing, exchanges: Exchanges, work: _Work
) -> tuple[Seconds, Seconds, Seconds]:
    """Of one direction: the tensor group's, what the backward adds to it, the experts'."""
    reduces = 2 if shape.experts is None else 1
    tensor = reduces * exchanges.tensor(shape.boundary / sharing.context)
    cover = training.overlap
    again = tensor / 2 if training.sequence_parallel else 0.0
    left = exposed(tensor, work.matrices, cover.tensor)
    more = exposed(tensor + again, work.matrices, cover.tensor) - left
    if shape.experts is None:
        return left, more, 0.0
    routed = 2 * exchanges.expert(shape.routed / (sharing.tensor * sharing.context))
    behind = work.products(shape.feed_forward_operations)
    return left, more, exposed(routed, behind, cover.expert)


def _again(shape: Shape, training: Training, work: _Work) -> Parts:
    """A partial recompute: products of attention, or two of the feed-forward's three."""
    if training.recompute == Recompute.ATTENTION:
        return Parts(attention=work.attention, memory=work.scores)
    if training.recompute == Recompute.FEED_FORWARD:
        return Parts(matrices=2 / 3 * work.products(shape.feed_forward_operations))
    return Parts()


def head(shape: Shape, device: Device, split: Split, exchanges: Exchanges | None = None) -> Parts:
    """The output over the vocabulary: its forward, and each half of its backward."""
    compute = 1.0 if exchanges is None else exchanges.compute
    work = _Work(shape, device, split.sharing, compute)
    moved = work.moved(shape.head_bytes / split.sharing.tensor)
    parts = Parts(matrices=work.products(shape.head_operations), memory=moved)
    return parts.contended(device.calibration.contended(split.sharing.tensor, split.pipeline))


def profile(
    shape: Shape, device: Device, training: Training, split: Split, exchanges: Exchanges
) -> Profile:
    """Costs of every layer.

    A layer's ``recompute`` says what a full recompute costs; what is recomputed in part is in its
    input gradient, so plan such a profile without recompute.
    """
    times = block(shape, device, training, split, exchanges).times
    made = of_blocks(times, shape, device, training, split)
    return replace(made, optimizer_step=device.calibration.fixed)


def of_blocks(
    times: LayerCosts, shape: Shape, device: Device, training: Training, split: Split
) -> Profile:
    """A model whose layers all take the times of one.

    Sizes, the output over the vocabulary and the optimizer's step are estimated.
    """
    inner = replace(times, step=step(shape.layer_weights, device, training, split))
    table = step(shape.embedding_weights, device, training, split)
    output = head(shape, device, split).total
    sized = sizes(shape, training, split)
    layers = [added(size, inner) for size in sized.layers]
    layers[-1] = with_end(layers[-1], LayerCosts(output, output, output, step=table))
    if shape.layers > 1 and not (shape.tied and split.pipeline == 1):
        layers[0] = with_end(layers[0], LayerCosts(0.0, 0.0, 0.0, step=table))
    return replace(sized, layers=tuple(layers))


def added(layer: LayerCosts, more: LayerCosts) -> LayerCosts:
    """A layer that takes the time of ``more`` too."""
    return replace(
        layer,
        forward=layer.forward + more.forward,
        input_gradient=layer.input_gradient + more.input_gradient,
        weight_gradient=layer.weight_gradient + more.weight_gradient,
        step=layer.step + more.step,
    )


def with_end(layer: LayerCosts, end: LayerCosts) -> LayerCosts:
    """The first or last layer with the time of what is never recomputed: embedding, output."""
    again = layer.forward if layer.recompute is None else layer.recompute
    return replace(added(layer, end), recompute=again)


def sizes(shape: Shape, training: Training, split: Split) -> Profile:
    """What each layer keeps and what its replicas all-reduce; nothing takes any time.

    The vocabulary's table is in the first and in the last layer, and in a single one once. Tied
    tables are one where one stage has both ends; where they are two, the ends exchange their
    gradients.
    """
    inner = _sized(shape, training, split, shape.dense_weights)
    end = _sized(shape, training, split, shape.dense_weights + shape.embedding_weights)
    last = replace(end, activation=end.activation + logits(shape, split))
    once = shape.tied and split.pipeline == 1
    layers = (inner if once else end, *(inner,) * (shape.layers - 2), last)
    sent = split.sharing.tensor if training.replicated else 1
    is_apart = shape.tied and split.pipeline > 1
    return Profile(
        (last,) if shape.layers == 1 else layers,
        shape.boundary * sent,
        gradient_bytes_per_layer=gradients(shape.layer_weights, training, split),
        kept=kept(shape, training, split),
        tied=gradients(shape.embedding_weights, training, split) if is_apart else 0,
    )


def kept(shape: Shape, training: Training, split: Split) -> Bytes:
    """What a device keeps of a layer that a full recompute brings back."""
    return memory.layer_activation(
        shape,
        split.sharing.tensor,
        Recompute.ALL,
        sequence_parallel=training.sequence_parallel,
        context=split.sharing.context,
    )


def logits(shape: Shape, split: Split) -> Bytes:
    """The output over the vocabulary, whose loss is computed in 32 bits; kept for the backward."""
    sharing = split.sharing
    return ceil(_LOGIT * shape.tokens * shape.vocabulary / (sharing.tensor * sharing.context))


_LOGIT: Final = 4


def _sized(shape: Shape, training: Training, split: Split, dense: int) -> LayerCosts:
    held = memory.state(dense, shape.expert_weights, training.state, split.sharing)
    sent = gradients(dense + shape.expert_weights, training, split)
    usual = dense == shape.dense_weights
    return LayerCosts(
        0.0,
        0.0,
        0.0,
        activation=activation(shape, training, split),
        parameters=sum(held),
        state=held,
        gradients=None if usual else sent,
    )


def activation(shape: Shape, training: Training, split: Split) -> Bytes:
    """Of a layer; a full recompute brings back what is held when nothing is recomputed."""
    kind = training.recompute
    return memory.layer_activation(
        shape,
        split.sharing.tensor,
        Recompute.NOTHING if kind == Recompute.ALL else kind,
        sequence_parallel=training.sequence_parallel,
        lean=training.lean,
        context=split.sharing.context,
    )


def gradients(weights: int, training: Training, split: Split) -> Bytes:
    """What a device's replicas all-reduce of so many weights, experts of one group among them."""
    return ceil(weights * training.state.gradient / split.sharing.tensor)


def step(weights: int, device: Device, training: Training, split: Split) -> Seconds:
    """The optimizer's step over so many weights of a tensor group."""
    replicas = split.sharing.replicas if training.state.sharded else 1
    return STEP_BYTES * weights / split.sharing.tensor / replicas / device.moved
