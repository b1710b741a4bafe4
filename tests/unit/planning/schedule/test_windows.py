from itertools import pairwise

import pytest

from geotrain.planning.schedule import costs, orders
from geotrain.planning.schedule.timeline import program, replay
from geotrain.planning.schedule.windows import traffic
from support.planning import links, placement, profile, topology, workload

PLACES = topology(
    {"a": 8, "b": 8},
    links(("a", "b"), capacity=100e6, per_pod_capacity=50e6, reservable=0.9, round_trip=0.02),
)


def sent(sharing, data=2, micro_batches=3, boundary=1_000_000, stages=(1, 1), **values):
    where = placement(("a", stages[0]), ("b", stages[1]), data=data)
    values = {"profile": profile(2, boundary), **values}
    work = workload(pipeline=2, sharing=sharing, **values)
    cost = costs.costs(PLACES, work, where, (1,) * sum(stages))
    return traffic(replay(program(orders.gpipe(sum(stages), micro_batches)), cost, data), where)


def test_in_turns_a_flow_uses_its_mates_and_windows_do_not_overlap():
    found = sent("Temporal")
    assert [(f.id, f.source, f.target, f.mates) for f in found.flows] == [
        (1, 0, 2, (1,)),
        (2, 1, 3, (0,)),
        (3, 2, 0, (3,)),
        (4, 3, 1, (2,)),
    ]
    assert {(f.source_data_center, f.target_data_center) for f in found.flows[:2]} == {("a", "b")}
    forward = sorted((w.offset, w.offset + w.length) for w in found.windows if w.flow < 3)
    assert all(b[0] >= a[1] - 1e-9 for a, b in pairwise(forward))


def test_side_by_side_windows_merge_where_messages_follow_each_other():
    found = sent("Spatial")
    assert all(flow.mates == () for flow in found.flows)
    assert [w.flow for w in found.windows if w.flow <= 2] == [1, 2]
    first = found.windows[0]
    assert first.length == pytest.approx(3 * 1_000_000 * 8 / 45e6)
    assert [t.label for t in found.transfers[1]] == ["0SEND_F0", "0SEND_F1", "0SEND_F2"]


def test_borrowed_paths_are_those_of_all_ranks_of_the_senders_data_centre():
    found = sent("Temporal", stages=(2, 1), borrowed_paths=True, profile=profile(3))
    assert [(f.source, f.target, f.mates) for f in found.flows] == [
        (2, 4, (0, 1, 3)),
        (3, 5, (0, 1, 2)),
        (4, 2, (5,)),
        (5, 3, (4,)),
    ]
    alone = sent("Temporal", data=1, stages=(2, 1), borrowed_paths=True, profile=profile(3))
    assert [(f.source, f.mates) for f in alone.flows] == [(1, (0,)), (2, ())]
    last = sent("Temporal", data=1, stages=(1, 2), borrowed_paths=True, profile=profile(3))
    assert [(f.source, f.mates) for f in last.flows] == [(0, ()), (1, (2,))]


@pytest.mark.parametrize("stages", [(1, 1), (1, 3)])
@pytest.mark.parametrize("sharing", ["Spatial", "Temporal"])
def test_rates_never_exceed_what_the_link_may_hand_out(sharing, stages):
    layers = profile(sum(stages))
    found = sent(sharing, data=4, stages=stages, borrowed_paths=stages != (1, 1), profile=layers)
    flows = {flow.id: flow for flow in found.flows}
    for direction in ("a", "b"):
        own = [f for f in found.flows if f.source_data_center == direction]
        for window in found.windows:
            if window.flow not in {f.id for f in own}:
                continue
            middle = window.offset + window.length / 2
            open_now = [
                w.flow for w in found.windows
                if flows[w.flow] in own and w.offset <= middle < w.offset + w.length
            ]  # fmt: skip
            paths = 1 + len(flows[window.flow].mates)
            handed_out = sum(flows[f].rate * paths for f in open_now)
            idle = sum(f.idle_rate * paths for f in own if f.id not in open_now)
            assert handed_out + (idle if paths > 1 else 0) <= 0.9 * 100e6 * (1 + 1e-9)


def test_inside_a_data_centre_there_are_no_flows():
    where = placement(("a", 2), data=2)
    work = workload(profile=profile(2), pipeline=2)
    cost = costs.costs(PLACES, work, where, (1, 1))
    found = traffic(replay(program(orders.gpipe(2, 3)), cost, 2), where)
    assert (found.flows, found.windows, found.transfers) == ((), (), {})


def test_messages_that_take_no_time_still_have_a_window_each():
    assert len(sent("Temporal", boundary=0).windows) >= 4
