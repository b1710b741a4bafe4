"""Measured profiles as they were published, read into a Profile.

**Sailor** (Strati et al., arXiv 2504.17096): ``{micro-batch: {tensor degree: {layer: [forward,
backward, update]}}}`` in seconds, layers counted from 0 with the embedding first, the output
last. The backward is not split there: an inner product's two gradients are equally large, so half
is taken for each. ``update`` is the layer's part of the optimizer's step. The file holds no sizes:
the caller gives them.

**This project's H200 file**: ``{"layers": [{hidden, seq, batch, forward_ms, backward_ms,
backward_input_ms, boundary_bytes}]}`` in milliseconds, one block for each shape.

Both raise InputError with the place and what would be right.
"""

import math
from collections.abc import Mapping
from typing import Any

from geotrain.errors import InputError
from geotrain.model.workload import LayerCosts, Profile
from geotrain.units import Bytes, Seconds


def sailor(
    content: Any,
    *,
    micro_batch: int,
    tensor: int,
    boundary: Bytes,
    parameters: Bytes = 0,
    activation: Bytes = 0,
    gradients: Bytes = 0,
) -> Profile:
    """One combination of Sailor's profile; sizes are those of a layer on each device."""
    batches = _entry(content, micro_batch, "micro-batch")
    rows = _entry(batches, tensor, f"micro-batch {micro_batch}: tensor degree")
    place = f"micro-batch {micro_batch}, tensor degree {tensor}"
    if not isinstance(rows, Mapping) or not rows:
        raise InputError(
            f"{place}: give {{layer: [forward, backward, update]}}, not {_short(rows)}"
        )
    names = [str(number) for number in range(len(rows))]
    missing = next((name for name in names if name not in rows), None)
    if missing is not None:
        raise InputError(f"{place}: layer {missing} of {len(rows)} is missing; count from 0")
    layers = [
        _sailor_layer(rows[name], f"{place}, layer {name}", activation, parameters)
        for name in names
    ]
    return Profile(tuple(layers), boundary, gradient_bytes_per_layer=gradients)


def _sailor_layer(row: Any, place: str, activation: Bytes, parameters: Bytes) -> LayerCosts:
    if not isinstance(row, list | tuple) or len(row) != 3:
        raise InputError(f"{place}: give [forward, backward, update], not {_short(row)}")
    forward, backward, update = (_time(value, place) for value in row)
    half = backward / 2
    return LayerCosts(forward, half, half, activation, parameters, step=update)


def h200(
    content: Any,
    *,
    hidden: int,
    sequence: int,
    layers: int,
    parameters: Bytes = 0,
    activation: Bytes = 0,
    gradients: Bytes = 0,
) -> Profile:
    """A model of ``layers`` equal blocks of one measured shape."""
    blocks = content.get("layers") if isinstance(content, Mapping) else None
    if not isinstance(blocks, list) or not all(isinstance(block, Mapping) for block in blocks):
        raise InputError('the profile is no object with a list "layers" of measured blocks')
    wanted = {"hidden": hidden, "seq": sequence}
    found = [b for b in blocks if all(b.get(key) == value for key, value in wanted.items())]
    if not found:
        known = ", ".join(f"{b.get('hidden')} x {b.get('seq')}" for b in blocks[:20])
        raise InputError(
            f"no block of {hidden} x {sequence} (hidden x seq) is measured; {known} are"
        )
    if layers < 1:
        raise InputError(f"a model of {layers} layers is empty; give at least 1")
    block, place = found[0], f"block {hidden} x {sequence}"
    forward, backward, inputs = (
        _time(block.get(key), f"{place}, {key}") / 1e3
        for key in ("forward_ms", "backward_ms", "backward_input_ms")
    )
    if inputs > backward:
        raise InputError(f"{place}: backward_input_ms is more than backward_ms, which contains it")
    boundary = round(_time(block.get("boundary_bytes"), f"{place}, boundary_bytes"))
    one = LayerCosts(forward, inputs, backward - inputs, activation, parameters)
    return Profile((one,) * layers, boundary, gradient_bytes_per_layer=gradients)


def _entry(content: Any, key: int, what: str) -> Any:
    if not isinstance(content, Mapping):
        raise InputError(f"{what}s are the keys of a JSON object, not of {_short(content)}")
    if str(key) not in content:
        known = ", ".join(sorted(map(str, content), key=lambda name: (len(name), name))[:20])
        raise InputError(f"{what} {key} is not measured; {known or 'nothing'} is")
    return content[str(key)]


def _time(value: Any, place: str) -> Seconds:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value < 0:
        raise InputError(f"{place}: {_short(value)} is no finite number of 0 or more")
    return float(value)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
