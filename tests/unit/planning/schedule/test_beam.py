import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.planning.schedule import beam as beams
from geotrain.planning.schedule import checks
from geotrain.planning.schedule.beam import beam
from geotrain.planning.schedule.greedy import greedy
from geotrain.planning.schedule.lists import Rule, list_schedule
from geotrain.planning.schedule.shop import bounds, order_of, rows_of, shop, sweep
from support.optima import costs_of, drawn_small

SEEDS = st.integers(0, 4_999)


def small(seed, split=True):
    case = drawn_small(seed)
    return shop(costs_of(case), case["micro_batches"], case["caps"], split=split)


@given(SEEDS, st.booleans(), st.booleans())
def test_its_schedules_are_sound_within_memory_and_above_the_bound(seed, mirrored, split):
    place = small(seed, split)
    found = beam(place, 6, mirrored=mirrored)
    for rows in found:
        assert checks.problems(order_of(place, rows), place.caps) == []
        assert sweep(place, rows).makespan >= bounds(place)[0] - 1e-6


@given(SEEDS, st.sampled_from([Rule(), Rule(mirrored=True), Rule(filler=1.0, pending=2)]))
def test_what_a_part_of_a_schedule_can_become_is_never_bounded_above_what_it_becomes(seed, policy):
    place = small(seed)
    found = sweep(place, list_schedule(place, policy).rows)
    # On a link that several stages share messages may go in another order backwards in time.
    for mirrored in (False, True) if len(place.caps) == place.stages else (False,):
        graph = beams.graph_of(place, mirrored)
        state = beams.nothing_yet(place, graph)
        for code in found.steps[2][:: -1 if mirrored else 1]:
            arrivals = (state.queues[queue][0] for queue in graph.inputs[code])
            start = max([state.free[place.devices[code]], *arrivals])
            state = beams.after(place, graph, state, code, start)
            assert state.bound <= found.makespan + 1e-6
        assert set(state.done) == {place.micro_batches}


@pytest.mark.parametrize(
    ("seed", "optimum"),
    [(583, 441), (1841, 528), (1967, 494), (2012, 476), (3149, 428), (4706, 536)],
)
def test_it_finds_optima_that_swaps_of_neighbours_do_not(seed, optimum):
    """Of lists that are 2 to 3 % longer no two neighbours can change places for the better."""
    case = drawn_small(seed)
    place = small(seed)
    order = greedy(costs_of(case), case["micro_batches"], case["caps"])
    found = sweep(place, rows_of(order, place)).makespan
    assert found == optimum
    assert beam(place, 200, limit=found) == []


def test_nothing_is_below_the_limit_of_the_bound():
    place = small(0)
    assert beam(place, 50, limit=bounds(place)[0]) == []
