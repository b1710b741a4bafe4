"""Flows over the wide area, and the windows of the iteration in which each owns its paths.

Every replica has one flow for each direction of each boundary that crosses data centres. Its
windows are its transfers in the replay, merged where one follows another at once. In turns the
flow uses its mates' paths too, so the windows of a cell never overlap; side by side each flow has
its own share. In both cases the rates of all windows and the idle rates outside them stay within
what the link may hand out, because ``costs`` made the transfers with those very rates.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, pairwise

from geotrain.model.plan import Flow, Interval, Placement, Window
from geotrain.planning.schedule.costs import IDLE_SHARE, Hop
from geotrain.planning.schedule.layouts import Layout
from geotrain.planning.schedule.timeline import Timeline
from geotrain.units import Seconds

_CONTIGUOUS = 1e-9


@dataclass(frozen=True, slots=True)
class Traffic:
    """All flows of a job, their windows, and by flow the messages in the replay."""

    flows: tuple[Flow, ...]
    windows: tuple[Window, ...]
    transfers: dict[int, tuple[Interval, ...]]


def traffic(timeline: Timeline, placement: Placement) -> Traffic:
    """Flows are numbered from 1: forward hops first, by stage, then by replica."""
    ids = count(1)
    flows, windows, transfers = [], [], {}
    for hop, ends in enumerate(_ends(timeline.program.layout)):
        if timeline.costs.hops[hop].crosses_wan:
            for replica in range(timeline.replicas):
                flow = _flow(next(ids), timeline.costs.hops[hop], placement, ends, replica)
                sent = timeline.transfers(hop, replica)
                flows.append(flow)
                transfers[flow.id] = sent
                windows += [Window(flow.id, b, e - b, flow.rate) for b, e in _merged(sent)]
    return Traffic(tuple(flows), tuple(windows), transfers)


def _ends(layout: Layout) -> Iterator[tuple[int, int]]:
    """(sending device, receiving device) of every hop, in the order of ``Costs.hops``."""
    yield from pairwise(layout)
    yield from ((target, source) for source, target in pairwise(layout))


def _flow(number: int, hop: Hop, placement: Placement, ends: tuple[int, int], replica: int) -> Flow:
    source, target = (device * placement.data for device in ends)
    lent = [
        device * placement.data + other
        for device in ([ends[0]] if hop.lenders == 1 else _neighbours(placement, ends[0]))
        for other in (range(placement.data) if hop.shared else [replica])
    ]
    return Flow(
        id=number,
        source=source + replica,
        target=target + replica,
        source_data_center=placement.data_center_of(ends[0]),
        target_data_center=placement.data_center_of(ends[1]),
        mates=tuple(rank for rank in lent if rank != source + replica),
        connections=hop.connections,
        rate=hop.rate,
        idle_rate=IDLE_SHARE * hop.rate / hop.paths,
    )


def _neighbours(placement: Placement, stage: int) -> list[int]:
    """The stages of a stage's data centre."""
    home = placement.data_center_of(stage)
    return [s for s in range(placement.stages) if placement.data_center_of(s) == home]


def _merged(sent: tuple[Interval, ...]) -> list[tuple[Seconds, Seconds]]:
    """The times of the messages, those that follow each other at once as one."""
    merged: list[tuple[Seconds, Seconds]] = []
    for interval in sent:
        if merged and interval.begin - merged[-1][1] <= _CONTIGUOUS:
            merged[-1] = (merged[-1][0], interval.end)
        else:
            merged.append((interval.begin, interval.end))
    return merged
