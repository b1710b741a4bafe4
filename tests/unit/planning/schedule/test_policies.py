import pytest

from geotrain.errors import InputError
from geotrain.planning.schedule import checks
from geotrain.planning.schedule.actions import compute_only, read_order, write_order
from geotrain.planning.schedule.layouts import layout_of
from geotrain.planning.schedule.lowering import lower
from geotrain.planning.schedule.policies import POLICIES, policy
from geotrain.planning.schedule.timeline import program, replay
from geotrain.planning.schedule.uniform import Uniform

TIMES = Uniform(1.0, 1.5, 0.75, 0.1, latency=2.0, boundaries=(1,), recompute=0.5)


def made(name, devices, micro_batches, in_flight=None):
    chosen = policy(name)
    costs = TIMES.costs(chosen.layout(devices, chosen.chunks or 2))
    caps = None if in_flight is None else [in_flight] * devices
    return chosen.order(costs, caps, micro_batches), costs


@pytest.mark.parametrize("name", sorted(set(POLICIES) - {"optimal"}))
@pytest.mark.parametrize(("devices", "micro_batches"), [(1, 2), (2, 6), (3, 6), (5, 15)])
def test_every_policy_makes_what_is_sound_survives_csv_and_finishes(name, devices, micro_batches):
    order, costs = made(name, devices, micro_batches)
    assert checks.problems(order) == []
    assert read_order(write_order(order)) == order
    assert compute_only(lower(order)) == order
    assert checks.problems(lower(order)) == []
    if name != "interleaved" or devices > 1:
        assert layout_of(order) == costs.layout
    assert replay(program(order), costs, 1).period > 0


@pytest.mark.parametrize(
    "name", sorted(set(POLICIES) - {"gpipe", "interleaved", "dualpipe-v", "optimal"})
)
def test_policies_that_know_a_cap_keep_to_it(name):
    order, _ = made(name, 4, 8, in_flight=3)
    assert max(checks.peak_in_flight(order)) <= 3


def test_the_optimum_comes_with_its_bound():
    costs = TIMES.costs((0,))
    answer = policy("optimal").answer(costs, [2], 3)
    assert answer.order == policy("optimal").order(costs, [2], 3)
    assert answer.bound == pytest.approx(3 * (1.0 + 1.5 + 0.75))
    assert policy("greedy").answer(costs, [2], 3).bound is None


@pytest.mark.parametrize("name", ["gpipe", "interleaved", "dualpipe-v"])
def test_a_fixed_order_that_does_not_fit_is_refused(name):
    with pytest.raises(InputError, match="more than the 3 that memory holds"):
        made(name, 4, 8, in_flight=3)


@pytest.mark.parametrize("name", ["ZB-2P", "zb2p", "zb_2p"])
def test_names_are_read_as_people_write_them(name):
    assert policy(name) is POLICIES["zb-2p"]


def test_an_unknown_name_is_refused_with_those_that_are_known():
    with pytest.raises(InputError, match="there is no schedule 'best'; known: gpipe, 1f1b,"):
        policy("best")


def test_a_message_crosses_every_boundary_between_its_ranks():
    costs = Uniform(1.0, 1.0, 1.0, 0.5, 0.25, 2.0, (0, 1)).costs((0, 1, 2, 0))
    assert [(hop.occupancy, hop.delay) for hop in costs.forward] == [(0.5, 2), (0.5, 2), (0.5, 4)]
    assert [stage.forward for stage in costs.stages] == [0.5, 1.0, 1.0, 0.5]
    near = Uniform(1.0, 1.0, 1.0, 0.5, 0.25, 2.0, (0,)).costs((0, 1, 2))
    assert [(hop.occupancy, hop.delay) for hop in near.forward] == [(0.5, 2), (0.25, 0)]
