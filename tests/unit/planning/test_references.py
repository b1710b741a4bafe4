"""Published and measured configurations, replayed."""

from itertools import pairwise
from math import ceil

import pytest

from geotrain.model.plan import Plan
from geotrain.model.topology import DataCenter, Lan, Topology, WanLink
from geotrain.model.workload import LayerCosts, Profile, Workload
from geotrain.planning.placement.bounds import bound
from geotrain.planning.placement.choose import at, baseline, choose
from geotrain.planning.schedule import orders
from geotrain.planning.schedule.timeline import program, replay
from support.planning import pipeline, wan

pytestmark = pytest.mark.figures

# ATLAS: six stages over three data centres, forward = recompute = 1, backward 2, six micro-batches
# in flight, messages of 33.55 MB, 5 Gbit/s a pod pair, 40 ms. C is transfer / forward.
MESSAGE = 33_550_000
POD_RATE = 5e9
HELD = 6


def atlas(ratio, window, replicas, micro_batches=64, held=HELD, **values):
    """The data centres and the job."""
    forward = MESSAGE * 8 / POD_RATE / ratio
    wide = tuple(
        WanLink(s, t, 1e15, 0.04, window=window, per_pod_capacity=POD_RATE)
        for a, b in pairwise("abc")
        for s, t in ((a, b), (b, a))
    )
    places = Topology(tuple(DataCenter(n, 2 * replicas, lan=Lan(1e15, 0.0)) for n in "abc"), wide)
    job = Workload(
        Profile((LayerCosts(forward, forward, forward),) * 6, MESSAGE),
        pipeline=6,
        data=replicas,
        tensor=1,
        global_batch=micro_batches * replicas,
        memory_per_gpu=held * MESSAGE,
        early_recompute=True,
        **values,
    )
    return places, job


def atlas_plan(*arguments, **values):
    """The best of ATLAS's own orders, which keep weight gradients with the rest."""
    values = {"schedule": "Atlas", **values}
    best = choose(*atlas(*arguments, **values))
    assert isinstance(best, Plan)
    assert max(best.in_flight) <= values.get("held", HELD)
    return best


def atlas_speedup(ratio, window, replicas, **values):
    """1F1B over one connection, ÷ the best plan."""
    places, job = atlas(ratio, window, replicas, **values)
    best = atlas_plan(ratio, window, replicas, **values)
    plain = choose(places, at(baseline(job), best.placement))
    assert isinstance(plain, Plan)
    return plain.iteration / best.iteration


@pytest.mark.parametrize(
    ("ratio", "window", "least"),
    [
        (1, 1_500_000, 5.2),
        (2, 1_500_000, 8.4),
        (4, 1_500_000, 13.8),
        (8, 1_500_000, 17.4),
        (4, 840_000, 23.8),
        (4, 3_000_000, 7.4),
    ],
)
def test_atlas_speedup_over_one_connection(ratio, window, least):
    assert atlas_speedup(ratio, window, replicas=8) >= least


def test_atlas_speedup_with_the_paths_of_the_data_centres_other_stages():
    assert atlas_speedup(8, 1_500_000, replicas=8, borrowed_paths=True) >= 23.3


@pytest.mark.parametrize(
    ("replicas", "held", "least", "most"),
    [
        (4, 2, 1.38, 1.5),
        (4, 3, 1.38, 1.5),
        (4, 6, 1.35, 1.5),
        (8, 6, 1.39, 1.5),
        # With room in memory nobody waits for a transfer's end, and turns gain next to nothing.
        (4, 12, 1.0, 1.05),
    ],
)
def test_turns_pay_where_in_flight_memory_is_tight(replicas, held, least, most):
    """C = 4, M = 64: a link is as busy as the GPUs, so what counts is how long a message takes."""
    spatial, temporal = (
        atlas_plan(4, 1_500_000, replicas, held=held, sharing=sharing).iteration
        for sharing in ("Spatial", "Temporal")
    )
    assert least <= spatial / temporal <= most


@pytest.mark.parametrize(
    ("held", "borrowed", "least"),
    [(2, False, 1.49), (4, False, 1.38), (6, False, 1.36), (6, True, 1.45)],
)
def test_turns_pay_more_where_weight_gradients_run_apart(held, borrowed, least):
    """C = 4, M = 64, D = 4, GeoPipe's split orders on both sides."""
    values = {"replicas": 4, "held": held, "schedule": "GeoPipe"}
    spatial = atlas_plan(4, 1_500_000, sharing="Spatial", **values)
    temporal = atlas_plan(4, 1_500_000, borrowed_paths=borrowed, **values)
    assert least <= spatial.iteration / temporal.iteration <= 1.7


@pytest.mark.parametrize("latency", [0, 1, 2, 3, 6])
@pytest.mark.parametrize("transfer", [0.5, 1, 2])
@pytest.mark.parametrize("micro_batches", [16, 64])
def test_geopipes_warm_up_meets_the_bound(latency, transfer, micro_batches):
    """M(F+B) + (P-1)(F+B) + 2 x the sum of (L+S): P = 8, two cuts, F = 1, B = 2."""
    costs = pipeline(8, {1: wan(transfer, latency), 3: wan(transfer, latency)})
    extra = ceil(2 * (latency + transfer) / 3)
    order = orders.atlas(micro_batches, [64] * 8, orders.warm_up(8, {1: extra, 3: extra}))
    least = 3 * micro_batches + 7 * 3 + 2 * 2 * (latency + transfer)
    assert bound(costs, micro_batches) == pytest.approx(least)
    assert replay(program(order), costs, 1).period == pytest.approx(least)


@pytest.mark.parametrize("latency", [2, 3, 6])
def test_geopipes_bubble_cut_from_96_micro_batches_on(latency):
    costs = pipeline(8, {1: wan(1, latency), 3: wan(1, latency)})
    extra = ceil(2 * (latency + 1) / 3)
    warm = orders.atlas(96, [96] * 8, orders.warm_up(8, {1: extra, 3: extra}))
    plain = replay(program(orders.one_f_one_b(8, 96)), costs, 1).period
    best = replay(program(warm), costs, 1).period
    work = 96 * 3
    assert 1 - (best - work) / (plain - work) >= 0.7891


# Measured on three clusters joined by an emulated wide area: six stages over three data centres,
# one replica, F 10 ms, B 30 ms, messages of 500 kB, 50 Mbit/s a pod, 45 and 33 ms, windows of
# 16.3 kB, 2 to 4 ms a message inside a data centre; seconds an iteration of eight micro-batches
# under 1F1B by the number of connections.
MEASURED = {1: 16.3, 18: 1.93, 34: 1.82}


@pytest.mark.parametrize(("connections", "within"), [(1, 0.05), (18, 0.03), (34, 0.11)])
def test_measured_iterations(connections, within):
    """With 34 connections LAN hops, headers and late tasks remain, which are not in the costs."""
    wide = tuple(
        WanLink(s, t, 50e6, round_trip, window=16_300)
        for (a, b), round_trip in {("a", "b"): 0.045, ("b", "c"): 0.033}.items()
        for s, t in ((a, b), (b, a))
    )
    job = Workload(
        Profile((LayerCosts(0.01, 0.01, 0.01),) * 6, 500_000),
        pipeline=6,
        data=1,
        tensor=1,
        global_batch=8,
        placement="Fixed",
        fixed=(("a", 2), ("b", 2), ("c", 2)),
        schedule="OneFOneB",
        connections=connections,
    )
    centers = tuple(DataCenter(name, 2, lan=Lan(1e9)) for name in "abc")
    plan = choose(Topology(centers, wide), job)
    assert isinstance(plan, Plan)
    assert plan.iteration == pytest.approx(MEASURED[connections], rel=within)
