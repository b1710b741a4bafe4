from dataclasses import replace

import pytest

from geotrain.model.decision import Infeasible, NoPlan, Reason
from geotrain.model.plan import Action, Kind, Placement
from geotrain.planning.placement.choose import choose
from support.planning import topology, workload


def test_an_action_reads_as_in_pytorch():
    assert str(Action(2, Kind.FORWARD, 0)) == "2F0"
    assert str(Action(2, Kind.SEND_FORWARD, 11)) == "2SEND_F11"


def test_a_stage_is_in_the_segment_that_covers_it():
    where = Placement((("a", 2), ("b", 1)), data=2)
    assert [where.data_center_of(stage) for stage in range(3)] == ["a", "a", "b"]
    assert where.stages == 3
    with pytest.raises(IndexError, match="beyond the pipeline"):
        where.data_center_of(3)


def test_ranks_are_numbered_stage_by_stage():
    plan = choose(topology({"a": 4, "b": 4}), workload())
    assert plan.ranks == 8
    assert [plan.stage_of(rank) for rank in range(8)] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [plan.replica_of(rank) for rank in range(4)] == [0, 1, 0, 1]
    assert [plan.data_center_of(rank) for rank in (0, 7)] == ["a", "b"]
    assert replace(plan) == plan


def test_a_refusal_has_a_reason():
    assert Infeasible((Reason(NoPlan.LINK_MISSING, "none"),)).reasons[0].code == "LinkMissing"
    with pytest.raises(ValueError, match="at least one reason"):
        Infeasible(())
