"""Collectives against their formulas, and the tiers they cross."""

import pytest

from geotrain.planning.costs import collectives
from geotrain.planning.costs.tiers import Constant, Tier

NEAR, FAR = Tier(Constant(8e9), 1e-3), Tier(Constant(8e8), 1e-2)


def test_a_ring_moves_twice_what_it_must():
    assert collectives.all_reduce(1e9, 4, NEAR) == pytest.approx(2 * 3 / 4 + 6e-3)
    assert collectives.ring_pass(1e9, 4, 8e9, 3e-3) == pytest.approx(3 / 4 + 3e-3)


@pytest.mark.parametrize(("size", "ranks"), [(0, 8), (1e9, 1)])
def test_nothing_to_reduce_takes_no_time(size, ranks):
    assert collectives.all_reduce(size, ranks, NEAR) == 0


def test_a_tensor_group_wider_than_a_node_crosses_the_data_centre():
    inside = collectives.tensor_exchange(1e9, 8, 8, NEAR, FAR)
    assert inside == collectives.all_reduce(1e9, 8, NEAR)
    across = collectives.tensor_exchange(1e9, 16, 8, NEAR, FAR)
    assert across == pytest.approx(inside + collectives.all_reduce(1e9, 2, FAR))


def test_an_exchange_of_all_with_all_leaves_a_node_by_its_links():
    assert collectives.all_to_all(1e9, 1, 8, NEAR, FAR) == 0
    assert collectives.all_to_all(0, 4, 8, NEAR, FAR) == 0
    assert collectives.all_to_all(1e9, 4, 8, NEAR, FAR) == pytest.approx(3 / 4 + 1e-3)
    across = collectives.all_to_all(1e9, 16, 8, NEAR, FAR)
    assert across == pytest.approx(1 / 2 * 8e9 / (8e8 / 8) + 1e-2)


def test_replicas_of_a_node_reduce_inside_it():
    assert collectives.data_all_reduce(1e9, 4, 2, 8, NEAR, FAR) == collectives.all_reduce(
        1e9, 4, NEAR
    )


@pytest.mark.parametrize(("tensor", "rings"), [(1, 1), (2, 2), (8, 8), (16, 8)])
def test_rings_of_the_devices_of_a_node_share_its_links(tensor, rings):
    far = Tier(Constant(8e9))
    found = collectives.data_all_reduce(1e9, 16, tensor, 8, NEAR, far)
    assert found == pytest.approx(rings * 2 * 15 / 16)


@pytest.mark.parametrize(("overlap", "left"), [(0.0, 3.0), (0.5, 2.0), (1.0, 1.0), (2.0, 0.0)])
def test_compute_hides_a_share_of_communication(overlap, left):
    assert collectives.exposed(3.0, 2.0, overlap) == left
