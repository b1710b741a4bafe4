"""Costs and prices of many placements of one job, each part of them worked out once.

Placements of one degree share their stages' costs, and those with a crossing in common its hop.
"""

from dataclasses import replace
from functools import cached_property
from itertools import accumulate, pairwise
from math import fsum

from geotrain.model.plan import Placement
from geotrain.model.topology import Lan, Topology, WanLink
from geotrain.model.workload import Workload
from geotrain.planning.schedule import balance
from geotrain.planning.schedule.costs import (
    Costs,
    Hop,
    StageCosts,
    all_reduce,
    assembled,
    gradients,
    hop,
    placed_stage_costs,
    stage_costs,
)
from geotrain.units import Bytes, Seconds

_SECONDS_PER_HOUR = 3600
_BYTES_PER_GIGABYTE = 10**9

Score = tuple[float, float]
"""Time and price of a global batch, what decides first; lower is better."""


class Costing:
    """What placements of a workload cost, in time and in money."""

    def __init__(self, topology: Topology, workload: Workload) -> None:
        self._topology, self._workload = topology, workload
        self._hourly = {each.name: each.cost_per_gpu_hour for each in topology.data_centers}
        self._links = {(link.source, link.target): link for link in topology.links}
        self._lans = {each.name: each.lan for each in topology.data_centers}
        self._stages: dict[tuple[int, Lan], tuple[StageCosts, ...]] = {}
        self._mixed: dict[Placement, tuple[StageCosts, ...]] = {}
        kinds = {(workload.profile_in(d), d.memory) for d in topology.data_centers}
        self._kinds = tuple(kinds)
        self._hops: dict[tuple[int, str, str, int], Hop] = {}

    @cached_property
    def layers(self) -> tuple[int, ...]:
        """Consecutive layers of each stage where all data centres have the same accelerators."""
        if self._workload.layers:
            return self._workload.layers
        return balance.balanced_layers(self._kinds[0][0].layers, self._workload.pipeline)

    def costs(self, placement: Placement) -> Costs:
        """As ``costs.costs`` of the balanced layers."""
        forward: list[Hop] = []
        backward: list[Hop] = []
        for number, (name, count) in enumerate(placement.segments):
            if number:
                before, stages = placement.segments[number - 1]
                forward.append(self._hop(placement.data, before, name, stages))
                backward.append(self._hop(placement.data, name, before, count))
            inside = [self._hop(placement.data, name, name, count)] * (count - 1)
            forward += inside
            backward += inside
        is_alike = len(self._kinds) == 1
        costs = self._alike(placement) if is_alike else self._placed(placement)
        return assembled(self._workload, costs, forward, backward)

    def price(self, placement: Placement, iteration: Seconds) -> float:
        """What one iteration costs: GPU time, and bytes that leave a data centre."""
        each = placement.data * self._workload.tensor
        hourly = fsum(self._hourly[name] * count * each for name, count in placement.segments)
        total = hourly * iteration / _SECONDS_PER_HOUR
        for way, size in self.wan_bytes(placement).items():
            total += self.link(*way).cost_per_gigabyte * size / _BYTES_PER_GIGABYTE
        return total

    def score(self, placement: Placement, iteration: Seconds) -> Score:
        """What the objective compares; a rounded batch counts as much as it holds samples."""
        workload = self._workload
        scale = workload.global_batch / workload.samples(placement.data)
        time, cost = iteration * scale, self.price(placement, iteration) * scale
        return (time, cost) if workload.objective == "Throughput" else (cost, time)

    def wan_bytes(self, placement: Placement) -> dict[tuple[str, str], Bytes]:
        """Bytes over each direction of each link in one iteration."""
        data, names = placement.data, [name for name, _ in placement.segments]
        profile, count = self._workload.profile, self._workload.micro_batches(data)
        size = (profile.boundary * count + profile.tied * self._workload.tensor) * data
        return {way: size for a, b in pairwise(names) for way in ((a, b), (b, a))}

    def link(self, source: str, target: str) -> WanLink:
        """The link of two neighbours."""
        return self._links[source, target]

    def _alike(self, placement: Placement) -> tuple[StageCosts, ...]:
        """Each stage with the all-reduce of its data centre's LAN."""
        runs = [(self._lans[name], count) for name, count in placement.segments]
        if len({lan for lan, _ in runs}) == 1:
            return self._stage_costs(placement.data, runs[0][0])
        found: list[StageCosts] = []
        for lan, count in runs:
            found += self._stage_costs(placement.data, lan)[len(found) : len(found) + count]
        return tuple(found)

    def _stage_costs(self, replicas: int, lan: Lan) -> tuple[StageCosts, ...]:
        """Those of one replica, but for the all-reduce."""
        key = replicas, lan
        if key not in self._stages:
            tensor = self._workload.tensor
            rings = {size: all_reduce(size, replicas, tensor, lan) for size in set(self._gradients)}
            one = self._one_replica
            self._stages[key] = (
                tuple(
                    replace(stage, all_reduce=rings[size])
                    for stage, size in zip(one, self._gradients, strict=True)
                )
                if any(rings.values())
                else one
            )
        return self._stages[key]

    @cached_property
    def _gradients(self) -> tuple[Bytes, ...]:
        """What the replicas of each stage all-reduce."""
        profile = self._kinds[0][0]
        ends = [0, *accumulate(self.layers)]
        return tuple(gradients(profile, profile.layers[a:b]) for a, b in pairwise(ends))

    def _placed(self, placement: Placement) -> tuple[StageCosts, ...]:
        """Each stage on its data centre's accelerators, with the layers that suit them."""
        if placement not in self._mixed:
            topology, workload = self._topology, self._workload
            layers = workload.layers or self._balanced(placement)
            self._mixed[placement] = placed_stage_costs(topology, workload, placement, layers)
        return self._mixed[placement]

    def _balanced(self, placement: Placement) -> tuple[int, ...]:
        profiles = {d.name: self._workload.profile_in(d) for d in self._topology.data_centers}
        rows = (profiles[name].layers for name, count in placement.segments for _ in range(count))
        return balance.balanced_over(tuple(rows))

    @cached_property
    def _one_replica(self) -> tuple[StageCosts, ...]:
        ((profile, memory),) = self._kinds
        stages = stage_costs(
            profile,
            self.layers,
            recompute=self._workload.recompute,
            early=self._workload.early_recompute,
        )
        return tuple(replace(stage, memory=memory) for stage in stages)

    def _hop(self, replicas: int, source: str, target: str, stages: int) -> Hop:
        # Inside a data centre all hops are alike.
        key = (replicas, source, target, stages) if source != target else (0, source, "", 0)
        if key not in self._hops:
            self._hops[key] = hop(self._topology, self._workload, replicas, source, target, stages)
        return self._hops[key]
