from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.planning.costs import collectives
from geotrain.planning.costs import tiers as costs
from geotrain.planning.costs.calibrations import Node
from geotrain.planning.explore.network import (
    Exchange,
    Network,
    Ring,
    Tier,
    Transport,
    all_to_all,
    best_all_to_all,
    best_ring,
    ring,
    way,
)
from support.exploring import machine

FULL = Transport("full", (1.0, 1.0, 1.0))


def test_a_ring_inside_a_node_uses_the_node_alone():
    found = ring(machine(), FULL, (2, 2, 2))
    assert found == Ring(2, 800e9, pytest.approx(1e-6))
    assert found.seconds(1e9) == pytest.approx(1e9 / 2 * 8 / 800e9 + 1e-6)


def test_a_group_of_one_sends_nothing():
    assert ring(machine(), FULL, (1, 1, 1)).seconds(1e9) == 0
    assert all_to_all(machine(), FULL, (1, 1, 1)).seconds(1e9) == 0


def test_an_aware_ring_leaves_each_building_once_and_borrows_the_uplink_of_its_members():
    wide = machine(units=(2, 8, 2), port=100e9)
    # eight members in a building of sixteen: one edge out, eight shares of 10 Gbit/s
    assert ring(wide, FULL, (1, 8, 16)).rate == 80e9
    # without ports above the share nothing can be borrowed
    assert ring(machine(units=(2, 8, 2)), FULL, (1, 8, 16)).rate == 10e9
    # never more than the port
    assert ring(machine(units=(2, 64, 2), port=100e9), FULL, (1, 64, 128)).rate == 100e9


def test_edges_of_an_oblivious_ring_share_the_uplink():
    wide = machine("oblivious", units=(2, 8, 2), port=100e9)
    # 8 x 8 / 15 of the edges of a building's eight members leave it
    assert ring(wide, FULL, (1, 8, 16)).rate == pytest.approx(10e9 * 15 / 8)


def test_latencies_add_up_along_an_aware_ring_and_are_a_mean_along_any_other():
    spread = (2, 4, 8)  # two a node, two nodes a building, two buildings
    aware = ring(machine(), FULL, spread).latency
    assert aware == pytest.approx((4 * 1e-6 + 2 * 1e-5 + 2 * 1e-3) * 7 / 8)
    oblivious = ring(machine("oblivious"), FULL, spread).latency
    assert oblivious == pytest.approx(1 * 1e-6 + 2 * 1e-5 + 4 * 1e-3)


def test_what_leaves_a_unit_bounds_an_exchange():
    found = all_to_all(machine(), FULL, (2, 4, 8))
    assert found == Exchange(pytest.approx(max(7 / 8 * 8 / 800e9, 3 / 4 * 8 / 100e9, 4 / 80e9 * 8)),
                             1e-3)  # fmt: skip


def test_stages_part_at_the_outermost_tier_in_which_they_differ():
    found = way(machine(), FULL, (2, 4, 8))
    rates = [border.rate for border in found.borders]
    assert rates == [800e9, 100e9, 800e9, 10e9, 800e9, 100e9, 800e9, 10e9]
    assert found.latency == pytest.approx(4 * 1e-6 + 2 * 1e-5 + 1e-3)
    assert found.per_bit == pytest.approx(4 / 800e9 + 2 / 100e9 + 1 / 10e9)


def test_one_stage_of_a_unit_uses_the_uplink_of_all():
    found = way(machine(units=(2, 4, 2), port=100e9), FULL, (1, 4, 8))
    assert found.borders[3].rate == 40e9


def test_a_pipeline_of_one_has_no_way():
    found = way(machine(), FULL, (1, 1, 1))
    assert (found.per_bit, found.latency, found.borders[0].rate) == (0, 0, inf)


spreads = st.tuples(*[st.sampled_from([1, 2, 3, 4])] * 3).map(
    lambda row: (row[0], row[0] * row[1], row[0] * row[1] * row[2])
)


@given(spreads, st.sampled_from(["aware", "oblivious"]), st.sampled_from([None, 100e9]))
def test_no_placement_beats_the_best(spread, rings, port):
    network = machine(rings, units=(4, 4, 4), port=port)
    for transport in network.transports:
        placed = ring(network, transport, spread).seconds(1e8)
        assert best_ring(network, network.transports, spread[-1]).seconds(1e8) <= placed + 1e-12
        exchanged = all_to_all(network, transport, spread).seconds(1e8)
        best = best_all_to_all(network, network.transports, spread[-1]).seconds(1e8)
        assert best <= exchanged + 1e-12


@given(spreads, st.sampled_from([None, 100e9]))
def test_knowing_the_buildings_never_costs_bandwidth(spread, port):
    aware = ring(machine("aware", units=(4, 4, 4), port=port), FULL, spread)
    oblivious = ring(machine("oblivious", units=(4, 4, 4), port=port), FULL, spread)
    if port:
        assert aware.rate >= oblivious.rate
    assert aware.latency <= oblivious.latency + 1e-12


INNER = Node(8, costs.Tier(costs.Constant(8e9)), costs.Tier(costs.Constant(1e9)))


def test_groups_inside_the_innermost_tier_exchange_as_a_plans_tensor_group_does():
    network = replace(machine(), inner=INNER)
    near = ring(network, FULL, (2, 2, 2))
    assert 2 * near.seconds(1e9) == collectives.all_reduce(1e9, 2, INNER.near)
    assert all_to_all(network, FULL, (2, 2, 2)).seconds(1e9) == pytest.approx(0.5)
    assert ring(network, FULL, (1, 2, 2)) == ring(machine(), FULL, (1, 2, 2))
    assert ring(network, FULL, (1, 1, 1)).seconds(1e9) == 0


@given(spreads, st.sampled_from(["aware", "oblivious"]))
def test_no_placement_beats_the_best_beside_an_inner_node(spread, rings):
    network = replace(machine(rings, units=(4, 4, 4)), inner=INNER)
    transports = network.transports
    placed = ring(network, transports[0], spread).seconds(1e8)
    assert best_ring(network, transports, spread[-1]).seconds(1e8) <= placed + 1e-12
    exchanged = all_to_all(network, transports[0], spread).seconds(1e8)
    best = best_all_to_all(network, transports, spread[-1]).seconds(1e8)
    assert best <= exchanged + 1e-12


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Tier("a", 0, 1e9, 0.0), "give at least 1"),
        (lambda: Tier("a", 2, 0.0, 0.0), "rate must be finite and above 0"),
        (lambda: Tier("a", 2, float("nan"), 0.0), "rate must be finite"),
        (lambda: Tier("a", 2, 1e9, -1.0), "latency must be finite"),
        (lambda: Tier("a", 2, 1e9, 0.0, 1e8), "not below the rate"),
        (lambda: Transport("t", (0.0,)), "no share"),
        (lambda: Transport("t", (1.0,), 2.0), "no share"),
        (lambda: Network((), (FULL,)), "at least one tier"),
        (lambda: Network((Tier("a", 2, 1e9, 0.0),), (FULL,)), "3 efficiencies for 1 tiers"),
    ],
)
def test_a_machine_that_cannot_be_is_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()
