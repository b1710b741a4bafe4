from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.model.plan import Plan
from geotrain.planning.placement import choose
from geotrain.planning.placement.robust import Jitter, percentile, unit
from geotrain.planning.schedule import orders
from geotrain.planning.schedule.timeline import program, replay
from support.planning import links, pipeline, topology, wan, workload

COSTS = pipeline(3, {0: wan(1.0, 2.0)}, step=0.5)


def plan(**values):
    places = topology({"a": 4, "b": 4}, links(("a", "b"), capacity=300e6))
    found = choose.choose(places, workload(data=None, global_batch=16), **values)
    assert isinstance(found, Plan)
    return found


@given(st.integers(0, 2**32), st.integers(0, 2**32))
def test_numbers_are_even_and_their_seeds_alone_decide_them(seed, counter):
    assert 0 <= unit(seed, counter) < 1
    assert unit(seed, counter) == unit(seed, counter)
    mean = sum(unit(seed, counter + i) for i in range(400)) / 400
    assert mean == pytest.approx(0.5, abs=0.1)


def test_every_replay_has_other_times_and_every_seed_other_replays():
    jitter = Jitter(0.2)
    drawn = [jitter.costs(COSTS, number) for number in range(40)]
    assert len(set(drawn)) == 40
    assert replace(jitter, seed=1).costs(COSTS, 0) != drawn[0]
    assert jitter.costs(COSTS, 0) == drawn[0]
    for cost in drawn:
        for stage, as_measured in zip(cost.stages, COSTS.stages, strict=True):
            assert 0.8 <= stage.forward / as_measured.forward < 1.2
            factor = stage.forward / as_measured.forward
            assert stage.backward == pytest.approx(factor * as_measured.backward)
        there, back = cost.forward[0], cost.backward[0]
        assert there.occupancy != back.occupancy
        assert 0.8 <= there.occupancy < 1.2


def test_no_jitter_changes_nothing():
    assert Jitter(0.0).costs(COSTS, 7) == COSTS


def test_the_percentile_is_the_nearest_rank():
    assert percentile([float(n) for n in range(20, 0, -1)]) == 19.0
    assert percentile([3.0]) == 3.0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"share": 1.0}, "jitter of 100% is not within 0 % and 100 %"),
        ({"share": -0.1}, "jitter of -10% is not"),
        ({"share": 0.1, "replays": 0}, "0 replays have no percentile; give at least 1"),
    ],
)
def test_what_is_no_jitter_is_refused(values, message):
    with pytest.raises(ValueError, match=message):
        Jitter(**values)


def test_plans_are_ranked_by_their_slow_replays():
    calm, shaken = plan(), plan(jitter=Jitter(0.3, replays=20))
    assert shaken.iteration >= calm.iteration
    assert "at the 95th percentile of 20 replays with 30% jitter" in shaken.notes[0]
    assert plan(jitter=Jitter(0.3, replays=20)) == shaken
    lost = [a.why for a in shaken.alternatives if a.why.startswith("with jitter")]
    assert lost
    assert all(" slower" in why or " no better" in why for why in lost)


def test_without_jitter_to_speak_of_the_best_plan_stays_the_best():
    shaken = plan(jitter=Jitter(0.0, replays=1))
    assert replace(shaken, notes=(), alternatives=()) == replace(plan(), notes=(), alternatives=())
    assert shaken.notes[0].endswith("and the best without jitter too")


def test_a_plan_that_is_better_only_while_nothing_differs_is_named():
    """1F1B just fills this pipeline; a deeper order of the same time survives slow links."""
    costs = pipeline(2, {0: wan(0.5, 0.0)})
    tight, deep = (program(orders.with_depths(d, 8)) for d in ([2, 1], [4, 2]))
    worst = [
        percentile([replay(p, Jitter(0.4).costs(costs, n), 1).period for n in range(40)])
        for p in (tight, deep)
    ]
    assert worst[1] <= worst[0]
