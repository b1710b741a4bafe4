"""Measured profiles as they were published, read into a Profile.

**Sailor** (Strati et al., arXiv 2504.17096): ``{micro-batch: {tensor degree: {layer: [forward,
backward, update]}}}`` in seconds, layers counted from 0: the embedding first, then the model's
layers, then the output, in some files with a norm before it as a layer of its own. The embedding
is counted with the model's first layer and what is behind with its last. The backward is not split
there: an inner product's two gradients are equally large, so half is taken for each. ``update`` is
the layer's part of the optimizer's step (Sailor's planner takes it once for each layer).

**This project's H200 file**: ``{"device", "layers": [{hidden, seq, batch, forward_ms, backward_ms,
backward_input_ms, boundary_bytes}]}`` in milliseconds, one block for each shape, without tensor
parallelism. The output and the optimizer's step are estimated on the device that it names.

Neither knows what a layer keeps: sizes follow from the model's shape (``layers.sizes``). Both raise
InputError with the place and what would be right.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from geotrain.errors import InputError
from geotrain.model.workload import LayerCosts, Profile
from geotrain.planning.costs import layers
from geotrain.planning.costs.accelerators import ACCELERATORS, known
from geotrain.planning.costs.calibrations import Calibration, Device
from geotrain.planning.costs.layers import Split, Training
from geotrain.planning.costs.shapes import Shape
from geotrain.units import Seconds

Reader = Callable[[Any, Shape, Training, Split], Profile]
"""Takes the content of a file, and the model, how it is trained and how it is divided."""

_H200_SHARES: Final = Calibration(matrix_share=0.71, memory_share=0.95)
_MOST: Final = 1e18  # of bytes; more than any time


def reader(content: Mapping[str, Any]) -> Reader | None:
    """What reads a file of this form; None where nobody published it."""
    if content and all(isinstance(key, str) and key.isdecimal() for key in content):
        return sailor
    blocks = content.get("layers")
    is_timed = isinstance(blocks, list) and any(
        isinstance(block, Mapping) and "forward_ms" in block for block in blocks
    )
    return h200 if is_timed else None


def sailor(content: Any, shape: Shape, training: Training, split: Split) -> Profile:
    """The micro-batch and tensor degree of a job, of Sailor's profile."""
    batches = _entry(content, shape.micro_batch, "micro-batch")
    place = f"micro-batch {shape.micro_batch}"
    tensor = split.sharing.tensor
    rows = _entry(batches, tensor, f"{place}: tensor degree")
    place = f"{place}, tensor degree {tensor}"
    if not isinstance(rows, Mapping) or not rows:
        raise InputError(
            f"{place}: give {{layer: [forward, backward, update]}}, not {_short(rows)}"
        )
    missing = next((n for n in range(len(rows)) if str(n) not in rows), None)
    if missing is not None:
        raise InputError(f"{place}: layer {missing} of {len(rows)} is missing; count from 0")
    count = len(rows)
    if count - shape.layers not in (2, 3):
        raise InputError(
            f"{place}: {count} layers are listed; a model of {shape.layers} has"
            f" {shape.layers + 2} with embedding and output, or one more with a norm between"
        )
    first, *times = [_sailor_times(rows[str(n)], f"{place}, layer {n}") for n in range(count)]
    sized = layers.sizes(shape, training, split)
    found = [layers.added(size, time) for size, time in zip(sized.layers, times, strict=False)]
    found[0] = layers.with_end(found[0], first)
    for end in times[shape.layers :]:
        found[-1] = layers.with_end(found[-1], end)
    return replace(sized, layers=tuple(found))


def _sailor_times(row: Any, place: str) -> LayerCosts:
    if not isinstance(row, list | tuple) or len(row) != 3:
        raise InputError(f"{place}: give [forward, backward, update], not {_short(row)}")
    forward, backward, update = (_time(value, place) for value in row)
    return LayerCosts(forward, backward / 2, backward / 2, step=update)


def h200(content: Any, shape: Shape, training: Training, split: Split) -> Profile:
    """A model of equal blocks, of this project's H200 file."""
    blocks = content.get("layers") if isinstance(content, Mapping) else None
    if not isinstance(blocks, list) or not all(isinstance(block, Mapping) for block in blocks):
        raise InputError('the profile is no object with a list "layers" of measured blocks')
    if split.sharing.tensor != 1:
        raise InputError(f"blocks are measured with tensor degree 1, not {split.sharing.tensor}")
    wanted = {"hidden": shape.hidden, "seq": shape.sequence, "batch": shape.micro_batch}
    place = "block {hidden} x {seq}, batch {batch}".format_map(wanted)
    found = [b for b in blocks if all(b.get(key) == value for key, value in wanted.items())]
    if not found:
        known = "; ".join(
            f"{b.get('hidden')} x {b.get('seq')}, batch {b.get('batch')}" for b in blocks[:20]
        )
        raise InputError(f"{place} (hidden x seq) is not measured; there is {known or 'none'}")
    block = found[0]
    forward, backward, inputs = (
        _time(block.get(key), f"{place}, {key}") / 1e3
        for key in ("forward_ms", "backward_ms", "backward_input_ms")
    )
    if inputs > backward:
        raise InputError(f"{place}: backward_input_ms is more than backward_ms, which contains it")
    boundary = round(_time(block.get("boundary_bytes"), f"{place}, boundary_bytes"))
    times = LayerCosts(forward, inputs, backward - inputs)
    made = layers.of_blocks(times, shape, _device(content.get("device")), training, split)
    return replace(made, boundary=boundary)


def _device(text: Any) -> Device:
    """The accelerator that a device's name means, like ``NVIDIA H200``.

    Output and optimizer's step reach the shares of the data sheet that the blocks were found to.
    """
    one = known(str(text))
    if one is None:
        raise InputError(
            f"the device {_short(text)} is not known, and output and optimizer's step are estimated"
            f" on it; known: {', '.join(ACCELERATORS)}"
        )
    return Device(one, _H200_SHARES)


def _entry(content: Any, key: int, what: str) -> Any:
    if not isinstance(content, Mapping):
        raise InputError(f"{what}s are the keys of a JSON object, not of {_short(content)}")
    if str(key) not in content:
        known = ", ".join(sorted(map(str, content), key=lambda name: (len(name), name))[:20])
        raise InputError(f"{what} {key} is not measured; {known or 'nothing'} is")
    return content[str(key)]


def _time(value: Any, place: str) -> Seconds:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= value < _MOST:
        raise InputError(f"{place}: {_short(value)} is no finite number of 0 or more")
    return float(value)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
