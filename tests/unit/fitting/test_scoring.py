from dataclasses import replace

from geotrain.fitting import Occupancy, prioritize
from support.fitting import node, prefill, rank, stranger


def test_neighbouring_stages_of_the_replica_attract_most():
    pods = [rank(0, node="neighbour"), rank(1, node="mate"), rank(0, job="other", node="other")]
    nodes = [node(name, cpu=2000) for name in ("neighbour", "mate", "other")]
    scores = prioritize(rank(2), ["neighbour", "mate", "other"], Occupancy(nodes, pods))
    assert scores == {"neighbour": 10, "mate": 7, "other": 4}


def test_a_node_where_the_gang_can_stay_together_attracts_its_first_pod():
    gang = [rank(n) for n in range(4)]
    there = Occupancy([node("small", gpu=2), node("large", gpu=4)], gang)
    scores = prioritize(gang[0], ["small", "large"], there)
    assert scores["large"] > scores["small"]


def test_pods_of_other_data_centres_will_not_join():
    gang = [rank(0), rank(1, "dc-west"), rank(2, "dc-west")]
    there = Occupancy([node("small", gpu=1), node("large", gpu=2)], gang)
    scores = prioritize(gang[0], ["small", "large"], there)
    assert scores["small"] > scores["large"]  # packed


def test_a_node_where_prefill_stays_is_better():
    there = Occupancy([node("a"), node("b")], [prefill(0, node="a", cpu=8000)])
    scores = prioritize(rank(0), ["a", "b"], there)
    assert scores["b"] == scores["a"] + 2


def test_a_used_node_is_better_than_an_empty_one():
    there = Occupancy([node("a"), node("b")], [stranger("s", node="b", cpu=7000)])
    assert prioritize(rank(0), ["a", "b"], there) == {"a": 2, "b": 4}


def test_prefill_has_no_choice_to_make():
    assert prioritize(prefill(0), ["a"], Occupancy([node("a")])) == {"a": 10}


def test_ranks_without_a_stage_are_mates_only():
    loner = replace(rank(0, node="a"), stage=None)
    there = Occupancy([node("a"), node("b")], [loner])
    assert prioritize(rank(2), ["a", "b"], there)["a"] == 8
    assert prioritize(replace(rank(2), stage=None), ["a", "b"], there)["a"] == 8


def test_scores_stay_between_0_and_10_whatever_is_known():
    empty = rank(0, requests={"pods": 1})
    over = [stranger("s", node="a", cpu=9000)]
    there = Occupancy([node("a", pods=1)], over)
    assert prioritize(empty, ["a", "gone"], there) == {"a": 2, "gone": 0}
    assert prioritize(rank(0), [], there) == {}
