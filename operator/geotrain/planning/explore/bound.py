"""What an iteration takes at least, without a replay.

With P devices, M micro-batches, F, I, W of a stage and e the exposed end of an iteration, every
order needs of its busiest device M (F+I+W) + e. And along the pipeline: the last device starts
when the first micro-batch has come through P - 1 stages and their hops; its last action is a
backward of its first stage, because no forward and no backward of a later stage can be left; that
backward still returns through P - 1 stages. So an iteration takes at least::

    sum F + hops  +  M (F+I+W) of the last device  +  sum (I+W) + hops  +  e of the first

Neither counts what an order adds by its own rules, so the replay is never faster.

``of_degrees`` bounds all layouts of some degrees at once: exchanges that no placement beats, no
recompute, the smallest micro-batch and the most chunks for fill and drain, and the largest
micro-batch for all else (what is paid once a micro-batch is paid least often, and the end hides
best).
"""

from collections.abc import Sequence
from math import ceil

from geotrain.planning.explore.layouts import Degrees, Layout
from geotrain.planning.explore.steps import (
    Problem,
    Step,
    Wires,
    end,
    layer_times,
)
from geotrain.units import Seconds


def of_step(step: Step) -> Seconds:
    """The bound of one layout."""
    layer, head, devices = step.layer, step.head, step.devices
    last_layers = step.layers_of(devices - 1)
    each = layer.forward + layer.backward
    busy_first = step.micro_batches * step.layers_of(0) * each + step.first_end
    busy_last = step.micro_batches * (last_layers * each + head.forward + head.backward)
    if devices == 1:
        return busy_last + step.first_end
    way = sum(step.layers[: devices - 1])
    hops = step.message * 8 * step.way.per_bit + step.way.latency
    busy = max(busy_first, busy_last + step.last_end)
    return max(busy, way * each + 2 * hops + busy_last + step.first_end)


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
    first = layer_times(problem, Layout(degrees, micro_batch=small), wires)
    layer = layer_times(problem, Layout(degrees, micro_batch=large), wires)
    stages, layers = degrees.pipeline, problem.shape.layers
    ending = end(problem, degrees, wires, layer, ceil(layers / stages), ends=0)
    way = (stages - 1) * min(layers // (stages * each) for each in chunks)
    count = samples / large
    busy = count * ceil(layers / stages) * (layer.forward + layer.backward) + ending
    through = count * (layers // stages) * (layer.forward + layer.backward)
    return max(busy, way * (first.forward + first.backward) + through)
