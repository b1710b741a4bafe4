"""What pages say of reasons is so: each one is explained, exists, and is set somewhere."""

import re

import pytest

from geotrain.api.reasons import ConditionType, Reason
from geotrain.model.decision import NoPlan
from support import pages
from support.pages import ROOT

SOURCES = {
    path: path.read_text()
    for path in (ROOT / "operator" / "geotrain").rglob("*.py")
    # where they are explained, sorted, and listed
    if path.name not in ("reasons.py", "events.py") and path.parts[-2:] != ("model", "decision.py")
}
TROUBLE = pages.read("docs/troubleshooting.md")
NAMED = re.compile(r"`([A-Z][a-z]+(?:[A-Z][a-zA-Z]*)+)`")

OTHER_WORDS = {
    # kinds and files
    "BandwidthSchedule", "ConfigMap", "CiliumNetworkPolicy", "DataCenter", "EndpointSlices",
    "GeoTrainingJob", "NetworkPolicy", "PrefillPool", "WanLink", "ProcessGroupNCCL",
    "AzureLLMInferenceTrace_code",
    # enumerations of fields
    "DropReplica", "OneFOneB", "GeoPipe", "ZeroBubble", "RestartGang",
    # columns of a table of Azure's, and of the router's answers to clients
    "ContextTokens", "GeneratedTokens",
    "NoBubbleFits", "NoWorker", "ObjectiveMissed", "QueuesFull", "TooManyRequests",
    # of the sidecar's /status, which the condition says in other words
    "NotMeasured",
}  # fmt: skip
"""Words in CamelCase that pages put into code and that are no reasons of conditions."""


@pytest.mark.parametrize("reason", Reason)
def test_each_reason_is_set_somewhere(reason):
    by_name = re.compile(rf"\b(Reason|NoPlan)\.{reason.name}\b")
    by_text = re.compile(rf"[\"']{reason.value}[:\"']")  # from a sidecar
    assert any(by_name.search(text) or by_text.search(text) for text in SOURCES.values()), (
        f"nobody sets {reason.value}: take it out of api/reasons.py"
    )


@pytest.mark.parametrize("code", NoPlan)
def test_each_refusal_of_the_planner_is_explained(code):
    assert Reason(code.value) is Reason[code.name]


@pytest.mark.parametrize("kind", ConditionType)
def test_each_condition_is_set_somewhere(kind):
    used = re.compile(rf"\bConditionType\.{kind.name}\b")
    assert any(used.search(text) for text in SOURCES.values())


@pytest.mark.parametrize("reason", Reason)
def test_each_reason_has_its_place_in_troubleshooting(reason):
    assert f"`{reason.value}`" in TROUBLE


def test_each_reason_that_a_page_names_exists():
    known = {*(each.value for each in Reason), *(each.value for each in ConditionType)}
    for page in pages.pages():
        if page.startswith("docs/reference/"):
            continue
        unknown = set(NAMED.findall(pages.read(page))) - known - OTHER_WORDS
        assert not unknown, f"{page} names {sorted(unknown)}, which are no reasons"
