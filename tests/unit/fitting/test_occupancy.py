from dataclasses import replace

from geotrain.fitting import Occupancy
from support.fitting import GPU, node, prefill, rank, stranger


def test_firm_pods_take_and_prefill_takes_only_when_spared():
    pods = [rank(0, node="n"), stranger("s", node="n"), prefill(0, node="n")]
    there = Occupancy([node("n")], pods)
    assert there.free("n") == {"cpu": 6000, GPU: 63, "pods": 108}
    assert there.free("n", sparing=True) == {"cpu": 5000, GPU: 63, "pods": 107}


def test_replaced_and_dropped_pods_give_back_what_they_took():
    there = Occupancy([node("n"), node("m")], [rank(0, node="n"), prefill(0, node="n")])
    there.put_pod(rank(0, node="m"))
    assert there.free("n")["cpu"] == 8000
    assert there.free("m")["cpu"] == 7000
    there.drop_pod(prefill(0).key)
    there.drop_pod(rank(0).key)
    there.drop_pod(rank(0).key)  # a second time changes nothing
    assert there.free("m", sparing=True) == there.free("m") == dict(node("m").allocatable)
    assert there.pod(rank(0).key) is None
    assert there.pod_of_uid("uid-gpt-r0") is None
    assert not there.pods_on("m")
    assert not there.beside(("team-a", "gpt"), 0)


def test_ended_pods_take_nothing():
    there = Occupancy([node("n")], [rank(0, node="n")])
    there.put_pod(rank(0, node="n", phase="Succeeded"))
    assert there.free("n")["cpu"] == 8000
    assert there.rank(("team-a", "gpt"), 0) is None
    there.drop_pod(rank(0).key)
    assert there.free("n")["cpu"] == 8000


def test_pods_being_deleted_still_take_but_are_no_host():
    there = Occupancy([node("n")], [rank(0, node="n", terminating=True)])
    assert there.free("n")["cpu"] == 7000
    assert there.rank(("team-a", "gpt"), 0) is None


def test_a_node_that_is_not_known_has_nothing():
    there = Occupancy([], [prefill(0, node="n")])
    assert there.free("n") == {}
    assert there.free("n", sparing=True) == {"cpu": -1000, "pods": -1}
    there.put_node(node("n"))
    assert there.free("n", sparing=True)["cpu"] == 7000
    there.drop_node("n")
    there.drop_node("n")
    assert not there.nodes


def test_waiting_are_training_pods_without_a_node():
    leaving = replace(rank(2), terminating=True)
    there = Occupancy([], [rank(0), rank(1, node="n"), leaving, prefill(0), stranger("s")])
    assert [pod.rank for pod in there.waiting()] == [0]
    there.put_pod(rank(0, node="n"))
    assert not there.waiting()


def test_a_new_pod_of_the_same_rank_outlives_the_old_ones_removal():
    job = ("team-a", "gpt")
    new = replace(rank(0, node="m"), name="other")
    there = Occupancy([], [rank(0, node="n"), new])
    there.drop_pod(rank(0).key)
    assert there.rank(job, 0) is new


def test_claims_on_a_ranks_gpus_are_kept_bound_or_not():
    job = ("team-a", "gpt")
    there = Occupancy([], [prefill(0, node="n"), prefill(1), prefill(2, beside=None, node="n")])
    assert {pod.name for pod in there.beside(job, 0)} == {"pool-0", "pool-1"}
    there.drop_pod(prefill(0).key)
    there.drop_pod(prefill(2).key)
    assert {pod.name for pod in there.beside(job, 0)} == {"pool-1"}


def test_a_training_pod_without_a_rank_still_counts():
    there = Occupancy([node("n")], [replace(rank(0, node="n"), rank=None)])
    assert there.free("n")["cpu"] == 7000
    assert there.rank(("team-a", "gpt"), 0) is None
