from dataclasses import replace

import pytest

from geotrain.model.plan import Plan
from geotrain.model.topology import MessageRates
from geotrain.planning.placement.choose import choose
from support.planning import links, profile, topology, workload

WORK = workload(data=None, global_batch=32, profile=profile(boundary=20_000_000))


def places(capacity, **values):
    return topology({"a": 4, "b": 4}, links(("a", "b"), capacity=capacity, **values))


def found(where, work=WORK):
    chosen = choose(where, work)
    assert isinstance(chosen, Plan)
    return chosen


def rate(sentence):
    text = sentence.split(" from ")[1].split("bit/s")[0]
    return float(text[:-1]) * {"M": 1e6, "G": 1e9}[text[-1]]


@pytest.mark.parametrize("policy", ["Atlas", "GPipe"])
@pytest.mark.parametrize("pod", [None, 5e6])
def test_the_rate_from_which_on_a_second_data_centre_pays_is_the_one_that_makes_it_win(pod, policy):
    work = replace(WORK, schedule=policy)
    slow = found(places(20e6, per_pod_capacity=pod), work)
    assert len(slow.placement.segments) == 1
    (note,) = slow.notes
    assert note.startswith("one data centre is best; b as a second would pay, with 2 replicas")
    assert ("a pod pair" in note) == (pod is not None)
    pays = rate(note)

    def at(factor):
        scaled = pays * factor
        faster = places(scaled * 20e6 / (pod or 20e6), per_pod_capacity=pod and scaled)
        return found(faster, work)

    assert len(at(1.01).placement.segments) == 2
    assert at(1.01).notes == ()
    assert len(at(0.7).placement.segments) == 1


def test_what_small_messages_reach_grows_with_the_link():
    slow = places(20e6, message_rates=MessageRates((1e6, 40e6), (1e6, 5e6)))
    (note,) = found(slow).notes
    pays = rate(note)
    assert pays > slow.links[0].pod_rate == 5e6
    points = MessageRates((1e6, 40e6), (pays / 5, pays))
    assert len(found(places(4 * pays, message_rates=points)).placement.segments) == 2


def test_where_latency_decides_no_bandwidth_helps():
    assert found(places(20e6, round_trip=5.0)).notes == ()


def test_one_data_centre_alone_has_no_second():
    assert found(topology({"a": 4})).notes == ()


def test_memory_that_holds_no_micro_batch_rules_a_second_one_out():
    heavy = profile(boundary=20_000_000, parameters=1000)
    work = replace(WORK, profile=heavy, memory_per_gpu=10**12)
    assert found(places(20e6), work).notes
