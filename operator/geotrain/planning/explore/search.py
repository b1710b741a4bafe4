"""Best-first search: bounds say what to look at next, the exact replay says what is best.

A queue holds parts of the space, each with a bound on its best layout: all layouts of some
degrees; those with a micro-batch, recompute and schedule as well, whose memory is known by then;
and single layouts, placed and with a transport. The part with the lowest bound is opened next; a
single layout is replayed. When no bound is below the best replay, that is the optimum of the
space, unless the allowance ended first. Among equals the layout that changes least wins, so equal
inputs give an equal answer.

One replica stands for all: they are alike, and what they share is in the costs. 1F1B is swept as
a pattern of depths, whose steady state is skipped, so a long iteration costs no more than a short
one; interleaved orders are replayed action by action.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, count, product
from math import inf
from typing import TypeVar

from geotrain.errors import InputError
from geotrain.planning.costs.memory import Recompute
from geotrain.planning.costs.shapes import Shape
from geotrain.planning.explore import bound
from geotrain.planning.explore.layouts import (
    DEGREES,
    Degrees,
    Factors,
    Knob,
    Layout,
    Placement,
    Schedule,
    degrees,
    factors,
    placements,
)
from geotrain.planning.explore.steps import (
    Book,
    Layers,
    Problem,
    Wires,
    costs,
    counts,
    given_split,
    layers_of,
    memory,
    micro_batches,
    step,
)
from geotrain.planning.schedule.compiled import PLAIN
from geotrain.planning.schedule.compiled_patterns import Patterns
from geotrain.planning.schedule.costs import Costs
from geotrain.planning.schedule.interleaved import interleaved_1f1b
from geotrain.planning.schedule.timeline import Program, program, replay
from geotrain.units import Seconds

MICRO_BATCHES = (1, 2, 4, 8)
CHUNKS = (2, 4, 8)
RECOMPUTES = (Recompute.NOTHING, Recompute.FEED_FORWARD, Recompute.ALL)
MOST_ACTIONS = 200_000
"""Interleaved layouts of more are left out: each would be replayed for seconds."""
MOST_MICRO_BATCHES = 1_000_000
"""More in a replica's iteration are taken for a mistake."""


@dataclass(frozen=True, slots=True)
class Space:
    """What may be chosen, knob by knob."""

    degrees: tuple[Degrees, ...]
    placements: tuple[Placement, ...]
    schedules: tuple[tuple[Schedule, int], ...]
    micro_batches: tuple[int, ...]
    recomputes: tuple[Recompute, ...]
    transports: tuple[str, ...]
    turned: tuple[frozenset[Knob], ...] = field(default=(), compare=False, repr=False)
    """Of each of ``degrees`` the knobs in which it differs from the given ones."""

    def only(self, given: Layout, knobs: Iterable[Knob]) -> "Space":
        """The space in which all other knobs stay as given."""
        free = frozenset(knobs)
        each_turned = zip(self.degrees, self.turned, strict=True)
        return Space(
            tuple(each for each, turned in each_turned if turned <= free),
            self.placements if "placement" in free else (given.placement,),
            self.schedules if "schedule" in free else ((given.schedule, given.chunks),),
            self.micro_batches if "micro-batch" in free else (given.micro_batch,),
            self.recomputes if "recompute" in free else (given.recompute,),
            self.transports if "transport" in free else (given.transport,),
        )


def _turned(each: Degrees, given: Degrees) -> frozenset[Knob]:
    """The knobs that differ between two sets of degrees.

    Sharding over all replicas stays that when their number follows another degree.
    """
    differ = {knob for knob in DEGREES if getattr(each, knob) != getattr(given, knob)}
    if given.shard == given.data > 1 and each.shard == each.data:
        differ.discard("shard")
    return frozenset(differ)


def whole_space(problem: Problem, given: Layout) -> Space:
    """Everything, and whatever the given layout has beyond it. What is given comes first."""
    network = problem.network
    schedules: list[tuple[Schedule, int]] = [("OneFOneB", 1)]
    schedules += [("Interleaved", chunks) for chunks in CHUNKS]
    splits = _first(given.degrees, degrees(network, problem.shape, problem.batch))
    return Space(
        splits,
        _first(given.placement, placements(network)),
        _first((given.schedule, given.chunks), schedules),
        _first(given.micro_batch, MICRO_BATCHES),
        _first(given.recompute, RECOMPUTES),
        _first(given.transport, (transport.name for transport in network.transports)),
        tuple(_turned(each, given.degrees) for each in splits),
    )


_T = TypeVar("_T")


def _first(given: _T, others: Iterable[_T]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys((given, *others)))


def fault(problem: Problem, layout: Layout) -> str | None:
    """Why a layout cannot run, memory aside; None where it can."""
    return next(
        chain(_bad_degrees(problem, layout), _bad_batch(problem, layout), _bad_chunks(layout)), None
    )


def _bad_degrees(problem: Problem, layout: Layout) -> Iterator[str]:
    split, shape = layout.degrees, problem.shape
    if split.devices != problem.network.devices:
        yield (
            f"tensor {split.tensor} x context {split.context} x data {split.data} x pipeline "
            f"{split.pipeline} is {split.devices} devices and the network has "
            f"{problem.network.devices}"
        )
    if shape.heads % split.tensor:
        yield f"tensor {split.tensor} does not divide {shape.heads} heads"
    if shape.sequence % split.context:
        yield f"context {split.context} does not divide samples of {shape.sequence} tokens"
    if split.data % split.shard:
        yield f"shard {split.shard} does not divide data {split.data}"
    yield from _bad_experts(shape, split)


def _bad_experts(shape: Shape, split: Degrees) -> Iterator[str]:
    if split.data % split.expert:
        yield f"expert {split.expert} does not divide data {split.data}"
    if shape.experts is None and split.expert > 1:
        yield "a dense model has no experts to spread"
    if shape.experts is not None and shape.experts.count % (split.tensor * split.expert):
        yield (
            f"tensor {split.tensor} x expert {split.expert} does not divide "
            f"{shape.experts.count} experts"
        )


def _bad_batch(problem: Problem, layout: Layout) -> Iterator[str]:
    data, pipeline = layout.degrees.data, layout.degrees.pipeline
    stages, number = pipeline * layout.chunks, micro_batches(problem, layout)
    if not number:
        yield (
            f"data {data} x micro-batch {layout.micro_batch} does not divide the batch of "
            f"{problem.batch}"
        )
    if stages > problem.shape.layers:
        yield f"{stages} stages are more than {problem.shape.layers} layers"
    if number > MOST_MICRO_BATCHES:
        yield f"{number} micro-batches are more than {MOST_MICRO_BATCHES}"
    if layout.chunks > 1 and 2 * stages * number > MOST_ACTIONS:
        yield (
            f"{number} micro-batches interleaved in {stages} stages are more than "
            f"{MOST_ACTIONS} actions"
        )
    if layout.chunks > 1 and number % pipeline:
        yield f"interleaving needs micro-batches ({number}) in multiples of pipeline {pipeline}"


def _bad_chunks(layout: Layout) -> Iterator[str]:
    if (layout.schedule == "Interleaved") != (layout.chunks > 1):
        yield "Interleaved needs 2 or more chunks, and every other schedule has 1"
    if layout.chunks > 1 and layout.degrees.pipeline == 1:
        yield "one device alone has nothing to interleave"


@dataclass(frozen=True, slots=True)
class Found:
    """A layout, the replayed iteration, and what its fullest device needs in bytes."""

    layout: Layout
    seconds: Seconds
    memory: float


def _ranked(found: Iterable[Found]) -> tuple[Found, ...]:
    """By time, each layout once; of equals the one that was found first."""
    return tuple(sorted(dict.fromkeys(found), key=lambda each: each.seconds))


class Allowance:
    """How much a search may do: so many steps, and only while ``should_stop`` says no."""

    def __init__(
        self, steps: int | None = None, should_stop: Callable[[], bool] = lambda: False
    ) -> None:
        self.spent = 0
        self.ended = False
        self._steps = steps
        self._should_stop = should_stop

    def spend(self) -> bool:
        """Take one step. False, and so for ever, when there is none left."""
        if self.ended or self.spent == self._steps or self._should_stop():
            self.ended = True
            return False
        self.spent += 1
        return True


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the space. A layout without transport is not placed yet."""

    layout: Layout
    schedule_known: bool = False
    table: Factors | None = None


_Place = tuple[str, Factors]
"""A transport, and where the axes are."""

_Entry = tuple[Seconds, int, int, _Part]


class Explorer:
    """Searches spaces of one problem and remembers what it has replayed."""

    def __init__(self, problem: Problem, given: Layout) -> None:
        """Raises InputError where the given layout cannot run on the network at all."""
        self.problem = problem
        self.given = given
        self.replays = 0
        self._book = Book(problem.network)
        self._transports = {each.name: each for each in problem.network.transports}
        self._best_wires: dict[Degrees, Wires] = {}
        self._tables: dict[tuple[tuple[int, ...], Placement], Factors] = {}
        self._placements: dict[
            tuple[Placement, ...], dict[tuple[int, ...], dict[Factors, Placement]]
        ] = {}
        self._wired: dict[Degrees, dict[_Place, Wires]] = {}
        self._layers: dict[tuple[Degrees, int, Recompute], dict[_Place | None, Layers]] = {}
        self._placed_bounds: dict[Layout, dict[_Place, Seconds]] = {}
        self._programs: dict[tuple[int, int, int], Program] = {}
        self._degree_bounds: dict[tuple[object, ...], dict[Degrees, Seconds]] = {}
        self._bounds: dict[Degrees, dict[tuple[object, ...], Seconds]] = {}
        self._seconds: dict[tuple[Layout, Factors], Seconds] = {}
        wrong = fault(problem, given)
        if given.transport not in self._transports:
            wrong = f"there is no transport {given.transport!r}"
        if wrong is not None:
            raise InputError(f"the given layout cannot run: {wrong}")

    def evaluate(self, layout: Layout) -> Found:
        """Replay one layout, whether it fits into memory or not."""
        return self._found(layout, self._table(layout.degrees, layout.placement))

    def best(
        self, space: Space, allowance: Allowance, start: Iterable[Found] = (), keep: int = 1
    ) -> tuple[Found, ...]:
        """The ``keep`` best layouts of a space that fit, or of ``start``; () where none fits."""
        best = _ranked(start)[:keep]
        if allowance.ended:
            return best
        number = count()
        queue: list[_Entry] = []

        def limit() -> Seconds:
            return best[-1].seconds if len(best) == keep else inf

        def put(entries: Iterator[tuple[Seconds, _Part]]) -> None:
            for least, part in entries:
                changes = len(part.layout.differs(self.given))
                heapq.heappush(queue, (least, changes, next(number), part))

        put(self._all_degrees(space, limit()))
        while queue and queue[0][0] < limit() and allowance.spend():
            part = heapq.heappop(queue)[3]
            if part.table is not None:
                found = self._found(part.layout, part.table)
                best = _ranked((*best, found))[:keep]
            elif part.schedule_known:
                put(self._placed(space, part.layout, limit()))
            else:
                put(self._scheduled(space, part.layout, limit()))
        return best

    def _found(self, layout: Layout, table: Factors) -> Found:
        layers = self._known(layout, (layout.transport, table))
        needed = memory(self.problem, layout, counts(self.problem, layout, layers))
        return Found(layout, self._replay(layout, table), needed)

    def _all_degrees(self, space: Space, below: Seconds) -> Iterator[tuple[Seconds, _Part]]:
        """Degrees whose bound is below that."""
        chunks = tuple(number for _, number in space.schedules)
        bounds = self._degree_bounds.setdefault((chunks, space.micro_batches), {})
        for each in space.degrees:
            if each not in bounds:
                bounds[each] = bound.of_degrees(
                    self.problem, each, chunks, space.micro_batches, self._best(each)
                )
            if bounds[each] < below:
                yield bounds[each], _Part(replace(self.given, degrees=each))

    def _scheduled(
        self, space: Space, layout: Layout, below: Seconds
    ) -> Iterator[tuple[Seconds, _Part]]:
        """With a micro-batch, recompute and schedule, where the bound is below that."""
        bounds = self._bounds.setdefault(layout.degrees, {})
        for chosen in product(space.micro_batches, space.recomputes, space.schedules):
            if bounds.get(chosen, 0.0) < below:
                micro_batch, recompute, (schedule, chunks) = chosen
                found = Layout(
                    layout.degrees,
                    layout.placement,
                    schedule,
                    chunks,
                    micro_batch,
                    recompute,
                    layout.transport,
                )
                if chosen not in bounds:
                    bounds[chosen] = self._least(found)
                if bounds[chosen] < below:
                    yield bounds[chosen], _Part(found, schedule_known=True)

    def _placed(
        self, space: Space, layout: Layout, below: Seconds
    ) -> Iterator[tuple[Seconds, _Part]]:
        """The placed layouts whose bound is below that."""
        tables = self._distinct(layout.degrees, space.placements)
        bounds = self._placed_bounds.setdefault(layout, {})
        for place in product(space.transports, tables):
            if place not in bounds:
                bounds[place] = self._fitting(layout, place)
            if bounds[place] < below:
                name, table = place
                found = replace(layout, transport=name, placement=tables[table])
                yield bounds[place], _Part(found, True, table)

    def _least(self, layout: Layout) -> Seconds:
        """The bound of a layout wherever it is placed; infinite where it cannot run or fit.

        That its degrees come out even is known.
        """
        if next(chain(_bad_batch(self.problem, layout), _bad_chunks(layout)), None) is not None:
            return inf
        problem, stages = self.problem, layout.degrees.pipeline * layout.chunks
        fewest = (problem.shape.layers // stages,) * stages
        if given_split(problem, layout):
            fewest = problem.stages
        if memory(problem, layout, fewest) > problem.device.memory:
            return inf
        known, wires = self._known(layout, None), self._best(layout.degrees)
        return bound.of_layout(problem, layout, micro_batches(problem, layout), known, wires)

    def _fitting(self, layout: Layout, place: _Place) -> Seconds:
        """The bound of a placed layout; infinite where its stages do not fit."""
        known, wires = self._known(layout, place), self._wires(layout.degrees, place)
        layers = counts(self.problem, layout, known)
        if memory(self.problem, layout, layers) > self.problem.device.memory:
            return inf
        return bound.of_step(step(self.problem, layout, wires, known))

    def _known(self, layout: Layout, place: _Place | None) -> Layers:
        """A layer, which takes the same in all schedules of a layout."""
        layers = self._layers.setdefault((layout.degrees, layout.micro_batch, layout.recompute), {})
        if place not in layers:
            degrees = layout.degrees
            wires = self._best(degrees) if place is None else self._wires(degrees, place)
            layers[place] = layers_of(self.problem, layout, wires)
        return layers[place]

    def _best(self, each: Degrees) -> Wires:
        if each not in self._best_wires:
            self._best_wires[each] = self._book.best(each)
        return self._best_wires[each]

    def _wires(self, each: Degrees, place: _Place) -> Wires:
        known = self._wired.setdefault(each, {})
        if place not in known:
            name, table = place
            known[place] = self._book.placed(each, table, self._transports[name])
        return known[place]

    def _distinct(self, each: Degrees, among: tuple[Placement, ...]) -> Mapping[Factors, Placement]:
        """Tables of placements, each with the first placement that makes it."""
        known = self._placements.setdefault(among, {})
        if each.axes not in known:
            tables: dict[Factors, Placement] = {}
            for placement in among:
                tables.setdefault(self._table(each, placement), placement)
            known[each.axes] = tables
        return known[each.axes]

    def _table(self, each: Degrees, placement: Placement) -> Factors:
        key = each.axes, placement
        if key not in self._tables:
            self._tables[key] = factors(self.problem.network, each, placement)
        return self._tables[key]

    def _replay(self, layout: Layout, table: Factors) -> Seconds:
        key = replace(layout, placement=self.given.placement), table
        if key not in self._seconds:
            wires = self._wires(layout.degrees, (layout.transport, table))
            made = costs(self.problem, layout, wires)
            self._seconds[key] = self._period(layout, made)
            self.replays += 1
        return self._seconds[key]

    def _period(self, layout: Layout, made: Costs) -> Seconds:
        number, devices = micro_batches(self.problem, layout), layout.degrees.pipeline
        if layout.chunks == 1:
            return Patterns(PLAIN, made, 1).period(range(devices, 0, -1), number)
        key = devices, layout.chunks, number
        if key not in self._programs:
            self._programs[key] = program(interleaved_1f1b(devices, layout.chunks, number))
        return replay(self._programs[key], made, 1).period
