from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.errors import InputError
from geotrain.planning.schedule import checks, orders
from geotrain.planning.schedule.actions import read_order
from geotrain.planning.schedule.bubbles import bubbles, busy_seconds
from geotrain.planning.schedule.costs import Costs, Hop, StageCosts
from geotrain.planning.schedule.timeline import program, replay
from support.planning import pipeline, wan

TIMES = st.floats(0, 5)
ALONE = st.just(1)


def test_a_pipeline_without_communication_takes_m_plus_p_minus_one_slots():
    for order in (orders.gpipe(4, 6), orders.one_f_one_b(4, 6)):
        assert replay(program(order), pipeline(4), 1).period == pytest.approx((6 + 4 - 1) * 3)


def test_transfers_queue_on_their_link_and_latency_follows_the_last_byte():
    timeline = replay(program(orders.gpipe(2, 3)), pipeline(2, {0: wan(2.0, 5.0)}), 1)
    assert [(t.label, t.begin, t.end) for t in timeline.transfers(0, 0)] == [
        ("0SEND_F0", 1.0, 3.0),
        ("0SEND_F1", 3.0, 5.0),
        ("0SEND_F2", 5.0, 7.0),
    ]
    assert [(i.label, i.begin, i.end) for i in timeline.compute(1, 0)][:3] == [
        ("1F0", 8.0, 9.0),
        ("1F1", 10.0, 11.0),
        ("1F2", 12.0, 13.0),
    ]
    assert [t.label for t in timeline.transfers(1, 0)] == ["1SEND_B0", "1SEND_B1", "1SEND_B2"]


def test_split_backwards_send_the_input_gradient_first():
    order = read_order("0F0,0I0,0W0\n1F0,1I0,1W0\n")
    timeline = replay(program(order), pipeline(2, {0: wan(1.0, 0.0)}), 1)
    assert [(t.label, t.begin) for t in timeline.transfers(1, 0)] == [("1SEND_B0", 4.0)]
    assert timeline.period == 7.0


def test_replicas_take_turns_by_micro_batch_and_then_replica():
    timeline = replay(program(orders.gpipe(2, 2)), pipeline(2, {0: wan(2.0, 0.0, replicas=2)}), 2)
    first, second = (timeline.transfers(0, replica) for replica in (0, 1))
    assert [(t.begin, t.end) for t in first] == [(1.0, 3.0), (5.0, 7.0)]
    assert [(t.begin, t.end) for t in second] == [(3.0, 5.0), (7.0, 9.0)]
    assert timeline.lanes == 2


def test_replicas_side_by_side_are_alike():
    timeline = replay(program(orders.gpipe(2, 2)), pipeline(2, {0: wan(2.0, 0.0)}), 3)
    assert timeline.lanes == 1
    assert timeline.compute(1, 2) == timeline.compute(1, 0)


def test_all_reduce_and_step_end_an_iteration_and_the_next_starts_after_them():
    costs = pipeline(2, all_reduce=0.5, step=0.25)
    timeline = replay(program(orders.gpipe(2, 2)), costs, 2)
    assert timeline.steps == ((9.0, 9.75), (7.0, 7.75))
    assert timeline.period == 9.75


def test_a_later_stage_that_is_still_busy_delays_the_next_iteration():
    """The last stage steps for 20 s, far beyond the end of stage 0, which thus waits for it."""
    one, last = StageCosts(1, 1.0, 1.0, 1.0), StageCosts(1, 1.0, 1.0, 1.0, step=20.0)
    costs = Costs((one, last), (Hop(0, 0),), (Hop(0, 0),))
    timeline = replay(program(orders.gpipe(2, 1)), costs, 1)
    # Its own iteration repeats: F and B of 3 s, then 20 s; stage 0 ends 2 s after that B.
    assert timeline.period == pytest.approx(23.0)
    assert timeline.compute(1, 0)[0].begin == pytest.approx(23.0 - 2.0 - 3.0)


def steps_that_outlast_the_iteration():
    first, last = StageCosts(1, 0.0, 3.0, 0.0), StageCosts(1, 0.0, 0.0, 0.0, step=10.0)
    return program(orders.one_f_one_b(2, 2)), Costs((first, last), (Hop(2, 0),), (Hop(2, 0),))


def test_iterations_that_alternate_count_with_their_mean_and_the_slowest_is_shown():
    ready, costs = steps_that_outlast_the_iteration()
    timeline = replay(ready, costs, 1)
    assert timeline.period == pytest.approx((10 + 12) / 2)
    assert timeline.steps[0][1] == pytest.approx(12)


def test_iterations_that_do_not_repeat_in_time_end_the_replay():
    ready, costs = steps_that_outlast_the_iteration()
    assert replay(ready, costs, 1, iterations=1).period == pytest.approx(10)


def test_a_deadlock_is_refused_with_the_grid():
    with pytest.raises(InputError, match=r"(?s)deadlocks.*>0B0<"):
        program(read_order("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n"))


@st.composite
def cases(draw, replicas=ALONE):
    stages = draw(st.integers(1, 4))
    count = draw(replicas)
    crossing = {b: wan(draw(TIMES), draw(TIMES), replicas=count) for b in range(stages - 1)}
    costs = pipeline(stages, crossing, draw(TIMES), draw(TIMES), step=draw(TIMES))
    depths = draw(st.lists(st.integers(1, 5), min_size=stages, max_size=stages))
    return orders.atlas(draw(st.integers(1, 6)), depths, [9] * stages), costs, count


@given(cases(st.integers(1, 4)))
def test_busy_time_and_bubbles_make_up_the_whole_period(case):
    order, costs, replicas = case
    timeline = replay(program(order), costs, replicas)
    waits = sum(bubble.end - bubble.begin for bubble in bubbles(timeline))
    ranks = len(order) * replicas
    assert busy_seconds(timeline) + waits == pytest.approx(ranks * timeline.period, abs=1e-6)


@given(cases(st.integers(1, 4)))
def test_a_link_carries_one_message_at_a_time(case):
    order, costs, replicas = case
    timeline = replay(program(order), costs, replicas)
    for hop in range(2 * (len(order) - 1)):
        sent = sorted((t.begin, t.end) for r in range(replicas) for t in timeline.transfers(hop, r))
        assert all(b[0] >= a[1] - 1e-9 for a, b in pairwise(sent))


@given(cases(st.integers(2, 4)))
def test_a_representative_replica_is_never_slower_than_all_of_them(case):
    order, costs, replicas = case
    ready = program(order)
    one = replay(ready, costs, replicas, representative=True).period
    assert one <= replay(ready, costs, replicas).period + 1e-9


@given(cases(st.integers(1, 3)), st.floats(0, 1))
def test_a_faster_link_never_makes_a_plan_slower(case, factor):
    order, costs, replicas = case
    faster = tuple(
        Hop(h.occupancy * factor, h.delay, h.rate, h.paths, h.connections, h.shared)
        for h in costs.forward
    )
    ready = program(order)
    sped_up = replay(ready, Costs(costs.stages, faster, costs.backward), replicas).period
    assert sped_up <= replay(ready, costs, replicas).period + 1e-9


@given(cases())
def test_memory_stays_within_the_depths(case):
    order, costs, _ = case
    assert max(checks.peak_in_flight(order)) <= 5
    timeline = replay(program(order), costs, 1)
    for stage, row in enumerate(order):
        assert [i.label for i in timeline.compute(stage, 0)] == [str(a) for a in row]
