"""What a data centre leaves behind, and what keeps it from leaving."""

from typing import Any

import pytest

from geotrain.api import labels
from geotrain.api.objects import PODS, SERVICES
from geotrain.api.v1alpha1 import GeoTrainingJob, WanLink
from geotrain.cli import leaving
from support import manifests
from support.pools import PLAN


def job(name: str, plan: Any = PLAN, suspend: bool = False, **status: Any) -> GeoTrainingJob:
    manifest = manifests.training_job(name, "team-a", suspend=suspend)
    manifest["status"] = {**status, **({"plan": plan} if plan else {})}
    return GeoTrainingJob.from_manifest(manifest)


def test_jobs_that_run_or_wait_there_are_named() -> None:
    jobs = [
        job("runs"),
        job("new", plan=None),
        job("held", suspend=True),
        job("done", completionTime="2026-01-01T00:00:00Z"),
    ]
    assert leaving.jobs_of(jobs, "dc-west") == ["team-a/runs"]
    assert leaving.jobs_of(jobs, "dc-north") == []


def pod(center: str, phase: str = "Running", **tags: str) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "team-a", "name": "p", "labels": tags},
        "spec": {"nodeSelector": {labels.DATA_CENTER: center}},
        "status": {"phase": phase},
    }


JOB = {labels.JOB: "gpt", labels.JOB_UID: "1"}
POOL = {labels.POOL: "llama", labels.POOL_UID: "2", labels.JOB: "gpt"}


def test_pods_that_run_there_are_told_by_their_owner() -> None:
    pods = [
        pod("dc-west", **JOB),
        pod("dc-west", **POOL),
        pod("dc-east", **{**JOB, labels.JOB: "other"}),
        pod("dc-west", "Succeeded", **{**JOB, labels.JOB: "ended"}),
        pod("dc-west"),
    ]
    assert leaving.pods_of(pods, "dc-west") == ["team-a/gpt", "team-a/llama"]


@pytest.mark.parametrize(
    ("resource", "manifest", "alone", "left"),
    [
        (PODS, pod("dc-west", **JOB), True, True),
        (PODS, pod("dc-west", **JOB), False, True),
        (PODS, pod("dc-east", **JOB), False, False),
        (PODS, pod("dc-east", **JOB), True, True),
        (PODS, pod("x", **{labels.ROLE: labels.ROLE_PROBE}), False, True),
        (SERVICES, {"metadata": {"labels": JOB}}, True, True),
        (SERVICES, {"metadata": {"labels": JOB}}, False, False),
        (SERVICES, {"metadata": {"labels": POOL}}, True, True),
        (SERVICES, {"metadata": {}}, True, False),
    ],
)
def test_only_what_is_ours_and_of_the_data_center_goes(
    resource: Any, manifest: Any, alone: bool, left: bool
) -> None:
    assert leaving.is_left(resource, manifest, "dc-west", alone=alone) is left


def test_links_that_name_it_are_told() -> None:
    links = [WanLink.from_manifest(manifests.wan_link(n, **{"from": a, "to": b}))
             for n, a, b in (("one", "dc-a", "dc-b"), ("two", "dc-c", "dc-a"),
                             ("three", "dc-b", "dc-c"))]  # fmt: skip
    assert leaving.links_of(links, "dc-a") == ["one", "two"]
