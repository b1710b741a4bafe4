from dataclasses import replace

from geotrain.fitting import Filtered, Occupancy, filter_nodes
from support.fitting import node, prefill, rank, stranger

HOST = rank(0, node="a")  # prefill's default host


def test_training_passes_where_it_fits_in_its_data_centre():
    there = Occupancy([node("a"), node("b", "dc-west"), node("c", gpu=0)], [])
    assert filter_nodes(rank(0), ["c", "b", "a", "d"], there) == Filtered(
        ("a",),
        {
            "c": "node lacks 1 example.com/gpu",
            "b": "node is in dc-west, not in dc-east",
            "d": "node is not in the extender's cache yet",
        },
    )


def test_training_passes_where_prefill_has_to_leave_but_not_where_others_would():
    pods = [prefill(0, node="a", cpu=8000), stranger("s", node="b", cpu=7500)]
    there = Occupancy([node("a"), node("b")], pods)
    assert filter_nodes(rank(1), ["a", "b"], there) == Filtered(("a",), {"b": "node lacks 0.5 cpu"})


def test_training_without_a_data_centre_passes_nowhere():
    pod = replace(rank(0), data_center="")
    assert filter_nodes(pod, ["a"], Occupancy([node("a")])) == Filtered(
        (), {"a": "the training pod names no data centre"}
    )


def test_a_stranger_passes_nowhere():
    assert filter_nodes(stranger("s"), ["a"], Occupancy([node("a")])) == Filtered(
        (), {"a": "the pod is neither training nor prefill"}
    )


def test_prefill_passes_only_beside_its_rank():
    there = Occupancy([node("a"), node("b")], [HOST])
    assert filter_nodes(prefill(0), ["b", "a"], there) == Filtered(
        ("a",), {"b": "rank 0 of gpt runs on a"}
    )
    assert filter_nodes(prefill(0), ["b"], there) == Filtered((), {"b": "rank 0 of gpt runs on a"})


def test_prefill_waits_for_its_rank():
    leaving = replace(HOST, terminating=True)
    for pods in ([], [rank(0)], [leaving], [rank(0, job="other", node="a")]):
        why = "rank 0 of gpt runs on no node"
        answer = filter_nodes(prefill(0), ["a"], Occupancy([node("a")], pods))
        assert answer == Filtered((), {"a": why}, retry=why)


def test_prefill_must_name_a_rank():
    there = Occupancy([node("a")], [HOST])
    for pod in (prefill(0, beside=None), prefill(0, job="")):
        assert filter_nodes(pod, ["a"], there) == Filtered(
            (), {"a": "the prefill pod names no training rank"}
        )


def test_prefill_is_limited_beside_a_rank():
    there = Occupancy([node("a")], [HOST, prefill(0, node="a"), prefill(9, beside=1, node="a")])
    why = "rank 0 of gpt has 1 of at most 1 prefill workers"
    assert filter_nodes(prefill(1), ["a"], there) == Filtered((), {"a": why}, retry=why)
    assert filter_nodes(prefill(1, max_beside=2), ["a"], there).passed == ("a",)
    assert filter_nodes(prefill(0), ["a"], there).passed == ("a",)  # not in its own way


def test_of_unbound_prefill_the_first_by_name_has_the_place():
    there = Occupancy([node("a")], [HOST, prefill(0), prefill(1)])
    assert filter_nodes(prefill(0), ["a"], there).passed == ("a",)
    assert filter_nodes(prefill(1), ["a"], there).passed == ()


def test_prefill_does_not_evict():
    pods = [HOST, prefill(8, beside=1, node="a", cpu=6500)]
    answer = filter_nodes(prefill(0), ["a"], Occupancy([node("a")], pods))
    assert answer == Filtered((), {"a": "node lacks 0.5 cpu"}, retry="node lacks 0.5 cpu")


def test_prefill_does_not_go_to_a_node_that_refuses_it_or_is_not_known():
    closed = Occupancy([node("a", unschedulable=True)], [HOST])
    assert filter_nodes(prefill(0), ["a"], closed) == Filtered((), {"a": "node is cordoned"})
    unknown = Occupancy([], [HOST])
    assert filter_nodes(prefill(0), ["a"], unknown).failed == {
        "a": "node is not in the extender's cache yet"
    }


def waiting(**fields):
    """Seven cores that a gang of another job waits for."""
    return [rank(n, job="other", cpu=3500, **fields) for n in range(2)]


def test_prefill_leaves_the_room_that_a_gated_gang_waits_for():
    there = Occupancy([node("a")], [HOST, *waiting()])
    why = "node has no room but what waiting training needs"
    assert filter_nodes(prefill(0), ["a"], there) == Filtered((), {"a": why}, retry=why)


def test_and_that_admitted_training_is_about_to_take():
    there = Occupancy([node("a")], [HOST, *waiting(gated=False)])
    assert filter_nodes(prefill(0), ["a"], there).passed == ()


def test_room_that_the_gang_finds_elsewhere_is_free():
    there = Occupancy([node("a"), node("0", cpu=7000)], [HOST, *waiting()])
    assert filter_nodes(prefill(0), ["a"], there).passed == ("a",)


def test_a_gang_that_does_not_fit_anyway_reserves_nothing():
    there = Occupancy([node("a")], [HOST, *waiting(), rank(9, job="other", cpu=9000)])
    assert filter_nodes(prefill(0), ["a"], there).passed == ("a",)


def test_gangs_reserve_in_order_of_priority():
    big = [rank(n, job="big", cpu=3500, priority=2000) for n in range(2)]
    there = Occupancy([node("a"), node("b", cpu=1000)], [HOST, rank(0, job="aaa"), *big])
    assert filter_nodes(prefill(0), ["a"], there).passed == ()


def test_room_beside_what_is_reserved_is_free():
    there = Occupancy([node("a", cpu=9000)], [HOST, *waiting()])
    assert filter_nodes(prefill(0), ["a"], there).passed == ("a",)
