"""Compute orders: integers in, the actions of every stage out.

All three are one pattern with a depth per stage, the most micro-batches in flight there: a stage
runs ``depth`` forwards, then a backward before each further forward ("backward first"), then the
backwards that are left.

==========  ============================  ==========================================
order       depth of stage s of P         source
==========  ============================  ==========================================
gpipe       M                             Huang et al., GPipe (arXiv 1811.06965)
one_f_one_b P - s                         Narayanan et al. (arXiv 2104.04473)
atlas       min(cap_s, P - s + extra_s)   ATLAS (arXiv 2411.14458), GeoPipe (2510.12064)
==========  ============================  ==========================================

``extra`` keeps the pipeline full while messages cross the wide area; ``cap`` is what memory
allows. A depth never grows along the pipeline: a stage that waited for more forwards than its
predecessor sends before a backward comes back would wait for ever.
"""

from collections.abc import Sequence
from itertools import accumulate

from geotrain.errors import InputError
from geotrain.model.plan import Action, Kind, Order


def gpipe(stages: int, micro_batches: int) -> Order:
    """All forwards, then all backwards."""
    return with_depths([micro_batches] * stages, micro_batches)


def one_f_one_b(stages: int, micro_batches: int) -> Order:
    """The shallowest order that keeps a pipeline without communication busy."""
    return with_depths(range(stages, 0, -1), micro_batches)


def atlas(micro_batches: int, caps: Sequence[int], extra: Sequence[int]) -> Order:
    """1F1B with ``extra[s]`` more forwards in flight at stage s, at most ``caps[s]`` in all."""
    return with_depths(atlas_depths(caps, extra), micro_batches)


def atlas_depths(caps: Sequence[int], extra: Sequence[int]) -> tuple[int, ...]:
    """The depths of ``atlas``: never above the cap, never growing along the pipeline."""
    stages, depths, least = len(caps), [], max(caps, default=0)
    for stage, (cap, more) in enumerate(zip(caps, extra, strict=True)):
        # A search calls this for every placement, so no calls of min in it.
        wanted = stages - stage + more
        least = cap if cap < least else least
        least = wanted if wanted < least else least
        depths.append(least)
    return tuple(depths)


def warm_up(stages: int, per_boundary: dict[int, int]) -> tuple[int, ...]:
    """Extra forwards of every stage when boundary b (after stage b) asks for ``per_boundary[b]``.

    A stage sees the round trips of all boundaries behind it, so their extras add up.
    """
    each = [per_boundary.get(stage, 0) for stage in range(stages)]
    return tuple(accumulate(reversed(each)))[::-1]


def with_depths(depths: Sequence[int], micro_batches: int) -> Order:
    """The pattern itself. Raises InputError where no stage or micro-batch is asked for."""
    if not depths or micro_batches < 1:
        raise InputError(
            f"a pipeline of {len(depths)} stages and {micro_batches} micro-batches is empty; "
            "give at least one of each"
        )
    if min(depths) < 1:
        raise InputError("a stage without room for one micro-batch cannot run; give more memory")
    return tuple(_row(stage, depth, micro_batches) for stage, depth in enumerate(depths))


def _row(stage: int, depth: int, micro_batches: int) -> tuple[Action, ...]:
    ahead = min(depth, micro_batches)
    row = [Action(stage, Kind.FORWARD, m) for m in range(ahead)]
    for m in range(ahead, micro_batches):
        row.append(Action(stage, Kind.BACKWARD, m - ahead))
        row.append(Action(stage, Kind.FORWARD, m))
    row += [Action(stage, Kind.BACKWARD, m) for m in range(micro_batches - ahead, micro_batches)]
    return tuple(row)
