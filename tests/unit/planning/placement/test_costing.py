"""Costs of many placements are those of each by itself, also where data centres differ."""

from dataclasses import replace

import pytest

from geotrain.model.decision import Infeasible
from geotrain.model.topology import DataCenter, Lan, Topology
from geotrain.model.workload import Profile
from geotrain.planning.placement import choose, trials
from geotrain.planning.placement.costing import Costing
from geotrain.planning.schedule import costs
from support.planning import links, placement, profile, workload

GIB = 2**30
SLOW = profile(layers=12, activation=GIB, parameters=GIB)
FAST = replace(
    SLOW,
    layers=tuple(
        replace(each, forward=0.005, input_gradient=0.005, weight_gradient=0.005, gradients=7)
        for each in SLOW.layers
    ),
)
WORK = workload(profile=SLOW, profiles=(("fast", FAST),), pipeline=4)


def places(**values):
    kinds = {"a": "fast", "b": "slow"} | values
    centers = tuple(
        DataCenter(name, 64, accelerator=kind, memory=40 * GIB if kind == "fast" else 20 * GIB)
        for name, kind in kinds.items()
    )
    return Topology(centers, links(("a", "b")))


WHERE = placement(("a", 2), ("b", 2), data=2)


def test_each_stage_costs_what_its_data_centres_accelerator_takes():
    costing = Costing(places(), WORK)
    found = costing.costs(WHERE)
    assert costing.costs(WHERE).stages is found.stages
    assert [stage.layers for stage in found.stages] == [4, 4, 2, 2]
    assert [stage.forward for stage in found.stages] == pytest.approx([0.02] * 4)
    assert found == costs.costs(places(), WORK, WHERE, (4, 4, 2, 2))
    assert found.stages[0].all_reduce == costs.all_reduce(4 * 7, 2, WORK.tensor, Lan())


def test_data_centres_of_one_kind_share_their_stages():
    alike = places(b="fast")
    costing = Costing(alike, WORK)
    assert costing.costs(WHERE) == costs.costs(alike, WORK, WHERE, (3, 3, 3, 3))
    assert costing.layers == (3, 3, 3, 3)


def test_data_centres_of_one_kind_may_have_lans_of_their_own():
    alike = places(b="fast")
    near, far = alike.data_centers
    alike = replace(alike, data_centers=(near, replace(far, lan=Lan(1e9, 1e-3))))
    costing = Costing(alike, WORK)
    for where in (WHERE, placement(("b", 2), ("a", 2), data=2), placement(("b", 4), data=2)):
        assert costing.costs(where) == costs.costs(alike, WORK, where, (3, 3, 3, 3))
    slow = costing.costs(WHERE).stages
    assert slow[0].all_reduce < slow[2].all_reduce == slow[3].all_reduce


def test_each_stage_holds_what_fits_its_own_devices():
    found = Costing(places(), WORK).costs(WHERE)
    assert trials.caps(found, WORK, 100) == ((40 - 4) // 4, (40 - 4) // 4, 9, 9)
    tight = replace(WORK, memory_per_gpu=30 * GIB)
    assert trials.caps(found, tight, 100) == (6, 6, 9, 9)


def test_devices_that_are_too_small_are_said():
    heavy = profile(layers=4, activation=GIB, parameters=30 * GIB)
    found = choose.choose(
        Topology((DataCenter("a", 64, memory=16 * GIB),)), workload(profile=heavy)
    )
    assert isinstance(found, Infeasible)
    assert found.reasons[0].code == "NotEnoughMemory"
    assert "may use 16Gi" in found.reasons[0].sentence


def test_a_plan_gives_faster_data_centres_more_layers():
    job = replace(WORK, placement="Fixed", fixed=(("a", 2), ("b", 2)))
    plan = choose.choose(places(), job)
    assert plan.layers == (4, 4, 2, 2)
    even = choose.choose(places(), replace(job, profiles=()))
    assert plan.iteration < even.iteration


def test_a_data_centre_that_is_not_known_costs_the_same_as_all():
    found = costs.placed_stage_costs(Topology(()), WORK, WHERE, (3, 3, 3, 3))
    assert found[0].memory is None
    assert found[0].forward == pytest.approx(0.03)


def test_profiles_must_describe_the_same_layers():
    with pytest.raises(ValueError, match="for fast has 1 layers, and the model 12"):
        workload(profile=SLOW, profiles=(("fast", Profile(FAST.layers[:1], 1)),))


def test_devices_without_memory_are_refused():
    with pytest.raises(ValueError, match="GPUs of 0 bytes"):
        DataCenter("a", 1, memory=0)
