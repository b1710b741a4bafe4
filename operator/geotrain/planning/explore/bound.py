"""What an iteration takes at least, without a replay.

With P devices, M micro-batches, F, I, W of a stage and e the exposed end of an iteration, every
order needs of its busiest device M (F+I+W) + e. And along the pipeline: the last device starts
when the first micro-batch has come through P - 1 stages and their hops; its last action is a
backward of its first stage, because no forward and no backward of a later stage can be left; that
backward still returns through P - 1 stages. So an iteration takes at least::

    sum F + hops  +  M (F+I+W) of the last device  +  sum (I+W) + hops  +  e of the first

Neither counts what an order adds by its own rules, so the replay is never faster.

``of_layout`` bounds a layout wherever it is placed. Its layers are split by times that are not
known yet, so it counts with what every split by time has: no stage gets fewer layers than an even
split rounded down, but the last, whose output then takes as long as what it lacks. ``of_degrees``
bounds all layouts of some degrees at once: exchanges that no placement beats, no recompute, the
smallest micro-batch and the most chunks for fill and drain, and the largest micro-batch for all
else (what is paid once a micro-batch is paid least often, and the end hides best).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from geotrain.planning.explore.layouts import Degrees, Layout
from geotrain.planning.explore.steps import (
    Layers,
    LayerTimes,
    Problem,
    Step,
    Wires,
    end,
    layers_of,
)
from geotrain.units import Seconds


def of_step(step: Step) -> Seconds:
    """The bound of one placed layout."""
    layer, head, devices = step.layer, step.head, step.devices
    each = layer.forward + layer.backward
    busy = [
        step.micro_batches * step.layers_of(device) * each + ending
        for device, ending in enumerate(step.ends)
    ]
    busy_last = step.micro_batches * (
        step.layers_of(devices - 1) * each + head.forward + head.backward
    )
    if devices == 1:
        return busy_last + step.ends[0]
    way = sum(step.layers[: devices - 1])
    hops = step.message * 8 * step.way.per_bit + step.way.latency
    through = way * each + 2 * hops + busy_last + step.ends[0]
    return max(*busy, busy_last + step.ends[-1], through)


@dataclass(frozen=True, slots=True)
class _Least:
    """Layers that every split gives at least.

    To the busiest device, to all stages that a first micro-batch passes before the last device,
    and to the last device.
    """

    busiest: int
    before: int
    last: int


def of_layout(problem: Problem, layout: Layout, count: int, known: Layers, wires: Wires) -> Seconds:
    """The bound of a layout of ``count`` micro-batches; ``wires`` are the best it can have."""
    least = _least(problem, layout.degrees, (layout.chunks,))
    return _at_least(problem, layout.degrees, least, count, (known.times, known), wires)


def of_degrees(
    problem: Problem,
    degrees: Degrees,
    chunks: Sequence[int],
    micro_batches: Sequence[int],
    wires: Wires,
) -> Seconds:
    """The bound of every layout with these degrees; ``wires`` are the best they can have."""
    samples = problem.batch // degrees.data
    small, large = min(micro_batches), min(max(micro_batches), samples)
    first = layers_of(problem, Layout(degrees, micro_batch=small), wires).times
    known = layers_of(problem, Layout(degrees, micro_batch=large), wires)
    least = _least(problem, degrees, chunks)
    return _at_least(problem, degrees, least, samples / large, (first, known), wires)


def _at_least(
    problem: Problem,
    degrees: Degrees,
    least: _Least,
    count: float,
    layers: tuple[LayerTimes, Layers],
    wires: Wires,
) -> Seconds:
    """The bound for a layer that fills the pipeline, and one that keeps it busy."""
    first, known = layers
    each, head = _whole(known.times), _whole(known.head)
    ending = end(problem, degrees, wires, known.times, least.busiest, ends=0)
    mean = (problem.shape.layers * each + head) / degrees.pipeline
    return max(
        count * least.busiest * each + ending,
        count * mean,
        least.before * _whole(first) + count * least.last * each,
    )


def _whole(times: LayerTimes) -> Seconds:
    return times.forward + times.backward


def _least(problem: Problem, degrees: Degrees, chunks: Sequence[int]) -> _Least:
    layers, stages = problem.shape.layers, degrees.pipeline
    even = [layers // (stages * each) for each in chunks]
    last = min(each * few for each, few in zip(chunks, even, strict=True))
    found = _Least(-(-layers // stages), (stages - 1) * min(even), last)
    if len(problem.stages) != stages or 1 not in chunks:
        return found
    given = problem.stages
    passed = min(found.before, sum(given[:-1]))
    return _Least(found.busiest, passed, min(found.last, given[-1]))
