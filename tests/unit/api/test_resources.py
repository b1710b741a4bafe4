"""Manifests become resources, or an InputError that names every wrong field."""

from types import MappingProxyType
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from geotrain.api.v1alpha1 import KINDS, DataCenter, GeoTrainingJob, Resource, WanLink
from geotrain.api.v1alpha1.resource import explain
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
        (with_field(LINK, "spec.colour", "blue"), "spec.colour: there is no such field; there is "),
        (with_field(LINK, "spec.reservable", 2), "spec.reservable: Input should be less than"),
    ],
)
def test_a_wrong_manifest_is_refused(manifest: Any, message: str) -> None:
    with pytest.raises(InputError) as refusal:
        WanLink.from_manifest(manifest)
    assert message in str(refusal.value)


LONG = "a" * 100_000
NAME = "metadata.name: write the name of an object: lower-case letters, digits"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("metadata.name", "", NAME),
        ("metadata.name", "West", NAME),
        ("metadata.name", "wést", NAME),
        ("metadata.name", "west\n", NAME),
        ("metadata.name", "-west", NAME),
        ("metadata.name", "west.", NAME),
        ("metadata.name", "we..st", NAME),
        ("metadata.name", LONG, "metadata.name: String should have at most 253 characters"),
        ("metadata.name", ..., "metadata.name: Field required"),
        ("metadata.namespace", "a.b", "metadata.namespace: write a namespace: lower-case"),
        ("metadata.namespace", "a" * 64, "metadata.namespace: String should have at most 63"),
        ("metadata.labels", {"a b": ""}, "metadata.labels: 'a b' is no key: write at most 63"),
        ("metadata.labels", {"/b": ""}, "metadata.labels: '/b' is no key"),
        ("metadata.labels", {"A.io/b": ""}, "metadata.labels: 'A.io/b' is no key"),
        ("metadata.labels", {LONG: ""}, "is no key"),
        ("metadata.labels", {"a": "b c"}, "'b c' is no value of the label 'a'"),
        ("metadata.annotations", {"ü": ""}, "metadata.annotations: 'ü' is no key"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_names_are_those_that_the_api_server_takes(path: str, value: Any, message: str) -> None:
    with pytest.raises(InputError) as refusal:
        WanLink.from_manifest(with_field(LINK, path, value))
    assert message in str(refusal.value)
    assert len(str(refusal.value)) < 300


def test_good_names_are_taken() -> None:
    manifest = with_field(LINK, "metadata.name", "a.b-c." + ".".join(["d" * 63] * 3))
    manifest = with_field(manifest, "metadata.namespace", "n" * 63)
    manifest = with_field(manifest, "metadata.labels", {"a.io/B_c.d": "E.f_g-h", "x": ""})
    manifest = with_field(manifest, "metadata.annotations", {"y": "any text: ü"})
    assert WanLink.from_manifest(manifest).metadata.labels["x"] == ""


JOB = manifests.training_job()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("spec.batch.globl", "did you mean global?"),
        ("spec.batch.global_", "did you mean global?"),
        ("spec.model.hidden_size", "did you mean hiddenSize?"),
        ("spec.batch.size", "there is no such field; there is global, micro"),
        ("spec.placement.stages.0.datacentre", "did you mean dataCenter?"),
        ("spec.overrides.0.datacentre", "did you mean dataCenter?"),
        ("spec.template.spec2", "did you mean spec?"),
        (f"spec.{LONG}", "there is no such field; there is activeDeadline, batch, "),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_field_that_does_not_exist_is_told_with_the_nearest(path: str, message: str) -> None:
    with pytest.raises(InputError) as refusal:
        GeoTrainingJob.from_manifest(with_field(JOB, path, 1))
    assert message in str(refusal.value)
    assert len(str(refusal.value)) < 700


def test_of_many_faults_the_first_are_told() -> None:
    manifest = with_field(LINK, "spec", {**LINK["spec"], **{f"x{n}": 1 for n in range(50)}})
    with pytest.raises(InputError, match=r"; and 42 more$"):
        WanLink.from_manifest(manifest)


def test_where_a_field_belongs_to_no_model_nothing_is_guessed() -> None:
    class Odd(BaseModel):
        model_config = ConfigDict(extra="forbid")
        pairs: dict[str, int] = {}

    with pytest.raises(ValidationError) as refusal:
        Odd.model_validate({"pear": 1})
    assert explain(refusal.value) == "pear: there is no such field"
    assert explain(refusal.value, WanLink).startswith("pear: there is no such field; there is ")


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
