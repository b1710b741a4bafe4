"""What geotrain's account needs in a member is what the chart grants there."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from geotrain.api import rights
from geotrain.api.rights import Right

CHART = Path(__file__).parents[3] / "charts/geotrain/templates"
IDENTITY = {
    "apiGroups": [""],
    "resources": ["namespaces"],
    "resourceNames": ["kube-system"],
    "verbs": ["get"],
}


def granted() -> list[dict[str, Any]]:
    """The rules of the chart's helper, for a cluster in which jobs are placed."""
    helpers = (CHART / "_helpers.tpl").read_text()
    found = re.search(r'define "geotrain.memberRules" -}}\n(.*?)\n{{- end }}\n', helpers, re.S)
    assert found is not None
    rules: list[dict[str, Any]] = yaml.safe_load(re.sub(r"{{.*?}}", "", found[1]))
    return [*rules, IDENTITY]


def test_the_chart_grants_all_that_is_needed() -> None:
    assert rights.lacking(rights.MEMBER, granted()) == ()


@pytest.mark.parametrize("template", ["member/access.yaml", "hub/rbac.yaml"])
def test_the_cluster_may_be_told_apart(template: str) -> None:
    text = (CHART / template).read_text()
    assert "resources: [namespaces]\n  resourceNames: [kube-system]\n  verbs: [get]\n" in text


EVERYTHING = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}


@pytest.mark.parametrize(
    ("rules", "lacking"),
    [
        ([EVERYTHING], ""),
        ([], "get, list pods; get, list pods/proxy"),
        ([{"apiGroups": [""], "resources": ["pods", "*/proxy"], "verbs": ["get", "list"]}], ""),
        ([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
         "list pods; get, list pods/proxy"),
        ([{"apiGroups": ["apps"], "resources": ["*"], "verbs": ["*"]}],
         "get, list pods; get, list pods/proxy"),
        ([{**EVERYTHING, "resourceNames": ["one"]}], "get, list pods; get, list pods/proxy"),
        ([{"verbs": ["*"]}], "get, list pods; get, list pods/proxy"),
    ],
)  # fmt: skip
def test_what_is_not_allowed_is_named(rules: list[dict[str, Any]], lacking: str) -> None:
    wanted = [Right("", ("pods", "pods/proxy"), ("get", "list"))]
    assert "; ".join(map(str, rights.lacking(wanted, rules))) == lacking


def test_a_right_on_one_object_suffices_for_that_one() -> None:
    rule = {
        "apiGroups": [""],
        "resources": ["serviceaccounts/token"],
        "resourceNames": ["geotrain-member"],
        "verbs": ["create"],
    }
    assert rights.lacking([rights.token("geotrain-member")], [rule]) == ()
    (lacking,) = rights.lacking([rights.token("other")], [rule])
    assert str(lacking) == "create serviceaccounts/token other"
    assert str(Right("apps", ("deployments",), ("get",))) == "get deployments.apps"


def test_an_administrator_is_known() -> None:
    assert rights.is_all_powerful([EVERYTHING])
    assert not rights.is_all_powerful([{**EVERYTHING, "verbs": ["get"]}, {}])
