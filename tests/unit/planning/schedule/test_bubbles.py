from geotrain.model.plan import Bubble
from geotrain.planning.schedule import orders
from geotrain.planning.schedule.bubbles import bubbles, busy_seconds
from geotrain.planning.schedule.costs import Costs, Hop, StageCosts
from geotrain.planning.schedule.timeline import program, replay
from support.planning import pipeline, wan


def test_bubbles_are_the_gaps_of_each_rank_within_the_period():
    timeline = replay(program(orders.gpipe(2, 1)), pipeline(2, {0: wan(1.0, 1.0)}), 2)
    assert timeline.period == 10.0
    assert bubbles(timeline) == (
        Bubble(0, 1.0, 8.0),
        Bubble(1, 1.0, 8.0),
        Bubble(2, 0.0, 3.0),
        Bubble(2, 6.0, 10.0),
        Bubble(3, 0.0, 3.0),
        Bubble(3, 6.0, 10.0),
    )
    assert busy_seconds(timeline) == 12.0


def test_a_recompute_that_starts_early_comes_before_the_wait_for_its_gradient():
    early = pipeline(2, {0: wan(1.0, 1.0)}, early=0.5)
    timeline = replay(program(orders.gpipe(2, 1)), early, 1)
    assert timeline.period == 9.5
    assert [(b.begin, b.end) for b in bubbles(timeline) if b.rank == 0] == [(1.5, 8.0)]
    late = replay(program(orders.gpipe(2, 1)), pipeline(2, {0: wan(0.0, 0.0)}, early=0.5), 1)
    assert [(b.begin, b.end) for b in bubbles(late) if b.rank == 0] == [(1.5, 4.0)]


def test_a_step_that_reaches_into_the_next_period_is_no_bubble_there():
    one, last = StageCosts(1, 1.0, 1.0, 1.0), StageCosts(1, 1.0, 1.0, 1.0, step=4.0)
    costs = Costs((one, last), (Hop(0, 1.5),), (Hop(0, 0.0),))
    timeline = replay(program(orders.gpipe(2, 1)), costs, 1)
    assert timeline.period == 7.5
    assert timeline.steps[1] == (5.5, 9.5)
    assert [(b.begin, b.end) for b in bubbles(timeline) if b.rank == 1] == [(2.0, 2.5)]


def test_where_nothing_takes_time_nobody_waits():
    assert bubbles(replay(program(orders.gpipe(2, 1)), pipeline(2, None, 0.0, 0.0), 1)) == ()
