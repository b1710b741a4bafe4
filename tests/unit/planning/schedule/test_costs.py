import math
from dataclasses import replace

import pytest

from geotrain.model.plan import Kind
from geotrain.model.topology import Lan, MessageRates, WanLink
from geotrain.model.workload import LayerCosts, Profile
from geotrain.planning.costs import collectives
from geotrain.planning.costs.connections import connections
from geotrain.planning.costs.tiers import Constant, Tier
from geotrain.planning.schedule import costs
from support.planning import links, placement, profile, topology, workload

LAN = Lan(8e9, 0.001)

# 50 Mbit/s a pod and 45 ms need 281 kB in flight.
LINK = WanLink("a", "b", 100e6, 0.045, window=16_300, per_pod_capacity=50e6)


def stage(**values):
    layer = LayerCosts(0.01, 0.02, 0.03, activation=100, parameters=1000)
    made = Profile((layer, layer), boundary=10, optimizer_step=0.5, gradient_bytes_per_layer=10**6)
    values = {"layers": (2,), "recompute": False, **values}
    return costs.stage_costs(made, **values)[0]


def test_a_stage_costs_the_sum_of_its_layers():
    found = stage()
    assert found.seconds(Kind.FORWARD) == pytest.approx(0.02)
    assert found.seconds(Kind.INPUT_GRADIENT) == pytest.approx(0.04)
    assert found.seconds(Kind.WEIGHT_GRADIENT) == pytest.approx(0.06)
    assert found.seconds(Kind.BACKWARD) == pytest.approx(0.10)
    assert (found.held, found.fixed, found.all_reduce, found.step) == (200, 2000, 0.0, 0.5)


def test_recompute_repeats_the_forward_and_keeps_only_boundaries():
    found = stage(recompute=True)
    assert found.backward == pytest.approx(0.12)
    assert (found.held, found.fixed) == (20, 2100)


def test_a_ring_all_reduce_sends_every_gradient_almost_twice():
    assert costs.all_reduce(2 * 10**6, 4, 1, LAN) == pytest.approx(
        2 * 3 / 4 * 2e6 * 8 / 8e9 + 6 * 0.001
    )
    assert costs.all_reduce(2 * 10**6, 1, 1, LAN) == costs.all_reduce(0, 4, 1, LAN) == 0


@pytest.mark.parametrize("tensor", [2, 4, 8])
def test_the_rings_of_a_pods_gpus_share_what_the_pod_reaches(tensor):
    """Whatever the tensor degree, a pod's gradients are as many and go over the same links."""
    ends = 6 * LAN.latency
    alone = costs.all_reduce(8 * 10**6, 4, 1, LAN) - ends
    assert costs.all_reduce(8 * 10**6 // tensor, 4, tensor, LAN) - ends == pytest.approx(alone)
    far = Tier(Constant(LAN.rate), LAN.latency)
    assert costs.all_reduce(10**6, 4, tensor, LAN) == collectives.data_all_reduce(
        10**6, 4, tensor, tensor, far, far
    )


def test_memory_holds_what_is_left_beside_the_weights():
    found = stage()
    assert found.in_flight(2000 + 3 * 200 + 199) == 3
    assert found.in_flight(1999) < 1
    weightless = costs.StageCosts(1, 1.0, 1.0, 1.0, held=0, fixed=10)
    assert weightless.in_flight(10) > 10_000
    assert weightless.in_flight(9) == 0


@pytest.mark.parametrize(
    ("link", "wanted", "expected"),
    [
        (LINK, None, 36),
        (LINK, 3, 3),
        (WanLink("a", "b", 50e6, 0.040, window=250_000), None, 2),
        (WanLink("a", "b", 50e6, 0.040), None, 1),
        (WanLink("a", "b", 50e6, 0.0, window=16_300), None, 1),
    ],
)
def test_twice_the_connections_that_fill_a_path(link, wanted, expected):
    assert connections(link, wanted) == expected


def hop(connections=36, replicas=1, in_turns=False, link=LINK, size=500_000, near=LAN, far=LAN):
    return costs.wan_hop(link, near, far, size, connections, replicas=replicas, in_turns=in_turns)


def test_one_connection_carries_a_window_in_each_round_trip():
    found = hop(connections=1)
    assert found.rate == pytest.approx(16_300 * 8 / 0.045)
    assert found.occupancy == pytest.approx(500_000 / 16_300 * 0.045)


def test_enough_connections_reach_the_pod_rate_without_waiting():
    found = hop()
    assert (found.rate, found.occupancy, found.delay) == (50e6, pytest.approx(0.08), 0.0225)
    assert found.crosses_wan


def test_just_enough_connections_wait_for_the_last_window_as_measured():
    """18 connections on this path took 132 to 143 ms, a little LAN included, where 36 took 106."""
    found = hop(connections=18)
    assert 0.132 <= found.occupancy + found.delay + 0.004 <= 0.143


def test_a_message_within_the_first_windows_waits_for_no_acknowledgement():
    assert hop(connections=18, size=18 * 16_300).delay == 0.0225


def test_replicas_side_by_side_share_the_pair():
    assert hop(replicas=4).rate == 25e6
    assert not hop(replicas=4).shared


def test_in_turns_a_message_leaves_by_all_pods():
    found = hop(replicas=2, in_turns=True)
    assert found.paths == 2
    assert found.rate == pytest.approx(0.99 * 50e6)
    assert found.occupancy == pytest.approx(500_000 * 8 / 100e6)  # what is kept for others is lent
    assert found.spacing == pytest.approx(2 * found.occupancy)
    assert found.delay == pytest.approx(0.0225 + 2 * 0.001)


def test_borrowed_paths_are_those_of_the_data_centres_other_stages():
    own, lent = (
        costs.wan_hop(LINK, LAN, LAN, 500_000, 36, replicas=2, in_turns=True, lenders=k)
        for k in (1, 3)
    )
    assert (lent.paths, lent.lenders) == (6, 3)
    # The pair's 100 Mbit/s are split over six paths, no longer bound by 50 Mbit/s a pod.
    assert lent.rate == pytest.approx(0.99 * 100e6 / 6)
    assert (lent.occupancy, lent.spacing) == (own.occupancy, 2 * own.occupancy)
    alone = costs.wan_hop(LINK, LAN, LAN, 500_000, 36, replicas=1, in_turns=False, lenders=2)
    assert (alone.paths, alone.shared) == (2, False)
    assert alone.spacing == alone.occupancy == pytest.approx(500_000 * 8 / 100e6)


def test_paths_are_borrowed_by_those_who_take_turns_and_from_the_sources_data_centre():
    places = topology({"a": 4, "b": 4})
    where = placement(("a", 3), ("b", 1), data=2)
    found = costs.costs(places, workload(borrowed_paths=True), where, (2, 2, 2, 2))
    assert (found.forward[2].lenders, found.backward[2].lenders) == (3, 1)
    spatial = workload(borrowed_paths=True, sharing="Spatial")
    assert costs.costs(places, spatial, where, (2, 2, 2, 2)).forward[2].paths == 1


def test_early_recompute_takes_no_more_memory_than_one_layer():
    assert stage(recompute=True, early=False).early == 0
    assert stage(recompute=False, early=True).early == 0
    assert stage(recompute=True, early=True).early == pytest.approx(0.01)
    assert stage(recompute=True, early=True).fixed == stage(recompute=True).fixed
    light = Profile((LayerCosts(0.01, 0.02, 0.03),) * 3, boundary=10)
    found = costs.stage_costs(light, (3,), recompute=True, early=True)
    assert found[0].early == pytest.approx(0.03)


def test_the_slower_lan_of_both_ends_bounds_what_the_mates_can_lend():
    slow = Lan(60e6, 0.002)
    for ends in ({"near": slow}, {"far": slow}):
        found = hop(replicas=4, in_turns=True, **ends)
        assert found.rate == pytest.approx(20e6)
        assert found.delay == pytest.approx(0.0225 + 0.001 + 0.002)
        alone = hop(**ends)
        assert (alone.rate, alone.delay) == (50e6, 0.0225)


SMALL = replace(LINK, window=None, message_rates=MessageRates((125e3, 500e3), (10e6, 40e6)))


def test_a_message_reaches_what_its_size_does():
    assert hop(link=SMALL).occupancy == pytest.approx(500_000 * 8 / 40e6)
    assert hop(link=SMALL, size=250_000).occupancy == pytest.approx(250_000 * 8 / 25e6)
    assert hop(link=SMALL, size=1).occupancy == pytest.approx(0.1)
    assert hop(link=SMALL, size=0).occupancy == 0


def test_in_turns_each_path_carries_a_smaller_message_and_is_booked_whole():
    found = hop(replicas=2, in_turns=True, link=SMALL)
    assert found.occupancy == pytest.approx(500_000 * 8 / (2 * 25e6))
    assert found.rate == pytest.approx(0.99 * 40e6)


def test_a_path_is_never_faster_than_a_pod_pair_or_its_share():
    fast = replace(SMALL, message_rates=MessageRates((1e3,), (1e12,)))
    assert hop(link=fast).occupancy == pytest.approx(500_000 * 8 / 50e6)
    assert hop(link=fast, replicas=4).occupancy == pytest.approx(500_000 * 8 / 25e6)


def test_each_data_centre_has_its_own_lan():
    places = topology({"a": 4, "b": 4})
    near = replace(places.data_centers[0], lan=Lan(8e9, 0.5))
    places = replace(places, data_centers=(near, *places.data_centers[1:]))
    work = workload(profile=replace(profile(), gradient_bytes_per_layer=10**9))
    found = costs.costs(places, work, placement(("a", 2), ("b", 2), data=2), (2, 2, 2, 2))
    assert (found.forward[0].occupancy, found.forward[0].delay) == (0.001, 0.5)
    assert (found.forward[2].occupancy, found.forward[2].delay) == (8e-5, 20e-6)
    assert [stage.all_reduce for stage in found.stages] == pytest.approx(
        [2 + 2 * 0.5] * 2 + [0.16 + 2 * 20e-6] * 2
    )
    assert found.forward[1].delay == pytest.approx(0.01 + 0.5 + 20e-6)


def test_headers_take_their_share_of_a_rate():
    link = WanLink("a", "b", 50e6, 0.0, efficiency=0.8)
    assert hop(link=link, connections=1).occupancy == pytest.approx(0.1)
    bound = replace(LINK, efficiency=0.8)
    plain = hop(connections=1).occupancy
    assert hop(link=bound, connections=1).occupancy == pytest.approx(plain / 0.8)


def test_an_unlimited_window_never_binds():
    link = WanLink("a", "b", math.inf, 0.02, per_pod_capacity=1e6)
    assert hop(link=link, connections=1).delay == 0.01


def test_costs_of_a_placement_cross_lan_and_wan():
    places = topology({"a": 4, "b": 4}, links(("a", "b"), capacity=80e6), Lan(1e9))
    work = workload(profile=profile(layers=3), sharing="Spatial")
    found = costs.costs(places, work, placement(("a", 2), ("b", 1), data=2), (1, 1, 1))
    assert [h.crosses_wan for h in found.hops] == [False, True, False, True]
    assert found.forward[0].occupancy == pytest.approx(0.008)
    assert found.backward[1].occupancy == pytest.approx(0.2)
    assert found.seconds(Kind.BACKWARD, 2) == pytest.approx(0.02)


def test_one_replica_takes_no_turns():
    places = topology({"a": 4, "b": 4})
    found = costs.costs(places, workload(), placement(("a", 2), ("b", 2)), (2, 2, 2, 2))
    assert not any(h.shared for h in found.hops)
    found = costs.costs(places, workload(), placement(("a", 2), ("b", 2), data=2), (2, 2, 2, 2))
    assert [h.shared for h in found.forward] == [False, True, False]


def test_tied_ends_exchange_their_gradients_along_the_pipeline():
    """The first and the last stage add what the other found, which goes all the way and back."""
    inner = profile()
    work = workload(profile=replace(inner, tied=50 * inner.boundary))
    places = topology({"a": 4, "b": 4})
    where = placement(("a", 2), ("b", 2))
    tied = costs.costs(places, work, where, (2, 2, 2, 2))
    plain = costs.costs(places, workload(profile=inner), where, (2, 2, 2, 2))
    slowest = max(hop.occupancy for hop in plain.hops)
    way = 50 * slowest + 2 * sum(hop.delay for hop in plain.forward)
    more = [a.all_reduce - b.all_reduce for a, b in zip(tied.stages, plain.stages, strict=True)]
    assert more == pytest.approx([way, 0, 0, way])
    alone = costs.costs(places, replace(work, pipeline=1), placement(("a", 1)), (8,))
    assert alone.stages[0].all_reduce == 0


def test_sends_that_block_keep_the_gpu_busy_inside_a_data_centre():
    places = topology({"a": 4, "b": 4}, lan=Lan(1e9))
    where = placement(("a", 2), ("b", 2), data=2)
    plain = costs.costs(places, workload(), where, (2, 2, 2, 2))
    blocked = costs.costs(places, workload(blocking=True), where, (2, 2, 2, 2))
    send = plain.forward[0].occupancy
    assert send == pytest.approx(0.008)
    forwards = [b.forward - p.forward for b, p in zip(blocked.stages, plain.stages, strict=True)]
    gradients = [
        b.input_gradient - p.input_gradient
        for b, p in zip(blocked.stages, plain.stages, strict=True)
    ]
    assert forwards == pytest.approx([send, 0, send, 0])
    assert gradients == pytest.approx([0, send, 0, send])
    assert [hop.occupancy for hop in blocked.forward[::2]] == [0, 0]
    assert blocked.forward[1] == plain.forward[1]
