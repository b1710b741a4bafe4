"""A template with the overrides of a data centre, and what is wrong with either."""

import copy

import pytest

from geotrain.api.pod_template import (
    center_problems,
    job_problems,
    pool_problems,
    template_in,
    unknown_centers,
)
from geotrain.api.pod_template.merging import differences
from geotrain.api.v1alpha1 import DataCenter, GeoTrainingJob, PrefillPool
from geotrain.errors import InputError
from support import manifests

GPUS = {"limits": {"nvidia.com/gpu": 1}}
SPEC = {
    "containers": [
        {
            "name": "trainer",
            "image": "hub/trainer:1",
            "resources": GPUS,
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        },
        {"name": "helper", "image": "hub/helper:1"},
    ],
    "initContainers": [{"name": "fetch", "image": "hub/fetch:1"}],
    "volumes": [{"name": "data", "emptyDir": {}}],
    "imagePullSecrets": [{"name": "hub"}],
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "nodeSelector": {"pool": "gpu"},
}


def job(*overrides, spec=SPEC, **fields):
    template = {"metadata": {"annotations": {"a": "1"}}, "spec": copy.deepcopy(spec)}
    return GeoTrainingJob.from_manifest(
        manifests.training_job(template=template, overrides=list(overrides), **fields)
    )


def east(**fields):
    return {"dataCenter": "dc-east", **fields}


EVERYTHING = east(
    image="east/trainer:1",
    resources={"limits": {"amd.com/gpu": 1, "rdma/hca": "1"}},
    env=[{"name": "B", "value": "3"}, {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
    volumeMounts=[{"name": "nfs", "mountPath": "/data"}, {"name": "nfs", "mountPath": "/more"}],
    volumes=[{"name": "data", "hostPath": None, "emptyDir": {"medium": "Memory"}}, {"name": "nfs"}],
    imagePullSecrets=[{"name": "east"}, {"name": "hub"}],
    tolerations=[{"key": "gpu", "operator": "Exists"}, {"key": "rdma"}],
    nodeSelector={"fabric": "rdma"},
    annotations={"k8s.v1.cni.cncf.io/networks": "rdma"},
    runtimeClassName="amd",
    containers=[
        {"name": "helper", "image": "east/helper:1"},
        {"name": "fetch", "env": [{"name": "FROM", "value": "east"}]},
    ],
)


def test_other_data_centres_have_the_plain_template():
    made = job(EVERYTHING)
    assert template_in(made, "dc-west") == made.spec.template.to_manifest()


def test_everything_that_may_differ_differs():
    spec = template_in(job(EVERYTHING), "dc-east")["spec"]
    trainer, helper = spec["containers"]
    assert trainer["image"] == "east/trainer:1"
    assert trainer["resources"] == {"limits": {"amd.com/gpu": 1, "rdma/hca": "1"}}
    assert [(each["name"], each.get("value")) for each in trainer["env"]] == [
        ("A", "1"),
        ("B", "3"),
        ("C", None),
    ]
    assert [(m["name"], m["mountPath"]) for m in trainer["volumeMounts"]] == [
        ("nfs", "/data"),
        ("nfs", "/more"),
    ]
    assert helper == {"name": "helper", "image": "east/helper:1"}
    assert spec["initContainers"] == [
        {"name": "fetch", "image": "hub/fetch:1", "env": [{"name": "FROM", "value": "east"}]}
    ]
    assert [each["name"] for each in spec["volumes"]] == ["data", "nfs"]
    assert spec["volumes"][0]["emptyDir"] == {"medium": "Memory"}
    assert spec["imagePullSecrets"] == [{"name": "hub"}, {"name": "east"}]
    assert [each["key"] for each in spec["tolerations"]] == ["gpu", "rdma"]
    assert spec["nodeSelector"] == {"pool": "gpu", "fabric": "rdma"}
    assert spec["runtimeClassName"] == "amd"


def test_annotations_are_merged_and_labels_kept():
    metadata = template_in(job(EVERYTHING), "dc-east")["metadata"]
    assert metadata["annotations"] == {"a": "1", "k8s.v1.cni.cncf.io/networks": "rdma"}


def test_a_bare_template_can_be_given_everything():
    bare = {"containers": [{"name": "trainer", "image": "a", "resources": GPUS}]}
    everything = {key: value for key, value in EVERYTHING.items() if key != "containers"}
    spec = template_in(job(everything, spec=bare), "dc-east")["spec"]
    assert [each["name"] for each in spec["containers"][0]["env"]] == ["B", "C"]
    assert spec["nodeSelector"] == {"fabric": "rdma"}
    assert spec["imagePullSecrets"] == [{"name": "east"}, {"name": "hub"}]


def test_merging_changes_nothing_that_it_was_given():
    made = job(EVERYTHING)
    before = copy.deepcopy(made.spec.template.to_manifest())
    template_in(made, "dc-east")
    assert made.spec.template.to_manifest() == before


def test_a_data_centre_is_overridden_once():
    with pytest.raises(InputError, match="a data centre may appear only once in overrides"):
        job(east(image="a"), east(image="b"))


def test_differences_are_named_by_path():
    made = job(EVERYTHING)
    found = differences(made.spec.template.to_manifest(), template_in(made, "dc-east"))
    assert found["spec.containers[trainer].image"] == "east/trainer:1"
    assert found["spec.containers[trainer].env[B].value"] == "3"
    assert found["spec.containers[trainer].resources.limits.amd.com/gpu"] == 1
    assert found["spec.containers[trainer].volumeMounts[/more]"] == {
        "name": "nfs",
        "mountPath": "/more",
    }
    assert found["spec.tolerations"][-1] == {"key": "rdma"}
    assert found["spec.nodeSelector.fabric"] == "rdma"
    assert not any("helper].name" in path for path in found)


def test_there_is_no_difference_without_an_override():
    template = job().spec.template.to_manifest()
    assert differences(template, template) == {}


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        (
            east(env=[{"name": "A", "valeu": "1"}]),
            "spec.overrides[0].env[0].valeu: unknown field; did you mean value?",
        ),
        (
            east(tolerations=[{"kee": "a"}]),
            "spec.overrides[0].tolerations[0].kee: unknown field; did you mean key?",
        ),
        (
            east(resources={"limit": {}}),
            "spec.overrides[0].resources.limit: unknown field; did you mean limits?",
        ),
        (
            east(containers=[{"name": "helper", "env": [{"name": "A", "value": True}]}]),
            "spec.overrides[0].containers[0].env[0].value: write text",
        ),
        (
            east(containers=[{"name": "trainer", "image": "a"}]),
            "spec.overrides[0].containers[0].name: what differs in the first container, trainer,"
            " stands in spec.overrides[0] itself",
        ),
        (
            east(containers=[{"name": "other"}]),
            "spec.overrides[0].containers[0].name: the template has no container 'other'",
        ),
        (
            east(volumes=[{"name": "root", "hostPath": {"path": "/"}}]),
            "spec.template with spec.overrides[0] (dc-east): spec.volumes[1].hostPath: goes beyond",
        ),
        (
            east(env=[{"name": "RANK", "value": "7"}]),
            "spec.containers[0].env[2].name: geotrain sets",
        ),
        (east(nodeSelector={"geotrain.io/a": "b"}), "spec.nodeSelector[geotrain.io/a]: geotrain"),
        (east(annotations={"geotrain.io/a": "b"}), "metadata.annotations[geotrain.io/a]: geotrain"),
    ],
)
def test_what_is_wrong_with_an_override_is_named_where_it_stands(override, problem):
    (found,) = job_problems(job(override))
    assert problem in found


def test_a_fault_of_the_template_is_told_once():
    spec = copy.deepcopy(SPEC) | {"hostNetwork": True}
    found = job_problems(job(east(image="a"), {"dataCenter": "dc-west"}, spec=spec))
    assert found == [
        "spec.template.spec.hostNetwork: goes beyond Pod Security baseline; leave it out"
    ]


def test_what_is_no_pod_is_not_merged_with_anything():
    spec = copy.deepcopy(SPEC) | {"initContainers": ["fetch"]}
    found = job_problems(job(EVERYTHING, spec=spec))
    assert found == ["spec.template.spec.initContainers[0]: write a mapping"]


def test_right_ones_have_no_problem():
    assert job_problems(job()) == []
    right = {key: value for key, value in EVERYTHING.items() if key != "volumes"}
    assert job_problems(job(right)) == []


def test_a_pools_template_is_checked_too():
    pool = manifests.prefill_pool()
    assert pool_problems(PrefillPool.from_manifest(pool)) == []
    wrong = manifests.with_field(pool, "spec.template.spec.hostPID", True)
    wrong = manifests.with_field(wrong, "spec.template.spec.containers.0.comand", ["a"])
    assert pool_problems(PrefillPool.from_manifest(wrong)) == [
        "spec.template.spec.containers[0].comand: unknown field; did you mean command?",
        "spec.template.spec.hostPID: goes beyond Pod Security baseline; leave it out",
    ]


def test_a_pools_workers_may_differ_too():
    made = manifests.prefill_pool(overrides=[east(image="east/worker:1")])
    pool = PrefillPool.from_manifest(made)
    assert template_in(pool, "dc-east")["spec"]["containers"][0]["image"] == "east/worker:1"
    assert template_in(pool, "dc-west") == pool.spec.template.to_manifest()
    assert pool_problems(pool) == []
    made["spec"]["overrides"][0]["env"] = [{"name": "GEOTRAIN_GATE", "value": "a"}]
    (problem,) = pool_problems(PrefillPool.from_manifest(made))
    assert "(dc-east): spec.containers[0].env[0].name: geotrain sets GEOTRAIN_GATE" in problem
    made["spec"]["overrides"] *= 2
    with pytest.raises(InputError, match="only once in overrides"):
        PrefillPool.from_manifest(made)


class TestDataCentre:
    def center(self, **spec):
        return DataCenter.from_manifest(manifests.data_center("dc-east", **spec))

    def test_its_kind_of_gpu_is_given_by_an_override(self):
        center = self.center(gpuResource="amd.com/gpu")
        (problem,) = center_problems(job(), center)
        assert (
            "no container asks for amd.com/gpu (its containers ask for 1 nvidia.com/gpu)" in problem
        )
        assert center_problems(job(EVERYTHING), center) == []
        assert center_problems(job(EVERYTHING), self.center()) != []

    def test_its_nodes_labels_are_its_own(self):
        center = self.center(nodeSelector={"pool": "slow", "zone": "a"})
        (problem,) = center_problems(job(), center)
        assert problem == (
            "nodeSelector pool is 'gpu', and DataCenter dc-east has 'slow'; leave it out"
        )
        assert center_problems(job(), self.center(nodeSelector={"pool": "gpu"})) == []

    def test_an_override_of_one_that_is_not_there_is_told(self):
        (told,) = unknown_centers(job(east()), ["dc-west", "dc-central"])
        assert told == (
            "spec.overrides[0] is for 'dc-east', and there is no such DataCenter; known:"
            " dc-central, dc-west"
        )
        assert unknown_centers(job(east()), ["dc-east"]) == []
        assert "known: none" in unknown_centers(job(east()), [])[0]
