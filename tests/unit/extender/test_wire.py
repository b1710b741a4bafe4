import pytest

from geotrain.errors import InputError
from geotrain.fitting import Filtered
from geotrain.roles.extender import wire
from support.scheduling import node_manifest, rank_manifest

POD = rank_manifest(0)


def test_a_question_by_names():
    question = wire.parse_question({"Pod": POD, "Nodes": None, "NodeNames": ["a", "b"]})
    assert question.pod.key == ("team-a", "gpt-r0")
    assert question.names == ["a", "b"]
    assert wire.filter_result(question, Filtered(("a",), {"b": "node is cordoned"})) == {
        "NodeNames": ("a",),
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {"b": "node is cordoned"},
        "Error": "",
    }


def test_where_asking_again_may_help_the_scheduler_is_made_to():
    question = wire.parse_question({"Pod": POD, "NodeNames": ["a"]})
    answer = wire.filter_result(question, Filtered((), {"a": "node is full"}, retry="node is full"))
    assert answer == {"Error": "geotrain extender: node is full"}


def test_a_question_by_whole_nodes_is_answered_with_nodes():
    a, b = node_manifest("a"), node_manifest("b")
    question = wire.parse_question({"Pod": POD, "Nodes": {"items": [a, b]}, "NodeNames": None})
    assert question.names == ["a", "b"]
    result = wire.filter_result(question, Filtered(("b",), {"a": "node is cordoned"}))
    assert result["Nodes"] == {"items": [b]}
    assert "NodeNames" not in result


def test_no_nodes_at_all():
    assert wire.parse_question({"Pod": POD, "Nodes": {"items": None}}).names == []


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ([], "ExtenderArgs is no JSON object"),
        ({"NodeNames": []}, "Pod is no JSON object"),
        ({"Pod": {}, "NodeNames": []}, "Pod cannot be read: 'name'"),
        ({"Pod": {"metadata": {"name": "p"}, "spec": [1]}, "NodeNames": []}, "Pod cannot be read"),
        (
            {"Pod": {"metadata": {"name": "p"}, "spec": {"overhead": {"cpu": "x"}}}},
            "Pod cannot be read: 'x' is not a quantity of cpu",
        ),
        ({"Pod": POD}, "Nodes, when NodeNames is missing, is no JSON object"),
        ({"Pod": POD, "NodeNames": "a"}, "NodeNames is no list of names"),
        ({"Pod": POD, "NodeNames": [1]}, "NodeNames is no list of names"),
        ({"Pod": POD, "Nodes": {"items": [{}]}}, "a node's metadata is no JSON object"),
    ],
)
def test_what_is_no_question_is_refused(document, sentence):
    with pytest.raises(InputError, match=sentence.replace("(", r"\(")):
        wire.parse_question(document)


def test_victims_by_uid():
    victims = {
        "a": {"Pods": [{"UID": "u"}, {"UID": "v"}], "NumPDBViolations": 1},
        "b": {"Pods": None},
    }
    preemption = wire.parse_preemption({"Pod": POD, "NodeNameToMetaVictims": victims})
    assert preemption.victims == {"a": ["u", "v"], "b": []}
    assert wire.preemption_result(preemption, ["a"]) == {
        "NodeNameToMetaVictims": {
            "a": {"Pods": [{"UID": "u"}, {"UID": "v"}], "NumPDBViolations": 1}
        }
    }


def test_victims_as_whole_pods():
    pod = rank_manifest(1, metadata={"uid": "u"})
    victims = {"a": {"Pods": [pod], "NumPDBViolations": 0}}
    preemption = wire.parse_preemption({"Pod": POD, "NodeNameToVictims": victims})
    assert preemption.victims == {"a": ["u"]}
    assert preemption.violations == {"a": 0}


def test_no_victims():
    assert wire.parse_preemption({"Pod": POD, "NodeNameToMetaVictims": None}).victims == {}


@pytest.mark.parametrize(
    "document",
    [
        None,
        {"Pod": POD, "NodeNameToMetaVictims": ["a"]},
        {"Pod": POD, "NodeNameToMetaVictims": {"a": ["u"]}},
        {"Pod": POD, "NodeNameToMetaVictims": {"a": {"Pods": ["u"]}}},
    ],
)
def test_what_are_no_victims_is_refused(document):
    with pytest.raises(InputError, match="is no JSON object"):
        wire.parse_preemption(document)


def test_scores():
    assert wire.priorities({"a": 3}) == [{"Host": "a", "Score": 3}]
