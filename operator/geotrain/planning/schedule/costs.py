"""What an action, a message and the end of an iteration cost: the one place that says so.

Compute, for a stage with layers l::

    F = Σ forward(l)      I = R + Σ input_gradient(l)      W = Σ weight_gradient(l)      B = I + W
    R = Σ recompute(l) where activations are recomputed before the backward, else 0

With early recompute a stage that waits for a gradient has the recompute of its last layers behind
it when the gradient comes: those whose activations fit where one layer's are held anyway.

Memory of each GPU of a rank (a tensor-parallel group), in bytes::

    Σ parameters(l) + transient + in flight x held
    with recompute:    held = layers x kept        transient = the largest activation(l)
    without:           held = Σ activation(l)      transient = 0

A weight gradient that is put off needs what its input gradient recomputed: with recompute Σ
activation(l) on top of ``held``, from the one to the other.

The end of an iteration: a ring all-reduce of the gradients over D replicas, which never leave a
data centre, then the optimizer's step. Each of the t GPUs of a pod has its own ring for its share
of the gradients, and they share what the pod reaches of another (``collectives.data_all_reduce``)::

    2(D-1)/D x gradients of a GPU x t / LAN rate + 2(D-1) x LAN latency

The LAN is that of the stage's data centre, between pods; replicas on one node are not taken to be
nearer to each other (docs/decisions/0009). Where the vocabulary's table is tied and its two copies
are in two stages, these exchange its gradients after their all-reduce: a ring of two over all the
boundaries between them.

Inside a data centre a message keeps the link busy for S / LAN rate. A trainer whose sends block
keeps the sender's GPU busy for as long: the time moves from the hop into the forward, or into the
input gradient, that makes the message.

A message of S bytes over the wide area::

    path rate  = min(pod rate, reservable capacity / D, n x window / RTT)
    occupancy  = S / path rate, or in turns over all D pods' paths S / (D x path rate)
    delay      = RTT/2 + LAN hops + wait for the last window

Headers take their share of every path rate, also of what windows bound: what one connection and
what many of them reach is measured alike.

The pod rate is that of messages of the size which each path carries, S or S / D: small ones reach
less. A window is nevertheless booked at what the path can carry, since their bytes may come at it.

A path is one pod pair with n connections; the reservable capacity of a DC pair is split over the D
replicas, so that the windows handed out never exceed it. In turns, one D-th of a message leaves
by each pod: the rest crosses the LAN on both sides. With borrowed paths the pods of the data
centre's other stages lend theirs as well, so that k stages make it k D paths; that is right where
what limits a path is a cap per pod pair, and the capacity is then split over all of them.

Out of turn a flow keeps a hundredth of its path, so that a late message never starves. In its turn
a flow is guaranteed the rest, and takes the whole while the others are silent, as they are in the
replay: HTB lends what its owner does not use.

The wait for the last window: n connections keep n x window in flight, ``x = n x window / (path
rate x RTT)`` times what the path holds. A message that needs more than one window on each
connection waits for acknowledgements; with x near 1 they come late by part of a round trip.
Measured on a path of 45 ms and x = 1.1: 26 to 37 ms, which ``0.75 x RTT x (2 - x)`` meets (30 ms);
with x ≥ 2 nothing was left. Below x = 1 the path is window-bound and the rate already counts the
waiting, except for the last window's share x.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice, pairwise

from geotrain.model.plan import Kind, Placement
from geotrain.model.topology import Lan, Topology, WanLink
from geotrain.model.workload import LayerCosts, Profile, Workload
from geotrain.planning.costs.collectives import data_all_reduce
from geotrain.planning.costs.connections import connections
from geotrain.planning.costs.tiers import Constant, Tier
from geotrain.planning.schedule.layouts import Layout
from geotrain.units import BitsPerSecond, Bytes, Seconds, transfer_time, window_rate

IDLE_SHARE = 0.01
"""Share of a path that is kept for all flows outside their windows, so that none ever starves."""

_LATE_ACKNOWLEDGEMENTS = 0.75
"""Measured share of a round trip that the last window waits at x = 1 (see above)."""


@dataclass(frozen=True, slots=True)
class StageCosts:
    """One stage of one replica. ``held`` is memory per micro-batch in flight, ``fixed`` other.

    ``kept`` is what a micro-batch holds besides while its weight gradient is put off.
    ``early`` is the part of the backward (or input gradient) that needs no message and may run
    while the stage waits for one: a recompute that starts when it can (Varuna,
    doi:10.1145/3492321.3519584). ``memory`` is that of the devices that run it (None: unknown).
    """

    layers: int
    forward: Seconds
    input_gradient: Seconds
    weight_gradient: Seconds
    held: Bytes = 0
    fixed: Bytes = 0
    all_reduce: Seconds = 0.0
    step: Seconds = 0.0
    early: Seconds = 0.0
    memory: Bytes | None = None
    kept: Bytes = 0

    @property
    def backward(self) -> Seconds:
        """The whole backward, recompute included."""
        return self.input_gradient + self.weight_gradient

    def seconds(self, kind: Kind) -> Seconds:
        """What a compute action takes."""
        if kind == Kind.FORWARD:
            return self.forward
        if kind == Kind.BACKWARD:
            return self.backward
        return self.input_gradient if kind == Kind.INPUT_GRADIENT else self.weight_gradient

    def in_flight(self, memory: Bytes) -> int:
        """Micro-batches that fit into ``memory`` beside the weights; 0 or less: none."""
        return _count(memory - self.fixed, self.held)

    def put_off(self, memory: Bytes, held: int) -> int:
        """Weight gradients that may wait beside ``held`` micro-batches in flight; at least 0."""
        return max(0, _count(memory - self.fixed - held * self.held, self.kept))


_UNBOUNDED = 1_000_000


def _count(room: Bytes, each: Bytes) -> int:
    """How many fit; what takes nothing fits as often as one likes where there is any room."""
    return room // each if each else (room >= 0) * _UNBOUNDED


@dataclass(frozen=True, slots=True)
class Hop:
    """How messages cross one stage boundary in one direction.

    ``rate`` is what one path is guaranteed, ``paths`` over how many a message is cut; ``shared``
    says that the replicas take turns. ``connections`` is 0 inside a data centre; ``lenders`` is
    how many pods of each replica's data centre lend their path, its own among them.
    """

    occupancy: Seconds
    delay: Seconds
    rate: BitsPerSecond = math.inf
    paths: int = 1
    connections: int = 0
    shared: bool = False
    lenders: int = 1

    @property
    def spacing(self) -> Seconds:
        """From the start of one message of a replica to the earliest start of its next."""
        return self.occupancy * (self.paths // self.lenders)

    @property
    def crosses_wan(self) -> bool:
        """Whether the two stages live in different data centres."""
        return self.connections > 0


@dataclass(frozen=True, slots=True)
class Costs:
    """Everything that a replay needs: forward hop s leaves stage s, backward hop s enters it.

    ``layout`` is the device of each stage; empty: stage s on device s. The hop between two stages
    of one device is there to be counted, and never used.
    """

    stages: tuple[StageCosts, ...]
    forward: tuple[Hop, ...]
    backward: tuple[Hop, ...]
    layout: Layout = ()

    @property
    def devices(self) -> int:
        """How many devices, which are the rows of an order, the stages are laid out on."""
        return max(self.layout) + 1 if self.layout else len(self.stages)

    @property
    def hops(self) -> tuple[Hop, ...]:
        """All hops, the forward ones first."""
        return self.forward + self.backward

    def seconds(self, kind: Kind, stage: int) -> Seconds:
        """What a compute action takes."""
        return self.stages[stage].seconds(kind)


def stage_costs(
    profile: Profile,
    layers: Sequence[int],
    *,
    recompute: bool,
    early: bool = False,
) -> tuple[StageCosts, ...]:
    """Costs of every stage of one replica; ``layers`` are the consecutive layers of each."""
    ends = list(accumulate(layers))
    return tuple(
        _stage(profile, profile.layers[end - count : end], recompute, early)
        for count, end in zip(layers, ends, strict=True)
    )


def placed_stage_costs(
    topology: Topology,
    workload: Workload,
    placement: Placement,
    layers: Sequence[int],
) -> tuple[StageCosts, ...]:
    """Costs of every stage on the accelerators and the LAN of the data centre that runs it."""
    ends = [0, *accumulate(layers)]
    found: list[StageCosts] = []
    for name, count in placement.segments:
        center, lan = topology.data_center(name), topology.lan(name)
        profile = workload.profile_in(center) if center else workload.profile
        for begin, end in islice(pairwise(ends), len(found), len(found) + count):
            some = profile.layers[begin:end]
            stage = _stage(profile, some, workload.recompute, workload.early_recompute)
            ring = all_reduce(gradients(profile, some), placement.data, workload.tensor, lan)
            memory = center.memory if center else None
            found.append(replace(stage, all_reduce=ring, memory=memory))
    return tuple(found)


def _with_tied_ends(
    stages: tuple[StageCosts, ...], hops: Sequence[Hop], tied: Seconds
) -> tuple[StageCosts, ...]:
    """Two stages or more, whose first and last exchange what takes ``tied`` on its way."""
    way = tied + 2 * math.fsum(hop.delay for hop in hops)
    first, *inner, last = stages
    return (
        replace(first, all_reduce=first.all_reduce + way),
        *inner,
        replace(last, all_reduce=last.all_reduce + way),
    )


def blocked(costs: Costs) -> Costs:
    """The same with sends inside a data centre that keep the sender's GPU busy."""
    stages = list(costs.stages)
    hops: list[list[Hop]] = [list(costs.forward), list(costs.backward)]
    for boundary, (there, back) in enumerate(zip(costs.forward, costs.backward, strict=True)):
        if not there.crosses_wan:
            sender, receiver = stages[boundary], stages[boundary + 1]
            stages[boundary] = replace(sender, forward=sender.forward + there.occupancy)
            stages[boundary + 1] = replace(
                receiver, input_gradient=receiver.input_gradient + back.occupancy
            )
            hops[0][boundary] = replace(there, occupancy=0.0)
            hops[1][boundary] = replace(back, occupancy=0.0)
    return replace(costs, stages=tuple(stages), forward=tuple(hops[0]), backward=tuple(hops[1]))


def _stage(
    profile: Profile, layers: tuple[LayerCosts, ...], recompute: bool, early: bool
) -> StageCosts:
    forward = math.fsum(layer.forward for layer in layers)
    activations = [layer.activation for layer in layers]
    parameters = sum(layer.parameters for layer in layers)
    return StageCosts(
        layers=len(layers),
        forward=forward,
        input_gradient=math.fsum(layer.input_gradient for layer in layers)
        + (recomputed(layers) if recompute else 0.0),
        weight_gradient=math.fsum(layer.weight_gradient for layer in layers),
        held=len(layers) * profile.recomputed if recompute else sum(activations),
        fixed=parameters + (max(activations) if recompute else 0),
        kept=sum(activations) if recompute else 0,
        step=profile.optimizer_step + math.fsum(layer.step for layer in layers),
        early=_recomputed_early(layers) if recompute and early else 0.0,
    )


def _recomputed_early(layers: Sequence[LayerCosts]) -> Seconds:
    """The recompute of the last layers whose activations take no more room than one layer's."""
    room = max(layer.activation for layer in layers)
    early = []
    for layer in reversed(layers):
        room -= layer.activation
        if room < 0:
            break
        early.append(layer)
    return recomputed(early)


def recomputed(layers: Sequence[LayerCosts]) -> Seconds:
    """What running layers again costs: their forward, less what needs no recompute."""
    return math.fsum(
        layer.forward if layer.recompute is None else layer.recompute for layer in layers
    )


def gradients(profile: Profile, layers: Sequence[LayerCosts]) -> Bytes:
    """What replicas all-reduce of some of a profile's layers."""
    usual = profile.gradient_bytes_per_layer
    return sum(usual if layer.gradients is None else layer.gradients for layer in layers)


def all_reduce(size: Bytes, replicas: int, tensor: int, lan: Lan) -> Seconds:
    """Gradients of ``size`` bytes on each GPU of a pod, over the replicas inside a data centre."""
    pod = Tier(Constant(lan.pod_rate(tensor)), lan.latency)
    return data_all_reduce(size, replicas, tensor, tensor, pod, pod)


def costs(
    topology: Topology, workload: Workload, placement: Placement, layers: Sequence[int]
) -> Costs:
    """Costs of a placement whose neighbouring data centres are linked in both directions."""
    where = [placement.data_center_of(stage) for stage in range(placement.stages)]
    boundaries = list(pairwise(where))
    stages = dict(placement.segments)
    return assembled(
        workload,
        placed_stage_costs(topology, workload, placement, layers),
        [hop(topology, workload, placement.data, a, b, stages[a]) for a, b in boundaries],
        [hop(topology, workload, placement.data, b, a, stages[b]) for a, b in boundaries],
    )


def assembled(
    workload: Workload,
    stages: tuple[StageCosts, ...],
    forward: Sequence[Hop],
    backward: Sequence[Hop],
) -> Costs:
    """Stages and hops as the trainer runs them: ends that are tied, sends that block."""
    size = workload.profile.tied * workload.tensor
    if size and forward:
        scale = size / max(1, workload.profile.boundary)
        slowest = max(hop.occupancy for hop in (*forward, *backward))
        stages = _with_tied_ends(stages, forward, scale * slowest)
    made = Costs(stages, tuple(forward), tuple(backward))
    return blocked(made) if workload.blocking else made


def hop(
    topology: Topology, workload: Workload, replicas: int, source: str, target: str, stages: int
) -> Hop:
    """How messages go to the next stage; the source's data centre runs ``stages`` of them."""
    size = workload.profile.boundary
    near = topology.lan(source)
    if source == target:
        return local_hop(size, workload.tensor, near)
    link = topology.link(source, target)
    assert link is not None, "candidates cross linked data centres only"
    temporal = workload.sharing == "Temporal"
    return wan_hop(
        link,
        near,
        topology.lan(target),
        size,
        connections(link, workload.connections, workload.most_connections),
        replicas=replicas,
        in_turns=temporal and replicas > 1,
        lenders=stages if temporal and workload.borrowed_paths else 1,
    )


def local_hop(size: Bytes, tensor: int, lan: Lan) -> Hop:
    """How ``size`` bytes go from pod to pod inside a data centre."""
    return Hop(transfer_time(size, lan.pod_rate(tensor)), lan.latency)


def wan_hop(
    link: WanLink,
    near: Lan,
    far: Lan,
    size: Bytes,
    connections: int,
    *,
    replicas: int,
    in_turns: bool,
    lenders: int = 1,
) -> Hop:
    """How messages of ``size`` bytes cross a link that ``replicas`` flows use.

    Where one is cut over several paths, the pods of the sending data centre get their parts over
    the ``near`` LAN, and those of the other bring them together over the ``far`` one. Each replica
    has ``lenders`` paths of its own, one where nothing is borrowed.
    """
    share = min(link.pod_rate, link.capacity * link.reservable / (replicas * lenders))
    paths = lenders * (replicas if in_turns else 1)
    bound = _window_bound(link, connections)
    lendable = min(near.rate, far.rate) / (paths - 1) if paths > 1 else math.inf
    limit = min(bound, lendable)
    reached = min(share, limit, link.message_rate(size / paths))
    kept = IDLE_SHARE if in_turns else 0.0
    return Hop(
        occupancy=transfer_time(size, paths * reached * link.efficiency),
        delay=link.round_trip / 2
        + (near.latency + far.latency if paths > 1 else 0.0)
        + _last_window(link, size / (connections * paths), bound / share),
        rate=min(share * (1 - kept), limit),
        paths=paths,
        connections=connections,
        shared=in_turns,
        lenders=lenders,
    )


def _window_bound(link: WanLink, connections: int) -> BitsPerSecond:
    """What the windows of a path's connections can carry."""
    if link.window is None:
        return math.inf
    return connections * window_rate(link.window, link.round_trip)


def _last_window(link: WanLink, size: float, filled: float) -> Seconds:
    """What the last window of ``size`` bytes on each connection waits; ``filled`` is x above."""
    if link.window is None or size <= link.window:
        return 0.0
    return _LATE_ACKNOWLEDGEMENTS * link.round_trip * min(filled, max(0.0, 2 - filled))
