"""Lower bounds on an iteration: of a placement, and of all placements of a route.

**A placement**, for any order. Stage s starts after its first message came all the way, works M
times, and its last gradient still goes all the way back; ``around`` is both ways, ``trip`` from
the start of a forward of stage s to the end of its backward with nothing in between. It may hold
``N`` micro-batches, so its forward number i + N starts after some i of them came back. ``pace`` is
the slowest forward, backward or hop behind s, or both of the last stage, which has nothing to do
before a backward but forwards. So gradient number m comes back at ``trip - B + (m - 1) pace`` at
the earliest, and what a rank has to do then is left to do::

    whole way    around + M (F + B)                    all + (M - 1) spacing of a hop
    memory       around + ceil(M / N) trip
    rank         trip - B + (m - 1) pace + (M - m + 1)(B + W) + (M - m + 1 - N) F, for all m

where B counts without what a stage may recompute before its gradient comes. The first three end
with stage 0's all-reduce and optimizer step, the last with those of the rank itself: in a steady
state no rank has a shorter period than another. Where weight gradients run apart, I takes the
place of B and W is theirs, which may run while the last gradient is on its way home, or while
stage 0 has begun the next iteration; else W is nothing.

**A route**, for any split of the stages over its data centres and over those that it still needs.
The hops between them come before the last stage, whatever the split. Where all data centres have
the same accelerators, what stages compute does not depend on the split; else the slowest stage is
bounded by dealing layers to the fastest accelerators, and the way by the fastest of each layer.
The price of a route is that of its bound on the cheapest GPUs.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import fsum, inf
from typing import Final

from geotrain.model.plan import Placement
from geotrain.model.topology import Lan, Topology, WanLink
from geotrain.model.workload import Profile, Workload
from geotrain.planning.placement.costing import Costing, Score
from geotrain.planning.placement.space import Route, Space
from geotrain.planning.schedule.costs import Costs, Hop, StageCosts, hop, stage_costs
from geotrain.units import Seconds

_SAFE: Final = 1 - 1e-12
"""Sums in another sequence may round to more than those of a replay."""


def bound(
    costs: Costs, micro_batches: int, room: Sequence[int] = (), *, is_split: bool = False
) -> Seconds:
    """No order of these costs has a shorter iteration; ``is_split``: nor one of F, I and W.

    ``room`` is how many micro-batches each stage may hold at once; empty: all.
    """
    whole = [_Stage.of(stage, is_split) for stage in costs.stages]
    around, longest, busiest = 0.0, 0.0, 0.0
    trips, paces = _behind(costs, whole)
    for number, (stage, trip, pace) in enumerate(zip(whole, trips, paces, strict=True)):
        held = min(room[number], micro_batches) if room else micro_batches
        longest = max(longest, around + micro_batches * stage.turn)
        if 0 < held < micro_batches:
            longest = max(longest, around + -(-micro_batches // held) * trip)
        busiest = max(busiest, stage.busy(trip, pace, micro_batches, held) + stage.end)
        around = trips[0] - trips[number + 1] if number + 1 < len(trips) else around
    spacing = max((each.spacing for each in costs.hops), default=0.0)
    longest = max(longest, trips[0] + (micro_batches - 1) * spacing)
    return max(longest + whole[0].end, busiest) * _SAFE


@dataclass(frozen=True, slots=True)
class _Stage:
    """What a stage computes of a micro-batch: forward, gradient, and what may come any time."""

    forward: Seconds
    gradient: Seconds
    weight: Seconds
    early: Seconds
    end: Seconds

    @classmethod
    def of(cls, costs: StageCosts, is_split: bool) -> "_Stage":
        """A stage's, with weight gradients apart or as parts of backwards."""
        gradient = costs.input_gradient if is_split else costs.backward
        weight = costs.weight_gradient if is_split else 0.0
        return cls(costs.forward, gradient, weight, costs.early, costs.all_reduce + costs.step)

    @property
    def turn(self) -> Seconds:
        """A forward and a gradient."""
        return self.forward + self.gradient

    def busy(self, trip: Seconds, pace: Seconds, count: int, held: int) -> Seconds:
        """A rank's iteration of ``count`` micro-batches, of which it may hold so many at once.

        What is left to do when a gradient comes is linear in its number, but for one corner.
        """
        longest = count * (self.turn + self.weight)
        back = trip - self.gradient
        for number in {0, max(0, count - held), count - 1}:
            left = count - number
            work = left * (self.gradient + self.weight) + max(0, left - held) * self.forward
            longest = max(longest, back + number * pace + work)
        return longest


def _behind(costs: Costs, stages: Sequence[_Stage]) -> tuple[list[Seconds], list[Seconds]]:
    """By stage, its trip and the pace of what is behind it."""
    trips, paces = [stages[-1].turn], [0.0]
    hops = list(zip(costs.forward, costs.backward, strict=True))
    for stage, behind, (there, home) in zip(
        stages[-2::-1], stages[:0:-1], reversed(hops), strict=True
    ):
        ways = _way(there) + _way(home) - stage.early
        trips.append(stage.turn + ways + trips[-1])
        alone = behind.turn if len(paces) == 1 else max(behind.forward, behind.gradient)
        paces.append(max(paces[-1], alone, there.spacing, home.spacing))
    return trips[::-1], paces[::-1]


@dataclass(frozen=True, slots=True)
class _Work:
    """What stages compute in any split, without messages over the wide area.

    ``chain``: all forwards and gradients once; ``busiest``: a stage in an iteration; ``longest``:
    that with the way to it and home, ``last`` of the last stage; ``first`` and ``pace`` are stage 0
    and the slowest behind it, where they are known; ``end`` is what ends the iteration.
    """

    chain: Seconds
    busiest: Seconds
    longest: Seconds = 0.0
    last: Seconds = 0.0
    end: Seconds = 0.0
    first: _Stage | None = None
    pace: Seconds = 0.0


class Bounds:
    """Bounds of the routes of one job."""

    def __init__(self, topology: Topology, space: Space, costing: Costing, *, is_split: bool):
        self._topology, self._space, self._costing = topology, space, costing
        self._is_split, self._workload = is_split, space.workload
        self._lans = {center.name: center.lan for center in space.centers}
        profiles = [self._workload.profile_in(center) for center in space.centers]
        kinds = list(dict.fromkeys(profiles))
        self._kinds = {
            center.name: kinds.index(each)
            for center, each in zip(space.centers, profiles, strict=True)
        }
        self._classes: dict[tuple[WanLink, Lan, Lan], int] = {}
        self._class_of: dict[tuple[str, str], int] = {}
        self._hops: dict[tuple[int, int], tuple[Seconds, Seconds]] = {}
        self._nearest: dict[int, tuple[Seconds, Seconds]] = {}
        self._works: dict[tuple[str, int], _Work] = {}
        self._mixed = _Mixed(self._workload, kinds, is_split=is_split)
        self._inside = min((self._inside_of(c.name) for c in space.centers), default=0.0)

    @property
    def worth_of_stage(self) -> int:
        """What a stage of a placement's costs is worth in actions of a replay.

        Where accelerators differ, layers are dealt anew for each placement.
        """
        is_mixed = len(set(self._kinds.values())) > 1
        return 100 + (len(self._workload.profile.layers) ** 2 // 3 if is_mixed else 0)

    def grown(self, route: Route, data: int) -> Score:
        """No placement of a degree whose route begins like this, or is this, has a better score."""
        needed = self._needed(route, data)
        return (inf, inf) if needed is None else self._score(route, data, needed, is_open=True)

    def route(self, route: Route, data: int) -> Score:
        """No split of a degree over this route, which has room for all stages, has a better one."""
        return self._score(route, data, 0, is_open=False)

    def _score(self, route: Route, data: int, needed: int, *, is_open: bool) -> Score:
        iteration = self._iteration(route, data, needed, is_open=is_open)
        workload = self._workload
        scale = workload.global_batch / workload.samples(data)
        names = tuple(self._space.room(data)) if is_open else route
        time, price = iteration * scale, self._price(route, names, data, iteration) * scale
        return (time, price) if workload.objective == "Throughput" else (price, time)

    def _needed(self, route: Route, data: int) -> int | None:
        """How many data centres a route needs besides at least; None: there are not enough."""
        room = self._space.room(data)
        lack = self._space.stages - sum(room[name] for name in route)
        count = 0
        for name, places in room.items():
            if lack <= 0:
                return count
            if name not in route:
                lack, count = lack - places, count + 1
        return count if lack <= 0 else None

    def _iteration(self, route: Route, data: int, needed: int, *, is_open: bool) -> Seconds:
        ways, spacing = 0.0, 0.0
        for source, target in pairwise(route):
            way, gap = self._crossing(source, target, data)
            ways, spacing = ways + way, max(spacing, gap)
        missing = needed if route else max(0, needed - 1)
        if missing:
            way, gap = self._least_crossing(data)
            ways, spacing = ways + missing * way, max(spacing, gap)
        crossings = max(0, len(route) - 1) + missing
        ways += (self._space.stages - 1 - crossings) * self._inside
        work = self._work(route, data, is_open=is_open)
        count = self._workload.micro_batches(data)
        trip = work.chain + ways
        longest = max(work.longest, work.last + ways, trip + (count - 1) * spacing)
        if work.first is not None:
            pace = max(work.pace, spacing)
            longest = max(longest, work.first.busy(trip, pace, count, count))
        return max(longest + work.end, work.busiest) * _SAFE

    def _work(self, route: Route, data: int, *, is_open: bool) -> _Work:
        """What stages compute at least; ``is_open``: any data centre may be added."""
        names = tuple(self._kinds) if is_open else route
        kinds = {self._kinds[name] for name in names}
        if len(kinds) > 1:
            count = self._workload.micro_batches(data)
            slowest = self._mixed.slowest(
                self._space.stages, self._rooms(names, () if is_open else route, data)
            )
            return _Work(self._mixed.chain(kinds), count * slowest)
        first = route[0] if route else names[0]
        if (first, data) not in self._works:
            where = Placement(((first, self._space.stages),), data)
            stages = self._costing.costs(where).stages
            self._works[first, data] = self._alike(stages, data)
        work = self._works[first, data]
        return work if route else replace(work, end=0.0)

    def _rooms(self, names: Route, used: Route, data: int) -> tuple[tuple[int, int, int], ...]:
        """By kind the least and the most stages; each of ``used`` runs one at least."""
        room = self._space.room(data)
        found = {self._kinds[name]: [0, 0] for name in names}
        for name in names:
            least_and_most = found[self._kinds[name]]
            least_and_most[0] += name in used
            least_and_most[1] += room[name]
        return tuple((kind, least, most) for kind, (least, most) in sorted(found.items()))

    def _alike(self, stages: Sequence[StageCosts], data: int) -> _Work:
        """The bound's parts of stages that are the same wherever they run."""
        count = self._workload.micro_batches(data)
        whole = [_Stage.of(stage, self._is_split) for stage in stages]
        chain = fsum(each.turn for each in whole) - fsum(each.early for each in whole[:-1])
        around = longest = busiest = last = 0.0
        for stage, costs in zip(whole, stages, strict=True):
            last = around + count * stage.turn
            longest = max(longest, last)
            busiest = max(busiest, count * (stage.turn + stage.weight) + costs.step)
            around += stage.turn - stage.early
        inner = (max(each.forward, each.gradient) for each in whole[1:-1])
        pace = max([*inner, *(each.turn for each in whole[1:][-1:])], default=0.0)
        return _Work(chain, busiest, longest, last, whole[0].end, whole[0], pace)

    def _crossing(self, source: str, target: str, data: int) -> tuple[Seconds, Seconds]:
        """A message's way there and a gradient's home, and the larger spacing."""
        there, back = self._hop(source, target, data), self._hop(target, source, data)
        return there[0] + back[0], max(there[1], back[1])

    def _least_crossing(self, data: int) -> tuple[Seconds, Seconds]:
        """The least of both over all pairs of data centres."""
        if data not in self._nearest:
            pairs = (p for p in self._space.links if p[0] in self._kinds and p[1] in self._kinds)
            ways = [
                self._crossing(*pair, data) for pair in pairs if pair[::-1] in self._space.links
            ]
            self._nearest[data] = (
                min((way for way, _ in ways), default=inf),
                min((gap for _, gap in ways), default=inf),
            )
        return self._nearest[data]

    def _hop(self, source: str, target: str, data: int) -> tuple[Seconds, Seconds]:
        """The least way and spacing of a message; equal links are worked out once."""
        key = self._class(source, target), data
        if key not in self._hops:
            hops = [
                hop(self._topology, self._workload, data, source, target, stages)
                for stages in self._senders(source, data)
            ]
            self._hops[key] = min(map(_way, hops)), min(each.spacing for each in hops)
        return self._hops[key]

    def _senders(self, source: str, data: int) -> Iterator[int]:
        """How many stages may lend their paths, where any do."""
        workload = self._workload
        lends = workload.borrowed_paths and workload.sharing == "Temporal"
        most = min(self._space.stages, max(self._space.room(data).values())) if lends else 1
        yield from range(1, max(1, most) + 1)

    def _class(self, source: str, target: str) -> int:
        ends = source, target
        if ends not in self._class_of:
            link = replace(self._space.links[ends], source="", target="")
            key = link, self._lans[source], self._lans[target]
            self._class_of[ends] = self._classes.setdefault(key, len(self._classes))
        return self._class_of[ends]

    def _inside_of(self, name: str) -> Seconds:
        """A message's way to the next stage of a data centre, and a gradient's home."""
        return 2 * _way(hop(self._topology, self._workload, 1, name, name, 1))

    def _price(self, route: Route, names: Route, data: int, iteration: Seconds) -> float:
        """An iteration on the cheapest GPUs of ``names``, and on some of each of the route's."""
        room, costing = self._space.room(data), self._costing
        stages = self._space.stages
        hourly = {name: costing.price(Placement(((name, 1),), data), 1.0) for name in room}
        counts = dict.fromkeys(route, 1)
        left = stages - len(route)
        for name in sorted(names, key=lambda each: hourly[each]):
            taken = min(left, room[name] - counts.get(name, 0))
            counts[name], left = counts.get(name, 0) + taken, left - taken
        ways = costing.price(Placement(tuple((name, 0) for name in route), data), 0.0)
        return ways + iteration * fsum(hourly[name] * count for name, count in counts.items())


def _way(each: Hop) -> Seconds:
    return each.occupancy + each.delay


class _Mixed:
    """What stages compute at least where accelerators differ."""

    def __init__(self, workload: Workload, profiles: Sequence[Profile], *, is_split: bool) -> None:
        """``profiles`` are those of the kinds, which are numbers from 0 on."""
        count = len(workload.profile.layers)
        recompute, early = workload.recompute, workload.early_recompute
        layers = [
            stage_costs(each, (1,) * count, recompute=recompute, early=early) for each in profiles
        ]
        alone = [[_Stage.of(layer, is_split) for layer in row] for row in layers]
        self._ways = [[layer.turn - layer.early for layer in row] for row in alone]
        # By kind, the least time of any so many layers on one stage.
        self._sums = [
            [0.0, *accumulate(sorted(layer.forward + layer.backward for layer in row))]
            for row in layers
        ]
        self._times = sorted({time for row in self._sums for time in row})
        self._count = count
        self._slowest: dict[tuple[int, tuple[tuple[int, int, int], ...]], Seconds] = {}

    def chain(self, kinds: Iterable[int]) -> Seconds:
        """Every layer once, each on the accelerator that is fastest for it."""
        rows = [self._ways[kind] for kind in sorted(kinds)]
        return fsum(map(min, zip(*rows, strict=True)))

    def slowest(self, stages: int, rooms: tuple[tuple[int, int, int], ...]) -> Seconds:
        """The least time of the slowest of so many stages.

        ``rooms`` is a kind with the least and the most stages that run on it, of each kind once.
        """
        key = stages, rooms
        if key not in self._slowest:
            self._slowest[key] = self._times[
                bisect_left(
                    self._times,
                    self._count,
                    hi=len(self._times) - 1,
                    key=lambda time: self._layers_within(time, stages, rooms),
                )
            ]
        return self._slowest[key]

    def _layers_within(
        self, time: Seconds, stages: int, rooms: tuple[tuple[int, int, int], ...]
    ) -> int:
        """The most layers of stages none of which takes longer."""
        left = stages - sum(least for _, least, _ in rooms)
        layers = 0
        held = [(bisect_right(self._sums[kind], time) - 1, low, high) for kind, low, high in rooms]
        for count, least, most in sorted(held, reverse=True):
            more = min(left, most - least)
            layers, left = layers + count * (least + more), left - more
        return layers
