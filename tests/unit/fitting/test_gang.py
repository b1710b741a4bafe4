from dataclasses import replace

import pytest

from geotrain.fitting import Fits, Misfit, Requirement, Taint, Toleration, gang_fits
from geotrain.fitting.occupancy import Occupancy
from geotrain.fitting.whatif import WhatIf, slots
from support.fitting import GPU, node, prefill, rank, stranger


def sentences(answer):
    assert isinstance(answer, Misfit)
    return [reason.sentence for reason in answer.reasons]


def test_each_rank_gets_a_node_of_its_data_centre():
    nodes = [node("e", "dc-east", gpu=2), node("w", "dc-west", gpu=2)]
    gang = [rank(0, "dc-west"), rank(1, "dc-west"), rank(2), rank(3)]
    answer = gang_fits(nodes, [], gang)
    assert answer == Fits(
        {gang[0].key: "w", gang[1].key: "w", gang[2].key: "e", gang[3].key: "e"}, ()
    )


def test_the_answer_is_the_same_once_the_gated_pods_exist():
    gang = [rank(0), rank(1)]
    nodes = [node("a", gpu=1), node("b", gpu=1)]
    assert gang_fits(nodes, gang, gang) == gang_fits(nodes, [], gang)
    assert isinstance(gang_fits(nodes, gang, gang), Fits)


def test_a_lack_is_told_with_figures():
    answer = gang_fits([node("e", gpu=2)], [], [rank(n) for n in range(4)])
    assert sentences(answer) == ["dc-east: 4 example.com/gpu wanted, 2 free on 1 node; lacking 2"]
    assert answer.reasons[0].code == "InsufficientResources"


def test_every_resource_and_every_data_centre_that_lacks_is_told():
    nodes = [node("e", gpu=2), node("w", "dc-west", cpu=1500), node("v", "dc-west", gpu=0)]
    gang = [rank(n, gpu=1, cpu=3000) for n in range(3)] + [rank(3, "dc-west", cpu=10000)]
    assert sentences(gang_fits(nodes, [], gang)) == [
        "dc-east: 9 cpu wanted, 8 free on 1 node; lacking 1",
        "dc-east: 3 example.com/gpu wanted, 2 free on 1 node; lacking 1",
        "dc-west: 10 cpu wanted, 9.5 free on 2 nodes; lacking 0.5",
    ]


def test_what_is_free_but_split_too_finely_is_told():
    answer = gang_fits([node("a", gpu=3), node("b", gpu=3)], [], [rank(n, gpu=2) for n in range(3)])
    assert sentences(answer) == [
        "dc-east: 3 pods wanted, 2 fit on 2 nodes; in all enough is free, but nowhere else 1 cpu,"
        " 2 example.com/gpu, 1 pods at once"
    ]
    assert answer.reasons[0].code == "ResourcesFragmented"


def test_a_data_centre_without_nodes_is_told():
    answer = gang_fits([node("w", "dc-west")], [], [rank(0), rank(1, "dc-west")])
    assert sentences(answer) == ["dc-east: no node of the cluster carries this data centre's label"]
    assert answer.reasons[0].code == "NoUsableNode"


def test_nodes_that_take_none_of_the_pods_are_told_by_cause():
    taint = Taint("gpu", "true")
    nodes = [node("a", unschedulable=True), node("b", taints=(taint,)), node("c", taints=(taint,))]
    assert sentences(gang_fits(nodes, [], [rank(0)])) == [
        "dc-east: none of 3 nodes takes the pods: has the taint gpu=true:NoSchedule (2),"
        " is cordoned (1)"
    ]


def test_the_gravest_reason_comes_first():
    nodes = [node("a", gpu=1), node("b", "dc-west", unschedulable=True)]
    answer = gang_fits(nodes, [], [rank(0), rank(1), rank(2, "dc-west")])
    assert [r.code for r in answer.reasons] == ["NoUsableNode", "InsufficientResources"]


def test_a_gang_of_no_data_centre_may_go_anywhere():
    pod = replace(rank(0, gpu=9), data_center="", node_selector={})
    assert sentences(gang_fits([node("a", gpu=8)], [], [pod])) == [
        "any data centre: 9 example.com/gpu wanted, 8 free on 1 node; lacking 1"
    ]


def test_pods_that_are_bound_stay_and_only_the_rest_is_placed():
    nodes = [node("a", gpu=1), node("b", gpu=1)]
    gang = [rank(0), rank(1)]
    there = [rank(0, node="b"), rank(1)]
    assert gang_fits(nodes, there, gang) == Fits({gang[0].key: "b", gang[1].key: "a"}, ())


@pytest.mark.parametrize("state", [{"terminating": True}, {"phase": "Failed"}])
def test_the_remains_of_an_earlier_attempt_are_no_placement(state):
    old = rank(0, node="a", **state)
    answer = gang_fits([node("a", gpu=1), node("b", gpu=1)], [old], [rank(0)])
    assert answer == Fits({rank(0).key: "b" if old.terminating else "a"}, ())


def test_prefill_is_no_obstacle_and_is_named_as_victim():
    pods = [prefill(n, node="a", cpu=4000) for n in range(2)]
    answer = gang_fits([node("a")], pods, [rank(0, cpu=4000)])
    assert answer == Fits({rank(0).key: "a"}, (pods[1].key,))


def test_prefill_is_left_alone_while_there_is_other_room():
    pods = [prefill(0, node="a", cpu=8000)]
    answer = gang_fits([node("a"), node("b")], pods, [rank(0), rank(1)])
    assert answer == Fits({rank(0).key: "b", rank(1).key: "b"}, ())


def test_prefill_that_is_leaving_already_is_not_named_again():
    pods = [prefill(0, node="a", cpu=8000, terminating=True)]
    assert gang_fits([node("a")], pods, [rank(0)]) == Fits({rank(0).key: "a"}, ())


def test_other_pods_are_obstacles():
    pods = [rank(0, job="other", node="a", gpu=64), stranger("s", node="b", cpu=7500)]
    assert sentences(gang_fits([node("a"), node("b", gpu=0)], pods, [rank(0)])) == [
        "dc-east: 1 example.com/gpu wanted, 0 free on 2 nodes; lacking 1"
    ]


def test_room_promised_to_another_admitted_gang_is_taken():
    admitted = rank(0, job="other", gated=False)
    answer = gang_fits([node("a", gpu=1)], [admitted], [rank(0)])
    assert sentences(answer) == ["dc-east: 1 example.com/gpu wanted, 0 free on 1 node; lacking 1"]


def test_room_is_promised_where_the_scheduler_makes_it():
    admitted = rank(0, job="other", gated=False, nominated="b")
    answer = gang_fits([node("a", gpu=1), node("b", gpu=1)], [admitted], [rank(0)])
    assert answer == Fits({rank(0).key: "a"}, ())


def test_another_gated_gang_has_been_promised_nothing():
    answer = gang_fits([node("a", gpu=1)], [rank(0, job="other")], [rank(0)])
    assert answer == Fits({rank(0).key: "a"}, ())


def test_larger_pods_go_first():
    nodes = [node("a", gpu=4), node("b", gpu=2)]
    gang = [rank(0, gpu=2), rank(1, gpu=4)]
    assert gang_fits(nodes, [], gang) == Fits({gang[1].key: "a", gang[0].key: "b"}, ())


def test_of_equal_pods_those_with_fewer_nodes_go_first():
    picky = rank(1, affinity=((Requirement("metadata.name", "In", ("a",), on_name=True),),))
    nodes = [node("a", gpu=1), node("b", gpu=1)]
    assert gang_fits(nodes, [], [rank(0), picky]) == Fits({picky.key: "a", rank(0).key: "b"}, ())


def test_tolerations_open_tainted_nodes():
    tainted = node("a", taints=(Taint("gpu"),))
    pod = rank(0, tolerations=(Toleration("gpu", "Exists"),))
    assert gang_fits([tainted], [], [pod]) == Fits({pod.key: "a"}, ())


def test_a_pod_that_asks_for_nothing_fits_without_end():
    assert slots({}, rank(0, requests={GPU: 0})) > 10**9
    empty = rank(0, requests={})
    assert gang_fits([node("a")], [], [empty]) == Fits({empty.key: "a"}, ())


def test_a_gang_that_is_bound_whole_fits_as_it_is():
    assert gang_fits([], [rank(0, node="gone")], [rank(0)]) == Fits({rank(0).key: "gone"}, ())


def test_a_trial_leaves_the_occupancy_and_its_copies_alone():
    there = Occupancy([node("a", gpu=1)])
    trial = WhatIf(there)
    copy = trial.copy()
    assert trial.put([rank(0)]) == []
    assert there.free("a")[GPU] == 1
    assert copy.put([rank(1)]) == []
    assert trial.put([rank(1)]) == [rank(1)]
