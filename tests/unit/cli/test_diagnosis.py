"""What doctor says of a whole installation, for facts of every kind."""

from copy import deepcopy
from typing import Any

import pytest

from geotrain.api import crd
from geotrain.api.v1alpha1 import KINDS, DataCenter, GeoTrainingJob, WanLink
from geotrain.cli import diagnosis, findings
from geotrain.cli.diagnosis import Hub
from geotrain.cli.findings import Level
from support import manifests

NOW = 1767225600.0  # 2026-01-01
CRDS = tuple(crd.definition(kind) for kind in KINDS)
READY = {"status": {"availableReplicas": 1}}
GOOD: dict[str, Any] = {
    "kubernetes": "v1.36.0",
    "version": "1.0",
    "definitions": CRDS,
    "controller": READY,
    "settings": "log: {level: INFO}",
    "ahead": 0.3,
}


def said(found: list[findings.Finding], level: Level) -> str:
    return "\n".join(each.sentence for each in found if each.level is level)


def test_a_good_hub_has_no_findings() -> None:
    found = diagnosis.hub(Hub(**GOOD), "1.0")
    assert findings.serious(found) == []
    assert "the controller is up" in said(found, Level.OK)


def older() -> tuple[Any, ...]:
    """CRDs in which DataCenter lacks its newest fields."""
    result = deepcopy(CRDS)
    for each in result:
        spec = each["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        if each["metadata"]["name"] == "datacenters.geotrain.io":
            del spec["properties"]["network"]
    return result


@pytest.mark.parametrize(
    ("changes", "level", "says"),
    [
        ({"kubernetes": "v1.30.0"}, Level.ERROR, "Kubernetes v1.30.0 is too old"),
        ({"version": "0.9"}, Level.WARNING, "controller is of version 0.9"),
        ({"definitions": CRDS[1:]}, Level.ERROR, "is missing; kubectl apply --server-side -f crds"),
        ({"definitions": older()}, Level.ERROR,
         "the CRD datacenters.geotrain.io is older: it lacks spec.network, spec.network.gpuRate,"
         " spec.network.latency and 4 more"),
        ({"controller": None}, Level.ERROR, "there is no controller"),
        ({"controller": {}}, Level.ERROR, "the controller has no ready pod"),
        ({"settings": "log: {level: LOUD}"}, Level.ERROR, "settings: log.level"),
        ({"settings": "a: ["}, Level.ERROR, "are not YAML"),
        ({"ahead": 30.0}, Level.WARNING, "30 s ahead of this machine's"),
        ({"ahead": -30.0}, Level.WARNING, "30 s behind this machine's"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_hub_is_said(
    changes: dict[str, Any], level: Level, says: str
) -> None:
    assert says in said(diagnosis.hub(Hub(**{**GOOD, **changes}), "1.0"), level)


@pytest.mark.parametrize("changes", [{"settings": None}, {"ahead": None}])
def test_what_is_not_there_is_not_judged(changes: dict[str, Any]) -> None:
    assert findings.serious(diagnosis.hub(Hub(**{**GOOD, **changes}), "1.0")) == []


def condition(kind: str, status: str, reason: str, message: str = "so it is") -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2025-12-31T23:00:00Z",
    }


def center(*conditions: dict[str, str], contact: str = "2025-12-31T23:59:50Z") -> DataCenter:
    manifest = manifests.data_center("dc-west")
    manifest["status"] = {"conditions": list(conditions), "lastContact": contact}
    return DataCenter.from_manifest(manifest)


REACHED = condition("Reachable", "True", "Contacted")


def test_a_good_data_center_has_no_findings() -> None:
    found = diagnosis.center(center(REACHED, condition("AgentsReady", "True", "X", "")), NOW)
    assert findings.serious(found) == []
    assert said(found, Level.OK) == "Reachable: so it is\nAgentsReady"


@pytest.mark.parametrize(
    ("conditions", "level", "says"),
    [
        ((), Level.ERROR, "the controller has not looked at it yet"),
        ((condition("Reachable", "False", "Unreachable"),), Level.ERROR,
         "geotrain join dc-west --server URL gives another"),
        ((condition("Reachable", "False", "TokenExpired"),), Level.ERROR,
         "geotrain join dc-west --context MEMBER makes a new way there"),
        ((condition("Reachable", "False", "AnotherCluster"),), Level.ERROR,
         "geotrain leave dc-west"),
        ((REACHED, condition("AgentsReady", "Unknown", "Unknown", "")), Level.NOTE, "Unknown"),
        ((REACHED, condition("AgentsReady", "False", "SchedulerMissing")), Level.ERROR,
         "member.enabled=true"),
        ((REACHED, condition("NetworkReady", "False", "PodNetworkUnknown")), Level.ERROR,
         "geotrain join dc-west --pod-cidr CIDR"),
        ((REACHED, condition("TokenFresh", "False", "TokenNotRenewed")), Level.WARNING,
         "upgrade the chart in dc-west"),
        ((REACHED, condition("TokenFresh", "False", "TokenExpired")), Level.ERROR,
         "geotrain join dc-west"),
    ],
)  # fmt: skip
def test_what_the_controller_saw_is_said_with_what_to_do(
    conditions: Any, level: Level, says: str
) -> None:
    assert says in said(diagnosis.center(center(*conditions), NOW), level)


def test_a_controller_that_fell_asleep_is_noticed() -> None:
    found = diagnosis.center(center(REACHED, contact="2025-12-31T23:00:00Z"), NOW)
    assert "the controller last looked 3600 s ago" in said(found, Level.ERROR)


def link(name: str, source: str, target: str, *conditions: Any, **spec: Any) -> WanLink:
    manifest = manifests.wan_link(name, **{"from": source, "to": target, **spec})
    manifest["status"] = {"conditions": list(conditions)}
    return WanLink.from_manifest(manifest)


def test_links_are_checked_against_the_data_centers() -> None:
    found = diagnosis.links(
        [
            link("a-b", "a", "b", condition("Valid", "True", "LinkValid")),
            link("a-gone", "a", "gone"),
            link("a-b-too", "a", "b", condition("Valid", "False", "OverlappingLink", "again")),
            link("b-c", "b", "c", condition("Measured", "False", "NotMeasured"), symmetric=False),
        ],
        ["a", "b", "c"],
    )
    assert "it names gone, which has not joined; geotrain join gone" in said(found, Level.ERROR)
    assert "again" in said(found, Level.ERROR)
    assert said(found, Level.NOTE) == "so it is"
    warnings = said(found, Level.WARNING)
    assert "no WanLink from a to c or from c to a" in warnings
    assert "no WanLink from c to b," in warnings
    assert "from a to b" not in warnings


def job(*conditions: Any, suspend: bool = False, **status: Any) -> GeoTrainingJob:
    manifest = manifests.training_job("gpt", "team-a", suspend=suspend)
    manifest["status"] = {"conditions": list(conditions), **status}
    return GeoTrainingJob.from_manifest(manifest)


PLANNED = condition("Planned", "True", "PlanReady")
RUNS = (PLANNED, condition("Reserved", "True", "X"), condition("PodsReady", "True", "X"))


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (job(condition("Planned", "False", "LinkMissing")), "Planned: LinkMissing: so it is"),
        (job(PLANNED, condition("Reserved", "False", "WaitingForCapacity", "")),
         "WaitingForCapacity; geotrain explain gpt"),
        (job(*RUNS, condition("WindowsEnforced", "False", "NotShaped")), "NotShaped: so it is"),
    ],
)  # fmt: skip
def test_jobs_that_are_stuck_say_why(found: GeoTrainingJob, says: str) -> None:
    assert says in said(diagnosis.jobs([found], NOW), Level.WARNING)


@pytest.mark.parametrize(
    "found",
    [
        job(),
        job(*RUNS),
        job(*RUNS, condition("WindowsEnforced", "True", "WindowsMeasured")),
        job(*RUNS, condition("WindowsEnforced", "False", "NoWindows")),
        job(condition("Planned", "False", "X"), suspend=True),
        job(condition("Reserved", "False", "X"), completionTime="2025-12-31T23:00:00Z"),
    ],
)
def test_jobs_that_run_rest_or_are_done_are_no_finding(found: GeoTrainingJob) -> None:
    assert diagnosis.jobs([found], NOW) == []


def test_a_job_that_just_began_to_wait_is_not_stuck() -> None:
    waiting = job(condition("Planned", "False", "LinkMissing"))
    assert diagnosis.jobs([waiting], NOW - 3590) == []


def test_namespaces_of_jobs_are_opted_in() -> None:
    spaces = {"in": {"geotrain.io/enabled": "true"}, "out": {}, "gone": None}
    found = diagnosis.namespaces(spaces, "dc-west")
    assert [each.message for each in found] == [
        "the namespace gone of a job does not exist there",
        "the namespace out of a job is not opted in there",
    ]
    assert found[1].action == "kubectl label namespace out geotrain.io/enabled=true"
