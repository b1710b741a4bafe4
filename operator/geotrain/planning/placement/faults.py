"""What in a job or a topology rules every placement out, in words for a person."""

from collections.abc import Iterator, Sequence
from typing import Final

from geotrain.model.decision import NoPlan, Reason
from geotrain.model.topology import DataCenter, Topology
from geotrain.model.workload import Workload

MOST_ACTIONS: Final = 2_000_000
"""Forwards and backwards of all ranks in one iteration that a plan may have: about half a minute,
and half a gibibyte."""


def shortage(centers: Sequence[DataCenter], workload: Workload, data: int) -> tuple[Reason, ...]:
    """Why the stages do not fit: first the whole, then each data centre that falls short."""
    needs = f"{stage_size(workload, data)} (tensor {workload.tensor} x data {data})"
    wanted = dict(workload.fixed) if workload.placement == "Fixed" else {}
    lacks = [
        _lack(center, wanted.get(center.name, 1), stage_size(workload, data), needs)
        for center in centers
    ]
    whole = f"{workload.pipeline} stages need {needs} GPUs each and do not fit: " + "; ".join(
        text for text, _ in lacks
    )
    details = [Reason(NoPlan.NO_FEASIBLE_PLACEMENT, text) for text, is_short in lacks if is_short]
    return (Reason(NoPlan.NO_FEASIBLE_PLACEMENT, whole), *details)


def _lack(center: DataCenter, wanted: int, size: int, needs: str) -> tuple[str, bool]:
    room = center.gpus // size
    free = f"{center.name} has {center.gpus} free GPUs"
    if not room:
        return f"{free} and one stage needs {needs}", True
    if room < wanted:
        return f"{free}, room for {room} of its {wanted} stages", True
    return f"{free}, room for {room} stages", False


def stage_size(workload: Workload, data: int) -> int:
    """GPUs of one stage."""
    return workload.tensor * data


def faults(topology: Topology, workload: Workload) -> tuple[Reason, ...]:
    """Everything that is wrong with the input itself."""
    return (*_parallelism(workload), *_unknown(topology, workload))


def _parallelism(workload: Workload) -> Iterator[Reason]:
    layers = len(workload.profile.layers)
    least = min(
        workload.pipeline, workload.tensor, workload.global_batch, workload.micro_batch,
        *((workload.data,) if workload.data is not None else ()),
        *((workload.connections,) if workload.connections is not None else ()),
    )  # fmt: skip
    if least < 1:
        yield Reason(
            NoPlan.INVALID_PARALLELISM,
            f"pipeline, tensor, data, batch and connections must be at least 1; one is {least}",
        )
    elif workload.pipeline > layers:
        yield Reason(
            NoPlan.INVALID_PARALLELISM,
            f"{layers} layers cannot make {workload.pipeline} stages; every stage needs a layer",
        )
    elif workload.data is not None and not workload.micro_batches(workload.data):
        yield indivisible(workload)
    else:
        yield from _too_long(workload)
    fixed = sum(count for _, count in workload.fixed)
    if workload.placement == "Fixed" and fixed != workload.pipeline:
        yield Reason(
            NoPlan.INVALID_PARALLELISM,
            f"the placement fixes {fixed} stages, but the pipeline has {workload.pipeline}",
        )


def _too_long(workload: Workload) -> Iterator[Reason]:
    """Whether even the shortest iteration has too many actions to replay."""
    count = actions(workload, workload.data or workload.global_batch // workload.micro_batch or 1)
    if count > MOST_ACTIONS:
        yield Reason(
            NoPlan.INVALID_PARALLELISM,
            f"a global batch of {workload.global_batch} sequences makes {count} forwards and "
            f"backwards of all ranks, and a plan has at most {MOST_ACTIONS}; use larger "
            "micro-batches or a smaller batch (it counts sequences, not tokens)",
        )


def actions(workload: Workload, data: int) -> int:
    """Forwards and backwards of all ranks in one iteration."""
    return 2 * workload.pipeline * workload.micro_batches(data) * data


def indivisible(workload: Workload) -> Reason:
    """No degree divides the batch."""
    degree = "any degree that fits" if workload.data is None else f"{workload.data} replicas"
    return Reason(
        NoPlan.INVALID_PARALLELISM,
        f"a global batch of {workload.global_batch} samples does not divide into micro-batches of "
        f"{workload.micro_batch} on {degree}",
    )


def _unknown(topology: Topology, workload: Workload) -> Iterator[Reason]:
    if not topology.data_centers:
        yield Reason(NoPlan.NO_DATA_CENTERS, "no data centre is known")
        return
    known = ", ".join(sorted(center.name for center in topology.data_centers))
    names = [name for name, _ in workload.fixed] if workload.placement == "Fixed" else []
    for name in dict.fromkeys([*workload.allowed, *names]):
        if topology.data_center(name) is None:
            yield Reason(
                NoPlan.UNKNOWN_DATA_CENTER, f"there is no data centre {name!r}; known: {known}"
            )
