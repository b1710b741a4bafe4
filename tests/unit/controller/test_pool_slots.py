import pytest

from geotrain.roles.controller.pool_slots import bound_job, no_room, slots, stages_beyond
from support.pools import World, gang, job, pool


def places(**spec):
    found = slots(pool(**spec).spec, job(), gang())
    return [(slot.data_center, slot.index, slot.rank) for slot in found]


def test_data_centres_take_turns():
    assert places() == [
        ("dc-east", 0, 0),
        ("dc-west", 0, 2),
        ("dc-east", 1, 1),
        ("dc-west", 1, 3),
    ]


def test_a_limit_cuts_off_the_last_places_and_moves_none():
    assert places(scaling={"max": 3}) == places()[:3]


def test_every_rank_gets_one_before_any_gets_two():
    found = places(placement={"maxPerGpu": 2})
    assert [rank for _, _, rank in found] == [0, 2, 1, 3] * 2
    assert [index for center, index, _ in found if center == "dc-east"] == [0, 1, 2, 3]


def test_only_the_chosen_stages_are_shared():
    assert places(placement={"stages": [1]}) == [("dc-west", 0, 2), ("dc-west", 1, 3)]


def test_ranks_of_a_data_centre_that_is_not_seen_are_not_missed():
    seen = gang()[:2]
    assert slots(pool().spec, job(), seen) == ()
    found = slots(pool().spec, job(), seen, frozenset({"dc-west"}))
    assert [slot.rank for slot in found] == [0, 1]


def test_a_job_without_a_plan_has_no_places():
    assert slots(pool().spec, job(plan=None), gang()) == ()
    assert stages_beyond(pool(placement={"stages": [9]}).spec, job(plan=None)) == []


SELECTING = {"trainingJobRef": None, "jobSelector": {"matchLabels": {"team": "a"}}}


@pytest.mark.parametrize(
    ("spec", "jobs", "name"),
    [
        ({}, [job("a"), job("gpt")], "gpt"),
        ({}, [job("a")], None),
        (SELECTING, [job("z", {"team": "a", "x": "y"}), job("b", {"team": "a"})], "b"),
        (SELECTING, [job("z", {"team": "b"}), job("y")], None),
    ],
)
def test_a_job_is_picked_by_name_or_labels(spec, jobs, name):
    found = bound_job(pool(**spec), jobs)
    assert (found and found.name) == name


def test_jobs_of_other_namespaces_are_not_picked():
    other = job()
    meta = other.metadata.model_copy(update={"namespace": "team-b"})
    assert bound_job(pool(), [other.model_copy(update={"metadata": meta})]) is None


def test_beside_a_rank_without_a_node_there_is_no_room():
    world = World(ranks=())
    worker = {
        "metadata": {
            "name": "w",
            "namespace": "team-a",
            "labels": {"geotrain.io/job": "gpt", "geotrain.io/beside-rank": "3"},
        },
        "spec": {"containers": []},
    }
    assert no_room(world.observed().members["dc-east"], worker) == "rank 3 of gpt runs on no node"
