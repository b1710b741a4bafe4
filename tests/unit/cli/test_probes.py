"""Probe pods, and what their answers mean."""

from typing import Any

import pytest

from geotrain.api import labels
from geotrain.cli import findings, probes
from geotrain.cli.findings import Level
from geotrain.cli.probes import Answer, Image, Placed

WEST = Placed("dc-west", "geotrain-probe-1", "10.1.0.5")
EAST = Placed("dc-east", "geotrain-probe-2", "10.2.0.5")
THERE = Answer(name=EAST.pod)
BACK = Answer(name=WEST.pod)
TIMEOUT = Answer(fault="timeout", said="no answer within 5 s")


def test_a_pair_that_connects_both_ways_is_well() -> None:
    found = probes.judge(WEST, EAST, THERE, BACK)
    assert [each.level for each in found] == [Level.OK, Level.OK]
    assert found[0].message == "pods of dc-west to pods of dc-east: connected"


@pytest.mark.parametrize(
    ("there", "back", "way", "cause"),
    [
        (TIMEOUT, BACK, "pods of dc-west to pods of dc-east",
         "on leaving dc-west or on entering dc-east"),
        (THERE, TIMEOUT, "pods of dc-east to pods of dc-west",
         "on leaving dc-east or on entering dc-west"),
        (TIMEOUT, None, "pods of dc-west to pods of dc-east", "no route from the pod network"),
        (Answer(fault="refused", said="reset"), None, "pods of dc-west", "something rejects it"),
        (Answer(fault="unreachable", said="no route to host"), None, "pods of dc-west",
         "the nodes of dc-west have no route to the pod network of dc-east"),
        (Answer(name="stranger"), None, "pods of dc-west", "the pod networks overlap"),
        (Answer(), None, "pods of dc-west", "the pod networks overlap"),
    ],
)  # fmt: skip
def test_a_failure_says_which_way_and_why(
    there: Answer, back: Answer | None, way: str, cause: str
) -> None:
    errors = findings.errors(probes.judge(WEST, EAST, there, back))
    assert len(errors) == 1
    assert errors[0].message.startswith(way)
    assert cause in errors[0].action


def test_both_ways_blocked_are_two_errors() -> None:
    errors = findings.errors(probes.judge(WEST, EAST, TIMEOUT, TIMEOUT))
    assert len(errors) == 2
    assert all("drops it in silence" in each.action for each in errors)


def test_a_probe_that_could_not_be_asked_is_no_failure_of_the_way() -> None:
    found = probes.judge(WEST, EAST, None, BACK)
    assert [each.level for each in found] == [Level.WARNING, Level.OK]
    assert "the API server of dc-west does not reach pods" in found[0].message


def test_a_probe_that_does_not_run_says_why() -> None:
    (found,) = probes.judge(WEST, Placed("dc-east", fault="ErrImagePull"), None, None)
    assert found.level is Level.WARNING
    assert "not tried: the probe in dc-east does not run: ErrImagePull" in found.message


def deployment(container: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": container, "image": "geotrain:1", "imagePullPolicy": "Always"}]
    return {"spec": {"template": {"spec": {"containers": containers, **spec}}}}


def test_the_image_is_the_charts_own() -> None:
    secrets = [{"name": "registry"}]
    found = probes.image_of([deployment("kube"), deployment("extender", imagePullSecrets=secrets)])
    assert found == Image("geotrain:1", "Always", ({"name": "registry"},))
    assert probes.image_of([deployment("kube")]) is None


def test_a_probe_fits_restricted_and_says_whose_it_is() -> None:
    image = Image("geotrain:1", secrets=({"name": "registry"},))
    made = probes.pod("geotrain-probe-1", "ns", "key", image, ({"zone": "a"}, [{"key": "gpu"}]))
    assert made["metadata"]["labels"] == {
        labels.MANAGED_BY: labels.MANAGED_BY_VALUE,
        labels.ROLE: labels.ROLE_PROBE,
    }
    spec = made["spec"]
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert (spec["nodeSelector"], spec["tolerations"]) == ({"zone": "a"}, [{"key": "gpu"}])
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["automountServiceAccountToken"] is False
    assert container["args"] == ["probe"]


def test_taints_that_people_set_are_tolerated() -> None:
    taints = [
        {"key": "nvidia.com/gpu", "effect": "NoSchedule", "value": "present"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
    ]
    nodes = [{"spec": {"taints": taints}}, {"spec": {"taints": taints}}, {}]
    assert probes.tolerations(nodes) == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    ]


def test_a_question_names_the_other_probe() -> None:
    assert probes.question("key", EAST) == "key/connect?address=10.2.0.5&port=15002"


def status(**content: Any) -> dict[str, Any]:
    return {"status": content}


@pytest.mark.parametrize(
    ("manifest", "address"),
    [
        ({}, ""),
        (status(phase="Pending"), ""),
        (status(phase="Running", podIP="10.1.0.5"), "10.1.0.5"),
        (status(phase="Running", podIP="fd00::5", podIPs=[{"ip": "fd00::5"}, {"ip": "10.1.0.5"}]),
         "10.1.0.5"),
        (status(phase="Running", podIP="fd00::5"), "fd00::5"),
        (status(phase="Running", podIP="10.1.0.5",
                conditions=[{"type": "Ready", "status": "False"}]), ""),
    ],
)  # fmt: skip
def test_a_probe_has_an_address_once_it_is_ready(manifest: dict[str, Any], address: str) -> None:
    assert probes.address_of(manifest) == address


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        ({}, "it is Pending"),
        (status(containerStatuses=[{"state": {"terminated": {"exitCode": 2}}}]),
         "it ended with 2: the image there may be older"),
        (status(containerStatuses=[{"state": {"waiting": {"reason": "ErrImagePull"}}}]),
         "ErrImagePull"),
        (status(containerStatuses=[{"state": {"waiting": {"reason": "ContainerCreating"}}}]),
         "it is Pending"),
        (status(containerStatuses=[{"state": {}}]), "it is Pending"),
        (status(conditions=[{"type": "PodScheduled", "status": "False", "message": "0/1 nodes"}]),
         "0/1 nodes"),
        (status(conditions=[{"type": "PodScheduled", "status": "False"}]), "it is not scheduled"),
    ],
)  # fmt: skip
def test_a_probe_that_does_not_start_says_why(manifest: dict[str, Any], says: str) -> None:
    assert says in probes.trouble(manifest)


@pytest.mark.parametrize(("phase", "ended"), [("Failed", True), ("Succeeded", True), ("", False)])
def test_a_probe_that_has_ended_is_not_waited_for(phase: str, ended: bool) -> None:
    assert probes.has_ended(status(phase=phase)) is ended


def test_probes_that_were_left_are_stale() -> None:
    made = {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}
    assert not probes.is_stale(made, 1767225600.0 + 60)
    assert probes.is_stale(made, 1767225600.0 + 600)
    assert not probes.is_stale({"metadata": {}}, 1e12)


@pytest.mark.parametrize(("cidrs", "wrong"), [(["10.1.0.0/16"], 0), (["10.9.0.0/16"], 1), ([], 0)])
def test_a_probe_outside_of_the_known_networks_is_told_of(cidrs: list[str], wrong: int) -> None:
    assert len(probes.outside(WEST, cidrs)) == wrong
    assert probes.outside(Placed("dc-west", fault="x"), cidrs) == []
