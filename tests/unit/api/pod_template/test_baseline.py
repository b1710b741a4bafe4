"""Pod Security baseline, held to the list of cases that the chart's policy is held to as well."""

import copy
from pathlib import Path

import pytest
import yaml

from geotrain.api.pod_template.baseline import baseline_faults
from geotrain.api.pod_template.fields import field_faults
from support import manifests

FILE = Path(__file__).parents[3] / "data/pod_security_cases.yaml"
CASES = yaml.safe_load(FILE.read_text())
KINDS = ("containers", "initContainers", "ephemeralContainers")


def faults(template):
    return [str(each) for each in (*field_faults(template["spec"]), *baseline_faults(template))]


def templates(case):
    """Each place where a case holds, with the path of its fragment."""
    made = {"metadata": {}, "spec": copy.deepcopy(manifests.POD["spec"])}
    made["metadata"] |= case.get("metadata", {})
    made["spec"] |= case.get("pod", {})
    if "container" not in case:
        yield ("metadata." if "metadata" in case else "spec."), made
        return
    for kind in KINDS:
        changed = copy.deepcopy(made)
        container = {"name": "probed", "image": "example.com/probed", **case["container"]}
        changed["spec"][kind] = [container]
        yield f"spec.{kind}[0].", changed


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["title"])
def test_a_template_is_judged_as_the_standard_says(case):
    for prefix, template in templates(case):
        found = faults(template)
        if case.get("allowed"):
            assert found == []
        else:
            path = f"{prefix}{case['field']}: "
            told = [each for each in found if each.startswith(path)]
            assert told, found
            assert any(case["right"] in each for each in told), told
