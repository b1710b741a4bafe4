import pytest

from geotrain.api import labels
from geotrain.api.facts import node_from_manifest, pod_from_manifest, pod_requests
from geotrain.fitting import Requirement, Role, Taint, Toleration
from support.scheduling import GPU, node_manifest, prefill_manifest, rank_manifest


def container(cpu=None, memory=None, limits=None, **fields):
    requests = {k: v for k, v in (("cpu", cpu), ("memory", memory)) if v}
    return {"resources": {"requests": requests, "limits": limits or {}}, **fields}


def test_a_node():
    manifest = node_manifest("n", memory="1Gi")
    manifest["spec"] = {
        "unschedulable": True,
        "taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}, {"key": "bare"}],
    }
    node = node_from_manifest(manifest)
    assert node.name == "n"
    assert node.data_center == "dc-east"
    assert node.labels == {labels.DATA_CENTER: "dc-east"}
    assert node.allocatable == {"cpu": 8000, GPU: 8, "pods": 110, "memory": 2**30}
    assert node.unschedulable
    assert node.taints == (Taint("gpu", "yes", "NoSchedule"), Taint("bare", "", ""))


def test_a_node_that_says_nothing():
    node = node_from_manifest({"metadata": {"name": "n", "labels": None}})
    assert (node.data_center, node.allocatable, node.taints) == ("", {}, ())


def test_a_training_pod():
    manifest = rank_manifest(5, gated=True, metadata={"uid": "u"})
    manifest["spec"] |= {"priority": 1000, "tolerations": [{"operator": "Exists"}, {"key": "a"}]}
    manifest["status"] = {"phase": "Pending", "nominatedNodeName": "n"}
    pod = pod_from_manifest(manifest)
    assert pod.key == ("team-a", "gpt-r5")
    assert pod.job_key == ("team-a", "gpt")
    assert (pod.role, pod.rank, pod.stage, pod.replica) == (Role.TRAINING, 5, 2, 1)
    assert (pod.data_center, pod.node, pod.nominated, pod.uid) == ("dc-east", "", "n", "u")
    assert (pod.priority, pod.gated, pod.terminating, pod.ended) == (1000, True, False, False)
    assert pod.tolerations == (Toleration("", "Exists"), Toleration("a", "Equal"))


def test_the_managed_resource_is_no_request():
    assert pod_from_manifest(rank_manifest(0)).requests == {"cpu": 1000, GPU: 1, "pods": 1}


def test_a_prefill_pod():
    limit = {labels.MAX_PREFILL_PER_GPU: "2"}
    pod = pod_from_manifest(prefill_manifest(0, beside=3, metadata={"annotations": limit}))
    assert (pod.role, pod.job, pod.beside_rank, pod.max_beside) == (Role.PREFILL, "gpt", 3, 2)


def test_a_pod_of_somebody_else():
    pod = pod_from_manifest({"metadata": {"name": "p"}, "spec": {"nodeName": "n"}})
    assert (pod.role, pod.rank, pod.max_beside, pod.requests) == (Role.OTHER, None, 1, {"pods": 1})
    assert pod.node == "n"


def test_a_pod_that_is_going_or_gone():
    manifest = rank_manifest(0, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    manifest["status"] = {"phase": "Failed"}
    pod = pod_from_manifest(manifest)
    assert pod.terminating
    assert pod.ended


def test_labels_that_are_no_numbers_are_ignored():
    manifest = rank_manifest(0)
    manifest["metadata"]["labels"][labels.RANK] = "-1"
    assert pod_from_manifest(manifest).rank is None


def test_required_affinity():
    manifest = rank_manifest(0)
    term = {
        "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}],
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}],
    }
    manifest["spec"]["affinity"] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [term, {"matchExpressions": None}]
            }
        }
    }
    assert pod_from_manifest(manifest).affinity == (
        (
            Requirement("zone", "In", ("a",)),
            Requirement("metadata.name", "In", ("n",), on_name=True),
        ),
        (),
    )


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [container("1"), container("500m")]}, 1500),
        ({"containers": [container("1")], "initContainers": [container("3")]}, 3000),
        ({"containers": [container("4")], "initContainers": [container("3")]}, 4000),
        # A sidecar runs beside the containers, and beside every init container after it.
        (
            {
                "containers": [container("1")],
                "initContainers": [container("2", restartPolicy="Always")],
            },
            3000,
        ),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("2", restartPolicy="Always"), container("3")],
            },
            5000,
        ),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("3"), container("2", restartPolicy="Always")],
            },
            3000,
        ),
        ({"containers": [container("1")], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [container(limits={"cpu": "2"})]}, 2000),  # limits stand in for requests
        ({"containers": [container("1", limits={"cpu": "2"})]}, 1000),
        ({"containers": [container("1")], "resources": {"requests": {"cpu": "3"}}}, 3000),
    ],
)
def test_requests_are_counted_as_the_kubelet_does(spec, cpu):
    assert pod_requests(spec)["cpu"] == cpu


def test_requests_of_different_resources_are_kept_apart():
    spec = {
        "containers": [container("1", "1Gi")],
        "initContainers": [
            container("500m", "4Gi"),
            container(None, "1Gi", restartPolicy="Always"),
        ],
    }
    assert pod_requests(spec) == {"cpu": 1000, "memory": 4 * 2**30, "pods": 1}


def test_a_wrong_amount_is_an_error():
    with pytest.raises(ValueError, match="'much' is not a quantity of cpu"):
        pod_requests({"containers": [container("much")]})
