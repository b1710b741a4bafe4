"""Devices that run several stages: the same lowering, checks and replay."""

from itertools import pairwise
from pathlib import Path

import pytest

from geotrain.errors import InputError
from geotrain.model.plan import Action, Interval, Kind, Placement
from geotrain.planning.schedule import checks, layouts, orders
from geotrain.planning.schedule.actions import compute_only, read_order, write_order
from geotrain.planning.schedule.bubbles import bubbles, busy_seconds
from geotrain.planning.schedule.costs import Costs, Hop, StageCosts
from geotrain.planning.schedule.dependencies import rendezvous
from geotrain.planning.schedule.lowering import lower
from geotrain.planning.schedule.timeline import program, replay
from geotrain.planning.schedule.windows import traffic
from support.planning import wan

DATA = Path(__file__).parents[1] / "data"
ZERO_BUBBLE = "zb1p_2rank_2stagep_compute.csv"
DUAL_PIPE = "dualpipev_4rank_10mb.csv"


def chunked(layout, hop, **values):
    """One second for each of F, I and W; ``hop`` between devices."""
    ends = list(pairwise(layout))
    hops = tuple(Hop(0, 0) if a == b else hop for a, b in ends)
    return Costs((StageCosts(1, 1.0, 1.0, 1.0, **values),) * len(layout), hops, hops, layout)


def test_layouts_say_the_device_of_each_stage():
    assert layouts.one_stage_each(3) == (0, 1, 2)
    assert layouts.interleaved(2, 3) == (0, 1, 0, 1, 0, 1)
    assert layouts.v_shape(3) == (0, 1, 2, 2, 1, 0)


def test_costs_know_their_devices():
    assert chunked(layouts.v_shape(3), Hop(0, 0)).devices == 3
    assert Costs((StageCosts(1, 1.0, 1.0, 1.0),) * 2, (), ()).devices == 2


def test_an_order_shows_its_layout():
    assert layouts.layout_of(orders.gpipe(3, 1)) == (0, 1, 2)
    assert layouts.layout_of(((), ())) == (0, 1)
    assert layouts.layout_of(read_order((DATA / ZERO_BUBBLE).read_text())) == (0, 1, 0, 1)
    assert layouts.layout_of(read_order((DATA / DUAL_PIPE).read_text())) == layouts.v_shape(4)


@pytest.mark.parametrize("name", [ZERO_BUBBLE, DUAL_PIPE])
def test_schedules_of_pytorch_are_sound_and_finish_where_sends_block(name):
    order = read_order((DATA / name).read_text())
    assert checks.problems(order) == []
    lowered = lower(order)
    assert checks.problems(lowered) == []
    assert compute_only(lowered) == order
    assert read_order(write_order(order)) == order


def test_the_messages_of_pytorch_are_ours():
    lowered = read_order((DATA / "zb1p_2rank_2stagep_comms.csv").read_text())
    assert checks.problems(lowered) == []
    ours = lower(compute_only(lowered))
    assert [sorted(row) for row in ours] == [sorted(row) for row in lowered]


def test_within_a_device_nothing_is_sent():
    order = read_order("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n")
    lowered = lower(order)
    assert write_order(lowered) == (
        "0F0,0SEND_F0,3RECV_F0,3F0,3B0,3SEND_B0,0RECV_B0,0B0\n"
        "1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2B0,1B0,1SEND_B0\n"
    )
    assert checks.problems(lowered) == []
    timeline = replay(program(order), chunked((0, 1, 1, 0), wan(2.0, 0.5)), 1, iterations=1)
    assert timeline.transfers(1, 0) == ()
    assert timeline.transfers(0, 0) == (Interval("0SEND_F0", 1.0, 3.0),)
    assert timeline.compute(1, 0)[:2] == (Interval("1F0", 3.5, 4.5), Interval("2F0", 4.5, 5.5))


def test_hops_between_the_same_devices_share_their_link():
    """Stages 0 and 2 are on device 0; both send forwards to device 1."""
    layout = layouts.interleaved(2, 2)
    order = read_order("0F0,2F0,2B0,0B0\n1F0,3F0,3B0,1B0\n")
    ready = program(order)
    assert ready.links == (0, 1, 0, 1, 0, 1)
    for replicas in (1, 2):
        timeline = replay(ready, chunked(layout, wan(0.5, 0.0, replicas=replicas)), replicas)
        sent = sorted(
            (t.begin, t.end)
            for hop in (0, 2, 4)
            for replica in range(replicas)
            for t in timeline.transfers(hop, replica)
        )
        assert len(sent) == 3 * replicas
        assert all(b[0] >= a[1] - 1e-9 for a, b in pairwise(sent))


def test_busy_time_and_bubbles_of_chunks_make_up_the_period():
    order = read_order((DATA / DUAL_PIPE).read_text())
    costs = chunked(layouts.v_shape(4), wan(0.25, 0.5), all_reduce=0.5, step=0.25)
    timeline = replay(program(order), costs, 2)
    waits = sum(bubble.end - bubble.begin for bubble in bubbles(timeline))
    ends = 8 * 2 * 0.5  # all-reduces
    assert busy_seconds(timeline) + waits + ends == pytest.approx(8 * timeline.period)
    assert {bubble.rank for bubble in bubbles(timeline)} == set(range(8))


def test_flows_run_between_the_devices_of_their_stages():
    order = read_order("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n")
    timeline = replay(program(order), chunked((0, 1, 1, 0), wan(2.0, 0.5)), 1)
    sent = traffic(timeline, Placement((("a", 1), ("b", 1)), 1))
    assert [(f.source, f.target, f.source_data_center) for f in sent.flows] == [
        (0, 1, "a"),
        (1, 0, "b"),
        (1, 0, "b"),
        (0, 1, "a"),
    ]


def test_what_needs_no_message_may_run_before_it_arrives():
    order = read_order("0F0,0B0\n1F0,1B0\n")
    plain = replay(program(order), chunked((0, 1), wan(1.0, 0.0)), 1)
    for replicas in (1, 2):
        costs = chunked((0, 1), wan(1.0, 0.0, replicas=replicas), early=0.5)
        early = replay(program(order), costs, replicas)
        last = early.compute(0, 0)[1]
        assert last.begin == pytest.approx(plain.compute(0, 0)[1].begin - 0.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0F0,2F0\n1F0,2B0\n", "line 2: 2B0 belongs to stage 2, which line 1 runs"),
        ("0F0,0F2\n1F0\n", "micro-batch 1 is on no line, but micro-batch 2 is; number them from"),
        ("0F0,3F0\n1F0\n", "stage 2 is on no line, but stage 3 is; number them from 0"),
    ],
)
def test_rows_of_several_stages_must_hold_each_stage_once(text, message):
    with pytest.raises(InputError, match=message):
        read_order(text)


def test_faults_of_chunked_orders_name_the_rank():
    order = read_order("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n")
    (first, second) = order
    moved = (first, (*second, first[-1]))
    assert checks.problems(moved)[0].sentence == (
        "rank 1, step 4: 0B0 is on rank 1, but stage 0 runs on 0"
    )
    assert "rank 1" in checks.problems(moved)[0].grid
    assert checks.problems((first, ()))[0].sentence == "rank 0, step 0: stage 1 is on no rank"
    assert checks.problems((*order, ()))[0].sentence == (
        "rank 2, step 0: it runs no stage; leave its row out"
    )
    stuck = (tuple(reversed(first[:2])) + first[2:], second)
    assert checks.problems(stuck)[0].sentence == (
        "rank 0, step 0: the order deadlocks: 3F0 waits for micro-batch 0 of stage 2"
    )
    assert checks.problems(order, [1, 2])[0].sentence == (
        "rank 0, step 1: 3F0 is one micro-batch more than the 1 that memory holds"
    )


def test_a_message_for_a_stage_that_is_on_no_row_meets_nobody():
    row = read_order("0F0,2F0\n1F0,3F0\n")[0]
    order = ((*row, Action(0, Kind.SEND_FORWARD, 0)), ())
    assert rendezvous(order) == (1, 0)
    assert rendezvous(((row[0], Action(0, Kind.SEND_FORWARD, 0), row[1]), ())) == (1, 0)
