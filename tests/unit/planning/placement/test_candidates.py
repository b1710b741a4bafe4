from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.model.topology import Topology
from geotrain.planning.placement.candidates import candidates, neighbours
from geotrain.planning.placement.space import Space
from support.planning import links, placement, profile, topology, workload


def tried(places, **values):
    return [(p.segments, p.data) for p in candidates(places, workload(**values)).placements]


def reasons(places, **values):
    return [(r.code, r.sentence) for r in candidates(places, workload(**values)).reasons]


def test_largest_first_and_every_prefix():
    places = topology({"small": 2, "large": 8, "middle": 4})
    assert tried(places, pipeline=4, data=1) == [((("large", 4),), 1)]
    assert tried(places, pipeline=4, data=2) == [((("large", 4),), 2)]
    assert tried(places, pipeline=6, data=2, profile=profile(6)) == [
        ((("large", 4), ("middle", 2)), 2)
    ]


def test_equal_data_centres_in_name_order():
    assert tried(topology({"c": 4, "b": 4, "a": 4}), data=2)[0] == ((("a", 2), ("b", 2)), 2)


def test_tensor_and_data_parallelism_stay_in_a_data_centre():
    assert tried(topology({"a": 15, "b": 15}), pipeline=2, data=1, tensor=8) == [
        ((("a", 1), ("b", 1)), 1)
    ]


def test_every_degree_that_divides_the_batch():
    found = tried(topology({"a": 12}), pipeline=2, data=None, global_batch=12)
    assert [data for _, data in found] == [1, 2, 3, 4, 6]


def test_three_data_centres_are_also_tried_in_the_order_of_least_delay():
    wan = (
        *links(("a", "b"), ("a", "c"), round_trip=0.03),
        *links(("b", "c"), round_trip=0.07),
    )
    places = topology({"a": 4, "b": 4, "c": 4}, wan)
    assert tried(places, pipeline=6, profile=profile(6)) == [
        ((("a", 2), ("b", 2), ("c", 2)), 2),
        ((("b", 2), ("a", 2), ("c", 2)), 2),
    ]


def test_neighbours_without_a_link_are_rejected_with_the_reason():
    places = topology({"a": 4, "b": 4, "c": 4}, links(("a", "c"), ("b", "c")))
    found = candidates(places, workload(pipeline=6, profile=profile(6)))
    assert [p.segments for p in found.placements] == [(("a", 2), ("c", 2), ("b", 2))]
    (rejected,) = found.rejected
    assert rejected.segments == (("a", 2), ("b", 2), ("c", 2))
    assert rejected.reason.code == "LinkMissing"
    assert rejected.reason.sentence == (
        "there is no WanLink from a to b, which are neighbours in the pipeline"
    )


def test_a_link_in_one_direction_is_not_enough():
    places = topology({"a": 4, "b": 4}, links(("a", "b"))[:1])
    assert (
        candidates(places, workload())
        .rejected[0]
        .reason.sentence.startswith("there is no WanLink from b to a")
    )


def test_only_allowed_data_centres_are_used():
    places = topology({"a": 8, "b": 8})
    assert tried(places, allowed=("b",)) == [((("b", 4),), 2)]


def test_a_fixed_placement_is_the_only_candidate():
    places = topology({"a": 8, "b": 8, "c": 8})
    fixed = {"placement": "Fixed", "fixed": (("c", 1), ("a", 3))}
    assert tried(places, **fixed) == [((("c", 1), ("a", 3)), 2)]
    assert tried(places, **fixed, data=None, global_batch=8) == [
        ((("c", 1), ("a", 3)), 1),
        ((("c", 1), ("a", 3)), 2),
    ]


def test_a_fixed_placement_that_does_not_fit_says_which_data_centre_lacks_what():
    places = topology({"a": 4, "b": 8, "c": 9})
    fixed = (("c", 1), ("a", 3))
    assert reasons(places, placement="Fixed", fixed=fixed) == [
        (
            "NoFeasiblePlacement",
            "4 stages need 2 (tensor 1 x data 2) GPUs each and do not fit: c has 9 free GPUs, "
            "room for 4 stages; a has 4 free GPUs, room for 2 of its 3 stages",
        ),
        ("NoFeasiblePlacement", "a has 4 free GPUs, room for 2 of its 3 stages"),
    ]


def test_a_shortage_names_every_data_centre():
    assert reasons(topology({"dc-east": 2, "dc-west": 20}), tensor=8, data=1) == [
        (
            "NoFeasiblePlacement",
            "4 stages need 8 (tensor 8 x data 1) GPUs each and do not fit: dc-west has 20 free "
            "GPUs, room for 2 stages; dc-east has 2 free GPUs and one stage needs 8 "
            "(tensor 8 x data 1)",
        ),
        (
            "NoFeasiblePlacement",
            "dc-east has 2 free GPUs and one stage needs 8 (tensor 8 x data 1)",
        ),
    ]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"pipeline": 9}, "8 layers cannot make 9 stages; every stage needs a layer"),
        ({"tensor": 0}, "must be at least 1; one is 0"),
        ({"data": -1}, "must be at least 1; one is -1"),
        ({"connections": 0}, "must be at least 1; one is 0"),
        ({"data": 3}, "16 samples does not divide into micro-batches of 1 on 3 replicas"),
        (
            {"data": None, "micro_batch": 5},
            "16 samples does not divide into micro-batches of 5 on any degree that fits",
        ),
        (
            {"placement": "Fixed", "fixed": (("a", 3),)},
            "the placement fixes 3 stages, but the pipeline has 4",
        ),
    ],
)
def test_impossible_parallelism_is_one_sentence(values, sentence):
    ((code, text),) = reasons(topology({"a": 99}), **values)
    assert code == "InvalidParallelism"
    assert sentence in text


def test_unknown_data_centres_are_named():
    places = topology({"a": 8, "b": 8})
    assert reasons(places, allowed=("a", "x")) == [
        ("UnknownDataCenter", "there is no data centre 'x'; known: a, b")
    ]
    assert reasons(places, placement="Fixed", fixed=(("y", 4),))[0][0] == "UnknownDataCenter"
    assert reasons(Topology(()))[0] == ("NoDataCenters", "no data centre is known")


def test_data_centres_without_gpus_are_no_candidates():
    assert reasons(topology({"a": 0}), data=None)[0][1].endswith(
        "a has 0 free GPUs and one stage needs 1 (tensor 1 x data 1)"
    )


def test_the_order_of_the_input_does_not_matter():
    places = topology({"a": 4, "b": 4, "c": 4})
    turned = replace(places, data_centers=places.data_centers[::-1], links=places.links[::-1])
    assert candidates(places, workload()) == candidates(turned, workload())


def steps(gpus, segments, data=1, wan=None, **values):
    places = topology(gpus, wan)
    found = neighbours(
        Space(places, workload(data=data, **values)), placement(*segments, data=data)
    )
    return [each.segments for each in found]


def test_neighbours_are_one_step_away_and_fit():
    assert steps({"a": 4, "b": 4}, (("a", 3), ("b", 1))) == [
        (("a", 2), ("b", 2)),
        (("a", 4),),
        (("b", 1), ("a", 3)),
    ]
    assert (("c", 3), ("b", 1)) in steps({"a": 4, "b": 4, "c": 3}, (("a", 3), ("b", 1)))
    assert (("a", 2), ("c", 1), ("b", 1)) in steps({"a": 4, "b": 4, "c": 3}, (("a", 3), ("b", 1)))
    assert (("c", 3), ("b", 1)) not in steps({"a": 4, "b": 4, "c": 2}, (("a", 3), ("b", 1)))
    assert steps({"a": 4}, (("a", 4),)) == []


def test_neighbours_keep_to_the_policy_and_to_links():
    fixed = {"placement": "Fixed", "fixed": (("a", 2), ("b", 2))}
    assert steps({"a": 4, "b": 4}, (("a", 2), ("b", 2)), **fixed) == []
    assert steps({"a": 4, "b": 4}, (("a", 4),), allowed=("a",)) == []
    assert steps({"a": 4, "b": 4}, (("a", 4),), wan=()) == [(("b", 4),)]


@given(
    gpus=st.lists(st.integers(0, 6), min_size=1, max_size=4),
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=3),
)
def test_a_step_keeps_every_stage_and_every_data_centre_once(gpus, counts):
    names = ["a", "b", "c", "d"][: len(gpus)]
    segments = tuple(zip(names, counts, strict=False))
    room = dict(zip(names, gpus, strict=True))
    for step in steps(room, segments):
        assert sum(count for _, count in step) == sum(count for _, count in segments)
        assert len({name for name, _ in step}) == len(step)
        assert all(0 < count <= room[name] for name, count in step)
        assert step != segments
