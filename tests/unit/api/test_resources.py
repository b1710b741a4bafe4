"""Manifests become resources, or an InputError that names every wrong field."""

from types import MappingProxyType
from typing import Any

import pytest

from geotrain.api.v1alpha1 import KINDS, DataCenter, GeoTrainingJob, Resource, WanLink
from geotrain.errors import InputError
from support import manifests
from support.manifests import with_field


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_a_good_example_is_read(kind: type[Resource]) -> None:
    manifest = manifests.example(kind.__name__)
    resource = kind.from_manifest(manifest)
    assert resource.kind() == kind.__name__
    assert resource.name == manifest["metadata"]["name"]
    assert resource.namespace == manifest["metadata"].get("namespace", "")


def test_any_mapping_is_read() -> None:
    link = WanLink.from_manifest(MappingProxyType(manifests.wan_link()))
    assert (link.spec.source, link.spec.target) == ("dc-west", "dc-central")


def test_camel_case_is_only_outside() -> None:
    job = GeoTrainingJob.from_manifest(manifests.training_job(failurePolicy={"maxRestarts": 1}))
    assert job.spec.failure_policy.max_restarts == 1
    assert job.spec.batch.global_ == 16


def test_metadata_of_the_api_server_is_read() -> None:
    manifest = manifests.data_center()
    manifest["metadata"] |= {
        "uid": "u",
        "generation": 3,
        "managedFields": [],
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    center = DataCenter.from_manifest(manifest)
    assert (center.metadata.uid, center.metadata.generation) == ("u", 3)
    assert center.metadata.deletion_timestamp is None


def test_a_status_of_a_newer_version_is_read() -> None:
    manifest = {**manifests.data_center(), "status": {"future": 1, "gpus": {"free": 4}}}
    center = DataCenter.from_manifest(manifest)
    assert center.status.gpus is not None
    assert center.status.gpus.free == 4


def test_a_condition_is_found_by_its_type() -> None:
    condition = {
        "type": "Reachable",
        "status": "False",
        "reason": "Unreachable",
        "message": "no answer",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    center = DataCenter.from_manifest(
        {**manifests.data_center(), "status": {"conditions": [condition]}}
    )
    found = center.status.condition("Reachable")
    assert found is not None
    assert found.reason == "Unreachable"
    assert center.status.condition("AgentsReady") is None


def test_a_template_keeps_what_geotrain_does_not_know() -> None:
    template: dict[str, Any] = {
        "metadata": {"labels": {"team": "a"}},
        "spec": {
            "hostIPC": True,
            "containers": [{"name": "c", "image": "i", "envFrom": [{"secretRef": {"name": "s"}}]}],
        },
    }
    job = GeoTrainingJob.from_manifest(manifests.training_job(template=template))
    written = job.spec.template.to_manifest()
    assert written["spec"] == template["spec"]
    assert written["metadata"]["labels"] == {"team": "a"}


LINK = manifests.wan_link()


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (["a list"], "WanLink: a mapping is expected, not list"),
        (manifests.data_center(), "expected geotrain.io/v1alpha1 WanLink, found geotrain.io/v1"),
        ({**LINK, "apiVersion": "geotrain.io/v9"}, "found geotrain.io/v9 WanLink"),
        (with_field(LINK, "spec.capacity", ...), "WanLink: spec.capacity: Field required"),
        (with_field(LINK, "spec.capacity", "fast"), "spec.capacity: write bits per second like"),
        (with_field(LINK, "spec.capacity", "0"), "spec.capacity: write a rate above 0, like 5G"),
        (
            with_field(
                LINK, "spec.messageRates", [{"size": s, "rate": "1G"} for s in ("1M", "1k")]
            ),
            "WanLink: spec.messageRates: give the sizes in ascending order, each once",
        ),
        (with_field(LINK, "spec.tcpWindow", "0Ki"), "spec.tcpWindow: write a size above 0"),
        (with_field(LINK, "spec.colour", "blue"), "spec.colour: Extra inputs are not permitted"),
        (with_field(LINK, "spec.reservable", 2), "spec.reservable: Input should be less than"),
    ],
)
def test_a_wrong_manifest_is_refused(manifest: Any, message: str) -> None:
    with pytest.raises(InputError) as refusal:
        WanLink.from_manifest(manifest)
    assert message in str(refusal.value)


def test_all_faults_are_named_at_once_with_their_paths() -> None:
    manifest = with_field(manifests.training_job(), "spec.batch.global", 0)
    manifest = with_field(manifest, "spec.template.spec.containers.0.image", ...)
    with pytest.raises(InputError) as refusal:
        GeoTrainingJob.from_manifest(manifest)
    assert "spec.batch.global: Input should be greater" in str(refusal.value)
    assert "spec.template.spec.containers[0].image: Field required" in str(refusal.value)


def test_a_file_may_leave_kind_and_version_out() -> None:
    manifest = manifests.wan_link()
    del manifest["kind"], manifest["apiVersion"]
    assert WanLink.from_manifest(manifest).name == "west-central"
