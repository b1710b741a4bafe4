"""Interleaved 1F1B: v chunks a device, so that the pipeline fills in 1/v of the time.

Device d runs stages d, d + p, …, d + (v-1) p, chunk after chunk, with r micro-batches in a row on
each. It warms up with ``(v-1) r + 2 (p-1-d)`` forwards, then runs a forward and a backward in turn.
r is the micro-batches divided over ``max(1, m // p)`` rounds, p where p divides m. Without
communication the bubble is (p-1)(F+B)/v; a device holds up to ``(v-1) r + 2 (p-1-d) + 1`` stage
activations, each 1/v of its layers.

Source: Narayanan et al., Megatron-LM (arXiv 2104.04473), section 2.2; the order is that of
``torch.distributed.pipelining.ScheduleInterleaved1F1B``.
"""

from collections import Counter

from geotrain.errors import InputError
from geotrain.model.plan import Action, Kind, Order
from geotrain.planning.schedule.orders import one_f_one_b


def interleaved_1f1b(devices: int, chunks: int, micro_batches: int) -> Order:
    """The order of every device; with one chunk it is 1F1B.

    Raises InputError where the micro-batches cannot be divided into equal rounds.
    """
    if min(devices, chunks, micro_batches) < 1:
        raise InputError(
            f"{devices} ranks of {chunks} chunks and {micro_batches} micro-batches are no "
            "pipeline; give at least one of each"
        )
    if chunks == 1:
        return one_f_one_b(devices, micro_batches)
    rounds = max(1, micro_batches // devices)
    if micro_batches % rounds:
        raise InputError(
            f"interleaved 1F1B on {devices} ranks cannot divide {micro_batches} micro-batches "
            f"into {rounds} equal rounds; give a multiple of {devices}"
        )
    return tuple(
        _row(device, devices, chunks, micro_batches, micro_batches // rounds)
        for device in range(devices)
    )


def _row(
    device: int, devices: int, chunks: int, micro_batches: int, in_a_row: int
) -> tuple[Action, ...]:
    total = chunks * micro_batches
    warm_up = min(total, (chunks - 1) * in_a_row + 2 * (devices - 1 - device))
    row: list[Action] = []
    counts: Counter[tuple[int, Kind]] = Counter()

    def add(kind: Kind, step: int) -> None:
        chunk = step // in_a_row % chunks
        if kind == Kind.BACKWARD:
            chunk = chunks - 1 - chunk
        stage = chunk * devices + device
        row.append(Action(stage, kind, counts[stage, kind]))
        counts[stage, kind] += 1

    for step in range(total + warm_up):
        if step < total:
            add(Kind.FORWARD, step)
        if step >= warm_up:
            add(Kind.BACKWARD, step - warm_up)
    return tuple(row)
