"""The orders to try on a placement: patterns of depths, and what policies make of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from geotrain.errors import InputError
from geotrain.model.plan import Order
from geotrain.model.workload import SchedulePolicy, Workload
from geotrain.planning.schedule import checks, geopipe, weights
from geotrain.planning.schedule.backward_first import backward_first
from geotrain.planning.schedule.costs import Costs, StageCosts
from geotrain.planning.schedule.greedy import greedy
from geotrain.planning.schedule.orders import atlas_depths, warm_up, with_depths
from geotrain.planning.schedule.policies import POLICIES
from geotrain.planning.schedule.timeline import Program, program
from geotrain.units import Bytes

MOST_ACTIONS_BY_ARRIVAL = 100_000
"""Actions of one replica beyond which no order by arrival is tried: a third of a second each."""


MAKING: frozenset[SchedulePolicy] = frozenset(("GeoPipe", "ZeroBubble", "Greedy", "Auto"))
"""The schedule policies that make orders action by action, once patterns have found placements."""

MOST_ACTIONS_MADE = 30_000
"""Actions of one replica of all placements for which ``Auto`` makes orders: about two seconds."""


@dataclass(frozen=True, slots=True)
class Trial:
    """An order to replay: the pattern of ``depths``, or what was made ready from them."""

    name: str
    depths: tuple[int, ...]
    micro_batches: int
    made: Program | None = None

    @property
    def ready(self) -> Program:
        """The order, ready to run."""
        return self.made or _pattern_program(self.depths, self.micro_batches)


@dataclass(frozen=True, slots=True)
class Unfit:
    """An order that memory does not hold."""

    name: str
    why: str


def caps(costs: Costs, workload: Workload, micro_batches: int) -> tuple[int, ...]:
    """Micro-batches that memory lets each stage hold, at most M; 0 or less: not even one."""
    limits = [memory(stage, workload) for stage in costs.stages]
    return tuple(
        micro_batches if limit is None else min(micro_batches, stage.in_flight(limit))
        for stage, limit in zip(costs.stages, limits, strict=True)
    )


def memory(stage: StageCosts, workload: Workload) -> Bytes | None:
    """What a stage may use of each device: no more than the job says, nor than there is."""
    there, allowed = stage.memory, workload.memory_per_gpu
    if there is None or allowed is None:
        return allowed if there is None else there
    return min(there, allowed)


def patterned(
    costs: Costs, workload: Workload, micro_batches: int, room: Sequence[int]
) -> Iterator[Trial | Unfit]:
    """The different orders that the schedule policy allows; ``room`` is the caps of memory.

    Orders by arrival are made of actions one by one, so a very long iteration goes without them.
    """
    seen = set()
    by_arrival = not is_long(len(costs.stages), micro_batches)
    for name, depths in patterns(costs, workload, micro_batches, room):
        trial = fitted(name, depths, micro_batches, room)
        found = [trial]
        if isinstance(trial, Trial) and name.startswith("Atlas") and by_arrival:
            eager = program(backward_first(costs, depths, micro_batches))
            found.append(Trial(f"{name} by arrival", depths, micro_batches, eager))
        for each in found:
            if isinstance(each, Unfit):
                yield each
                continue
            same = each.ready.steps if by_arrival else each.depths
            if same not in seen:
                seen.add(same)
                yield each


def is_long(stages: int, micro_batches: int) -> bool:
    """Whether an iteration is too long for orders by arrival."""
    return 2 * stages * micro_batches > MOST_ACTIONS_BY_ARRIVAL


def quick(policy: SchedulePolicy, costs: Costs) -> tuple[str, ...]:
    """What a policy makes in little time; GeoPipe's own pattern is among those of Auto."""
    split = ("geopipe-split",) if any(hop.crosses_wan for hop in costs.hops) else ()
    made: dict[SchedulePolicy, tuple[str, ...]] = {
        "Auto": (*split, "zb-1p"),
        "GeoPipe": ("geopipe", "geopipe-split"),
        "ZeroBubble": ("zb-1p",),
    }
    return made.get(policy, ())


def made(
    name: str, costs: Costs, workload: Workload, micro_batches: int, room: Sequence[int]
) -> Iterator[Trial | Unfit]:
    """The order that a policy of ``schedule.policies`` makes within memory."""
    try:
        order = POLICIES[name].order(costs, room, micro_batches)
    except InputError as error:
        yield Unfit(_TITLES[name], f"finds no order: {error}")
        return
    within = weights.put_off(order, _weights(costs, workload, order))
    yield _trial(name, within, micro_batches)
    if name == "greedy" and within != order:  # what is made for whole backwards may be better
        whole = greedy(costs, micro_batches, room, split=False)
        yield _trial(name, whole, micro_batches)


def _trial(name: str, order: Order, micro_batches: int) -> Trial:
    held = tuple(checks.peak_in_flight(order))
    return Trial(_TITLES[name], held, micro_batches, program(order))


def _weights(costs: Costs, workload: Workload, order: Order) -> list[int]:
    """By stage, the weight gradients that memory lets wait beside what the order has in flight."""
    found = []
    for stage, held in zip(costs.stages, checks.peak_in_flight(order), strict=True):
        limit = memory(stage, workload)
        found.append(held if limit is None else stage.put_off(limit, held))
    return found


_TITLES = {
    "geopipe": "GeoPipe",
    "geopipe-split": "GeoPipe split",
    "zb-1p": "ZeroBubble",
    "greedy": "Greedy",
}


def patterns(
    costs: Costs, workload: Workload, micro_batches: int, room: Sequence[int]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and depths of the policy's patterns, whether memory holds them or not."""
    stages = len(costs.stages)
    policy = workload.schedule
    if policy == "GPipe" or (policy == "Auto" and not is_long(stages, micro_batches)):
        yield "GPipe", (micro_batches,) * stages
    if policy in ("Auto", "OneFOneB"):
        yield "OneFOneB", tuple(range(stages, 0, -1))
    if policy == "Atlas" or policy in MAKING:
        yield from _warm_ups(costs, micro_batches, room)


def fitted(
    name: str, depths: tuple[int, ...], micro_batches: int, room: Sequence[int]
) -> Trial | Unfit:
    """The pattern, or which stage has no room for it."""
    held = tuple(min(depth, micro_batches) for depth in depths)
    for stage, (needed, holds) in enumerate(zip(held, room, strict=True)):
        if needed > holds:
            why = f"holds {needed} micro-batches at stage {stage}; memory has room for {holds}"
            return Unfit(name, why)
    return Trial(name, held, micro_batches)


@lru_cache(maxsize=16)
def _pattern_program(depths: tuple[int, ...], micro_batches: int) -> Program:
    """Placements share patterns, and making one ready costs more than replaying it."""
    return program(with_depths(depths, micro_batches))


def _warm_ups(
    costs: Costs, micro_batches: int, room: Sequence[int]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and depths of warm-ups that differ: none, GeoPipe's rule, 1, 2, 4, …, all memory."""
    crossing = [b for b, hop in enumerate(costs.forward) if hop.crosses_wan]
    wanted = {"Atlas": dict.fromkeys(crossing, 0), "Atlas +rule": geopipe.extra_forwards(costs)}
    extra = 1
    while crossing and extra < micro_batches:
        wanted[f"Atlas +{extra}"] = dict.fromkeys(crossing, extra)
        extra *= 2
    seen = set()
    for name, per_boundary in wanted.items():
        depths = atlas_depths(room, warm_up(len(room), per_boundary))
        if depths not in seen:
            seen.add(depths)
            yield name, depths
    # Room grows where layers are few, and a depth may never grow along the pipeline.
    full = atlas_depths(room, room)
    if full not in seen:
        yield "Atlas +memory", full


def few(
    costs: Costs, workload: Workload, micro_batches: int, room: Sequence[int]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The one or two patterns that tell what a placement is worth: the rule, or the policy's."""
    if workload.schedule not in ("GPipe", "OneFOneB"):
        yield from rule(costs, room)
        return
    for name, depths in patterns(costs, workload, micro_batches, room):
        if isinstance(fitted(name, depths, micro_batches, room), Trial):
            yield name, depths


def rule(costs: Costs, room: Sequence[int]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """1F1B as far as memory allows and, where it differs, with the warm-up of GeoPipe's rule."""
    plain = atlas_depths(room, (0,) * len(room))
    yield "Atlas", plain
    ahead = geopipe.depths(costs, room)
    if ahead != plain:
        yield "Atlas +rule", ahead


def order_of(ready: Program) -> Order:
    """The order that a program was made from."""
    return tuple(tuple(ready.actions[i] for i in row) for row in ready.rows)
