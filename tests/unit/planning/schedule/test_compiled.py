from importlib import import_module
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.planning.schedule import compiled, orders
from geotrain.planning.schedule.compiled import PLAIN, Engine
from geotrain.planning.schedule.compiled_patterns import Patterns
from geotrain.planning.schedule.compiled_programs import Fast
from geotrain.planning.schedule.costs import Costs, Hop, StageCosts
from geotrain.planning.schedule.timeline import program, replay
from support.planning import pipeline, wan

TIMES = st.one_of(st.integers(0, 5).map(float), st.floats(0, 5))


def interpreted():
    """An engine on numpy's arrays whose compiler leaves functions as they are."""
    return Engine(import_module("numpy"), SimpleNamespace(njit=lambda **_: lambda kernel: kernel))


@pytest.fixture(scope="module", params=["lists", "arrays", "compiled"])
def engine(request):
    if request.param == "lists":
        return PLAIN
    if request.param == "arrays":
        return interpreted()
    pytest.importorskip("numba", reason="numba is not installed (the extra 'fast')")
    return compiled.best()


@st.composite
def cases(draw):
    stages, replicas = draw(st.integers(1, 4)), draw(st.integers(1, 3))

    def stage():
        early = draw(TIMES)
        return StageCosts(
            1, draw(TIMES), early + draw(TIMES), draw(TIMES), step=draw(TIMES), early=early
        )

    def hops():
        return tuple(
            wan(draw(TIMES), draw(TIMES), replicas=replicas)
            if draw(st.booleans())
            else Hop(draw(TIMES), draw(TIMES))
            for _ in range(stages - 1)
        )

    costs = Costs(tuple(stage() for _ in range(stages)), hops(), hops())
    depths = sorted(draw(st.lists(st.integers(1, 6), min_size=stages, max_size=stages)))[::-1]
    return costs, depths, draw(st.integers(1, 12)), replicas


@given(case=cases(), representative=st.booleans())
def test_kernels_replay_as_plain_python_does_to_the_last_bit(engine, case, representative):
    costs, depths, micro_batches, replicas = case
    ready = program(orders.with_depths(depths, micro_batches))
    full = replay(ready, costs, replicas, representative=representative)
    fast = Fast(engine, ready).replay(costs, replicas, representative=representative)
    assert (fast.period, fast.steps) == (full.period, full.steps)
    assert (list(fast.ends), list(fast.sent)) == (full.ends, full.sent)
    assert fast.compute(0, 0) == full.compute(0, 0)
    patterns = Patterns(engine, costs, full.lanes)
    assert patterns.period(depths, micro_batches, skip=False) == full.period
    assert patterns.period(depths, micro_batches) == pytest.approx(full.period, rel=1e-9)


@given(case=cases(), more=st.integers(30, 120))
def test_leaving_out_cycles_changes_nothing(case, more):
    costs, depths, micro_batches, replicas = case
    lanes = replicas if any(hop.shared for hop in costs.hops) else 1
    patterns, count = Patterns(PLAIN, costs, lanes), micro_batches + more
    full = patterns.period(depths, count, skip=False)
    assert patterns.period(depths, count) == pytest.approx(full, rel=1e-9)


def test_a_thousand_million_micro_batches_take_no_longer_than_the_warm_up():
    patterns = Patterns(PLAIN, pipeline(2, {0: wan(0.5, 7.0)}), 1)
    periods = [patterns.period([2, 1], m) for m in (1_000, 1_002, 10**9)]
    each_two = periods[1] - periods[0]
    assert periods[2] == pytest.approx(periods[0] + (10**9 - 1_000) / 2 * each_two)


def test_depths_that_grow_are_refused():
    with pytest.raises(ValueError, match=r"the depths \[1, 2\] grow along the pipeline"):
        Patterns(PLAIN, pipeline(2), 1).period([1, 2], 4)


def test_the_engine_is_what_is_installed():
    def nothing(name):
        raise ImportError(name)

    assert compiled.load(nothing) is PLAIN
    assert compiled.load(lambda name: name) == Engine("numpy", "numba")
    assert compiled.engine(compiled.WORTH_COMPILING - 1) is PLAIN
    assert compiled.engine(compiled.WORTH_COMPILING) is compiled.best()
    assert not PLAIN.is_compiled
    assert interpreted().is_compiled


def test_machine_code_is_kept_only_where_there_is_a_folder_for_it():
    asked = []

    def njit(**options):
        asked.append(options)
        if options.get("cache"):
            raise RuntimeError("no locator available")
        return lambda kernel: kernel

    engine = Engine(import_module("numpy"), SimpleNamespace(njit=njit))
    kernel = engine.kernel(interpreted)
    assert kernel.__code__ is interpreted.__code__
    assert engine.kernel(interpreted) is kernel
    assert asked == [{"nogil": True, "cache": True}, {"nogil": True}]
