from geotrain.fitting import Occupancy, objection, victims
from support.fitting import GPU, node, prefill, rank, stranger


def names(pods):
    return [pod.name for pod in pods]


def test_nobody_leaves_while_there_is_room():
    there = Occupancy([node("n")], [prefill(0, node="n")])
    assert victims(there, "n", {"cpu": 7000, "pods": 1}) == ()


def test_no_more_leave_than_are_needed_and_the_least_important_first():
    pods = [
        prefill(0, node="n", cpu=3000, priority=-9),
        prefill(1, node="n", cpu=3000, priority=-5),
    ]
    assert names(victims(Occupancy([node("n")], pods), "n", {"cpu": 5000})) == ["pool-0"]
    assert names(victims(Occupancy([node("n")], pods), "n", {"cpu": 6000})) == ["pool-1", "pool-0"]


def test_of_equals_the_last_by_name_leaves():
    pods = [prefill(n, node="n", cpu=4000) for n in (1, 0)]
    assert names(victims(Occupancy([node("n")], pods), "n", {"cpu": 4000})) == ["pool-1"]


def test_who_is_leaving_already_leaves_first():
    pods = [prefill(0, node="n", cpu=4000, terminating=True), prefill(1, node="n", cpu=4000)]
    assert names(victims(Occupancy([node("n")], pods), "n", {"cpu": 4000})) == ["pool-0"]


def test_others_never_leave():
    pods = [rank(0, node="n"), stranger("s", node="n"), prefill(0, node="n")]
    assert victims(Occupancy([node("n")], pods), "n", {"cpu": 6500}) is None


def test_what_is_not_asked_for_does_not_matter():
    there = Occupancy([node("n", gpu=0)], [rank(0, node="n"), prefill(0, node="n")])
    assert victims(there, "n", {"cpu": 1000, GPU: 0}) == ()


def test_an_unknown_node_has_no_room():
    assert victims(Occupancy(), "n", {"cpu": 1}) is None


def test_only_training_may_evict_and_only_prefill():
    there = Occupancy([node("n")], [prefill(0, node="n"), rank(1, node="n")])
    assert objection(rank(0), ["uid-pool-0"], there) is None
    assert objection(prefill(1), ["uid-pool-0"], there) == "only training may evict"
    assert objection(rank(0), ["uid-pool-0", "uid-gpt-r1"], there) == "team-a/gpt-r1 is not prefill"
    assert objection(rank(0), ["uid-x"], there) == "no pod of uid uid-x is known"
