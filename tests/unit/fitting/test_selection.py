import pytest

from geotrain.fitting import Requirement, Taint, Toleration
from geotrain.fitting.selection import refusal
from support.fitting import node, rank, stranger

GPU_TAINT = Taint("gpu", "true")


def test_a_node_of_the_pods_data_centre_takes_it():
    assert refusal(rank(0), node("n")) is None


def test_another_data_centre_does_not():
    assert refusal(rank(0, "dc-west"), node("n")) == "is in dc-east, not in dc-west"
    assert refusal(rank(0), node("n", "")) == "is in no data centre, not in dc-east"


def test_every_selected_label_must_match():
    pod = rank(0, node_selector={"zone": "b"})
    assert refusal(pod, node("n")) == "lacks the label zone=b"
    assert refusal(pod, node("n", labels={"zone": "b"})) is None


def test_a_cordoned_node_is_closed_to_all_who_do_not_tolerate_it():
    closed = node("n", unschedulable=True)
    assert refusal(rank(0), closed) == "is cordoned"
    brave = rank(0, tolerations=(Toleration("node.kubernetes.io/unschedulable", "Exists"),))
    assert refusal(brave, closed) is None


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_taints_repel(effect):
    tainted = node("n", taints=(Taint("gpu", "true", effect),))
    assert refusal(rank(0), tainted) == f"has the taint gpu=true:{effect}"


def test_a_preference_does_not_repel():
    assert refusal(rank(0), node("n", taints=(Taint("a", "", "PreferNoSchedule"),))) is None


def test_a_taint_without_value_reads_well():
    assert refusal(rank(0), node("n", taints=(Taint("a"),))) == "has the taint a:NoSchedule"


@pytest.mark.parametrize(
    ("toleration", "borne"),
    [
        (Toleration("gpu", "Equal", "true", "NoSchedule"), True),
        (Toleration("gpu", "Equal", "true"), True),  # every effect
        (Toleration("gpu", "Exists"), True),
        (Toleration("", "Exists"), True),  # every taint
        (Toleration("gpu", "Equal", "false"), False),
        (Toleration("cpu", "Exists"), False),
        (Toleration("gpu", "Exists", "", "NoExecute"), False),
        (Toleration("gpu", "Gt", "true"), False),  # unknown operators bear nothing
    ],
)
def test_tolerations(toleration, borne):
    why = refusal(rank(0, tolerations=(toleration,)), node("n", taints=(GPU_TAINT,)))
    assert (why is None) is borne


@pytest.mark.parametrize(
    ("requirement", "matches"),
    [
        (Requirement("zone", "In", ("a", "b")), True),
        (Requirement("zone", "In", ("c",)), False),
        (Requirement("zone", "NotIn", ("c",)), True),
        (Requirement("none", "NotIn", ("c",)), True),
        (Requirement("zone", "NotIn", ("b",)), False),
        (Requirement("zone", "Exists"), True),
        (Requirement("none", "Exists"), False),
        (Requirement("none", "DoesNotExist"), True),
        (Requirement("zone", "DoesNotExist"), False),
        (Requirement("size", "Gt", ("3",)), True),
        (Requirement("size", "Gt", ("4",)), False),
        (Requirement("size", "Lt", ("5",)), True),
        (Requirement("size", "Lt", ("4",)), False),
        (Requirement("zone", "Gt", ("3",)), False),  # no number
        (Requirement("none", "Lt", ("3",)), False),
        (Requirement("size", "Gt", ("3", "4")), False),  # one bound, no more
        (Requirement("zone", "Like", ("b",)), False),  # unknown operators match nothing
        (Requirement("metadata.name", "In", ("n",), on_name=True), True),
        (Requirement("metadata.name", "In", ("m",), on_name=True), False),
    ],
)
def test_required_node_affinity(requirement, matches):
    pod = stranger("p", affinity=((requirement,),))
    why = refusal(pod, node("n", labels={"zone": "b", "size": "4"}))
    assert why == (None if matches else "does not match the pod's node affinity")


def test_terms_are_alternatives_and_an_empty_one_matches_nothing():
    yes, no = Requirement("zone", "Exists"), Requirement("none", "Exists")
    there = node("n", labels={"zone": "b"})
    assert refusal(stranger("p", affinity=((no,), (yes,))), there) is None
    assert refusal(stranger("p", affinity=((yes, no),)), there) is not None
    assert refusal(stranger("p", affinity=((),)), there) is not None
