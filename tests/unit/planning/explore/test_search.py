import os
from dataclasses import replace

import pytest
from hypothesis import given as forall
from hypothesis import strategies as st

from geotrain.errors import InputError
from geotrain.planning.costs.memory import Recompute
from geotrain.planning.costs.shapes import Experts
from geotrain.planning.explore import bound
from geotrain.planning.explore.layouts import DEGREES, KNOBS, Degrees, Placement
from geotrain.planning.explore.report import explore
from geotrain.planning.explore.search import Allowance, Explorer, Space, fault, whole_space
from geotrain.planning.explore.steps import Book, layers_of, micro_batches, step
from support.exploring import device, given, layouts, machine, problem, random_problem

THOROUGH = os.environ.get("GEOTRAIN_THOROUGH") == "1"


def small_space(task, layout):
    """A space that can be replayed whole."""
    whole = whole_space(task, layout)
    return Space(
        tuple(each for each in whole.degrees if each.pipeline in (2, 4)),
        whole.placements[:4],
        (("OneFOneB", 1), ("Interleaved", 2)),
        (1, 2),
        (Recompute.NOTHING, Recompute.ALL),
        whole.transports,
    )


@pytest.mark.parametrize("rings", ["aware", "oblivious"])
def test_the_search_finds_what_replaying_everything_finds(rings):
    roomy = problem(machine(rings), layers=4, batch=16)
    space = small_space(roomy, given(roomy))
    explorer = Explorer(roomy, given(roomy))
    everything = [explorer.evaluate(each) for each in layouts(roomy, space)]
    fastest = min(everything, key=lambda each: each.seconds)
    assert explorer.best(space, Allowance())[0].seconds == fastest.seconds
    tight = replace(roomy, device=device(100e12, round(fastest.memory) - 1))
    fitting = {each.seconds for each in everything if each.memory <= tight.device.memory}
    found = Explorer(tight, given(tight)).best(space, Allowance())
    assert found[0].seconds == min(fitting)


@forall(st.integers(0, 10_000))
def test_no_replay_beats_its_bounds(seed):
    task, layout = random_problem(seed)
    explorer, book = Explorer(task, layout), Book(task.network)
    replayed = explorer.evaluate(layout).seconds
    table = explorer._table(layout.degrees, layout.placement)
    best = book.best(layout.degrees)
    bounds = (
        bound.of_step(
            step(task, layout, explorer._wires(layout.degrees, (layout.transport, table)))
        ),
        bound.of_layout(
            task, layout, micro_batches(task, layout), layers_of(task, layout, best), best
        ),
        bound.of_degrees(
            task,
            layout.degrees,
            [1, 2, 4, 8, layout.chunks],
            [1, 2, 4, 8],
            best,
        ),
    )
    assert replayed >= bounds[0] * (1 - 1e-9)
    assert bounds[0] >= bounds[1] * (1 - 1e-9)
    assert bounds[1] >= bounds[2] * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(200 if THOROUGH else 30))
def test_the_joint_optimum_is_never_worse_than_any_axis_alone(seed):
    task, layout = random_problem(seed)
    report = explore(task, layout, None if THOROUGH else Allowance(300))
    for turned in (*report.singles, report.degrees, *report.pairs):
        if turned.found is not None:
            assert set(turned.found.layout.differs(layout)) <= set(turned.knobs) | {"shard"}
            assert report.best[0].seconds <= turned.found.seconds
    for found in report.best:
        assert found.memory <= task.device.memory
        assert fault(task, found.layout) is None
    assert list(report.best) == sorted(report.best, key=lambda each: each.seconds)


def test_what_fits_nowhere_is_found_nowhere():
    task = problem(memory=10**6)
    report = explore(task, given(task))
    assert report.best == report.pairs == ()
    assert report.complete
    assert report.best_single is None
    assert not report.given_fits
    assert {each.found for each in report.singles} == {None}


def test_a_search_that_is_stopped_keeps_what_it_has():
    task = problem(machine(units=(2, 2, 1)), layers=4, batch=8)
    layout = given(task, data=1)
    whole = explore(task, layout)
    assert whole.complete
    assert whole.speedup(whole.best[0]) > 1
    steps = iter(range(60))
    stopped = explore(task, layout, Allowance(should_stop=lambda: next(steps, 60) == 60))
    assert not stopped.complete
    assert stopped.steps == 60 < whole.steps
    assert whole.best[0].seconds <= stopped.best[0].seconds <= stopped.given.seconds


def test_sharding_over_all_replicas_follows_their_number():
    task = problem()
    layout = given(task, tensor=1, pipeline=2, data=4, shard=4)
    space = whole_space(task, layout).only(layout, ["tensor"])
    assert {(each.tensor, each.data, each.shard) for each in space.degrees} == {
        (1, 4, 4), (2, 2, 2), (4, 1, 1),
    }  # fmt: skip


def test_only_what_is_free_varies():
    task = problem()
    layout = given(task)
    whole = whole_space(task, layout)
    assert whole.only(layout, KNOBS) == whole
    assert whole.only(layout, DEGREES).placements == (layout.placement,)
    assert whole.only(layout, []).degrees == (layout.degrees,)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"tensor": 4}, "is 16 devices and the network has 8"),
        ({"tensor": 1, "data": 4, "shard": 3}, "shard 3 does not divide data 4"),
        ({"expert": 2}, "no experts"),
        ({"tensor": 1, "data": 4, "expert": 3}, "expert 3 does not divide data 4"),
        ({"micro_batch": 3}, "does not divide the batch of 32"),
        ({"chunks": 2}, "Interleaved needs 2 or more chunks"),
        ({"schedule": "Interleaved", "chunks": 8}, "16 stages are more than 8 layers"),
        ({"transport": "pigeons"}, "no transport 'pigeons'"),
        (
            {"pipeline": 1, "data": 4, "schedule": "Interleaved", "chunks": 2},
            "nothing to interleave",
        ),
        (
            {"micro_batch": 16, "schedule": "Interleaved", "chunks": 2},
            r"micro-batches \(1\) in multiples of pipeline 2",
        ),
    ],
)
def test_a_given_layout_that_cannot_run_is_refused(changes, says):
    task = problem()
    with pytest.raises(InputError, match=f"the given layout cannot run: .*{says}"):
        Explorer(task, given(task, **changes))


@pytest.mark.parametrize(
    ("task", "degrees", "says"),
    [
        (problem(heads=12, kv_heads=4, hidden=768), Degrees(8), "12 heads"),
        (problem(sequence=1023), Degrees(context=8), "samples of 1023 tokens"),
        (problem(experts=Experts(4, 2, 64)), Degrees(8), "does not divide 4 experts"),
        (problem(batch=2**23), Degrees(data=4, pipeline=2), "micro-batches are more than 1000000"),
    ],
)
def test_a_model_that_cannot_be_split_so_is_refused(task, degrees, says):
    assert says in fault(task, replace(given(task), degrees=degrees))


def test_an_interleaved_iteration_too_long_to_replay_is_refused():
    task = problem(batch=2**17)
    layout = given(task, schedule="Interleaved", chunks=4)
    assert "65536 micro-batches interleaved in 8 stages are more than" in fault(task, layout)
    assert fault(task, given(task)) is None


def test_equal_machines_give_the_first_placement():
    task = problem(machine(units=(8, 1, 1)))
    found = Explorer(task, given(task)).best(whole_space(task, given(task)), Allowance())
    assert found[0].layout.placement == Placement()
