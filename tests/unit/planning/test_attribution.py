"""What an iteration is made of: the parts add up, and each is what the replay says."""

from dataclasses import replace
from functools import cache

import pytest

from geotrain.model.plan import Placement, Plan
from geotrain.planning.placement.attribution import Part, attribution
from geotrain.planning.placement.choose import at, choose
from support import hubs

_, INPUTS, PLAN = hubs.problem()


@cache
def parts(topology=INPUTS.topology, workload=INPUTS.workload, placement=PLAN.placement):
    return attribution(topology, workload, placement)


def test_the_parts_add_up_to_the_iteration():
    found = parts()
    assert found.iteration == pytest.approx(PLAN.iteration)
    assert sum(found.parts.values()) == pytest.approx(found.iteration)
    assert found.parts[Part.COMPUTE] == pytest.approx(PLAN.gpu_use * PLAN.iteration)
    assert found.parts[Part.SYNC] == max(each.end - each.begin for each in PLAN.steps)
    assert min(found.parts.values()) >= 0


def test_the_wide_area_costs_what_a_plan_without_it_saves():
    links = tuple(
        replace(link, capacity=1e18, per_pod_capacity=None, round_trip=0.0, window=None)
        for link in INPUTS.topology.links
    )
    free = choose(replace(INPUTS.topology, links=links), at(INPUTS.workload, PLAN.placement))
    assert isinstance(free, Plan)
    assert parts().parts[Part.WAN] == pytest.approx(PLAN.iteration - free.iteration, rel=1e-3)


def test_each_pair_is_asked_alone():
    found = parts()
    assert found.links.keys() == {("dc-central", "dc-east"), ("dc-central", "dc-west")}
    assert all(0 < cost <= found.parts[Part.WAN] for cost in found.links.values())


def test_a_single_pair_costs_all_that_the_wide_area_does():
    two = Placement((("dc-east", 3), ("dc-central", 3)), 1)
    found = parts(placement=two)
    assert found.links == {("dc-central", "dc-east"): found.parts[Part.WAN]}


def test_one_data_centre_waits_for_no_wide_area():
    big = tuple(replace(center, gpus=12) for center in INPUTS.topology.data_centers)
    found = parts(
        replace(INPUTS.topology, data_centers=big), placement=Placement((("dc-west", 6),), 2)
    )
    assert found.links == {}
    assert found.parts[Part.WAN] == 0


def test_memory_costs_what_a_plan_without_a_bound_saves():
    assert parts().memory == 0
    tight = replace(INPUTS.workload, memory_per_gpu=12_360 << 20)
    assert parts(workload=tight).memory > 0


def test_a_placement_that_does_not_fit_has_no_parts():
    assert parts(placement=Placement((("dc-west", 6),), 2)) is None
