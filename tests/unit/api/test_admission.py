"""The admission policy's text. An API server tries what it does (tests/integration/charts)."""

import re
from pathlib import Path

import pytest
import yaml

from geotrain.api import labels
from geotrain.api.admission import template_policy

CASES = yaml.safe_load((Path(__file__).parents[2] / "data/pod_security_cases.yaml").read_text())
POLICY = template_policy()
VARIABLES = {each["name"]: each["expression"] for each in POLICY["variables"]}
SENTENCES = "\n".join(VARIABLES.values())
REFUSED = [case for case in CASES if "field" in case]


def test_each_variable_uses_only_those_before_it():
    known: list[str] = []
    for name, expression in VARIABLES.items():
        assert set(re.findall(r"variables\.(\w+)", expression)) <= set(known)
        known.append(name)
    (validation,) = POLICY["validations"]
    assert validation["expression"] == "variables.problems.size() == 0"


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case["title"])
def test_each_field_that_is_refused_has_its_sentence(case):
    field = re.sub(r"^containers\[0\]\.", "", case["field"])
    parts = [re.escape(part) for part in re.split(r"\[[^\]]*\]", field)]
    between = r"\[' \+ (?:string\(j\)|k) \+ '\]"
    assert re.search(rf"[.']{between.join(parts)}: ", SENTENCES)


def test_nothing_is_used_that_the_oldest_kubernetes_lacks():
    """ext.Lists came with 1.34; two-variable macros such as transformList with 1.32."""
    assert not re.search(r"\.(flatten|slice|sort|sortBy|distinct|first|last)\(|lists\.", SENTENCES)
    assert ".transformList(i, e, " in SENTENCES


def test_objects_from_before_are_judged_by_a_new_template_alone():
    (condition,) = POLICY["matchConditions"]
    assert condition["expression"].startswith("request.operation == 'CREATE' || ")
    (rule,) = POLICY["matchConstraints"]["resourceRules"]
    assert rule["resources"] == ["geotrainingjobs", "prefillpools"]  # and not their status
    assert POLICY["failurePolicy"] == "Fail"


def test_of_the_node_only_geotrains_folder_is_open():
    assert f"x.hostPath.path == '{labels.NODE_DIRECTORY}'" in VARIABLES["beyond"]


def test_sentences_are_texts_that_cel_can_read():
    for expression in VARIABLES.values():
        assert '"' not in expression
        assert expression.count("'") % 2 == 0
        assert "@" not in expression
