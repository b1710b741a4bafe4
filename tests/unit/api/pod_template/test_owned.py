"""What is geotrain's to say in a pod, and is never silently overruled."""

import pytest

from geotrain.api import labels
from geotrain.api.pod_template.owned import of_job, of_pool, owned_faults
from support import manifests
from support.manifests import with_field

JOB, BARE, POOL = of_job(has_sidecar=True), of_job(has_sidecar=False), of_pool()
HELPER = {"name": "helper", "image": "example.com/helper"}


def told(path, value, owned=JOB):
    return [str(each) for each in owned_faults(with_field(manifests.POD, path, value), owned)]


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        (
            "spec.schedulerName",
            "mine",
            "spec.schedulerName: geotrain sets it to geotrain-scheduler",
        ),
        ("spec.priorityClassName", "high", "geotrain sets it to geotrain-training"),
        ("spec.restartPolicy", "OnFailure", "spec.restartPolicy: geotrain sets it to Never"),
        ("spec.nodeName", "node-1", "spec.nodeName: geotrain sets it: the scheduler chooses"),
        ("spec.hostname", "me", "spec.hostname: "),
        ("spec.subdomain", "us", "spec.subdomain: "),
        ("spec.setHostnameAsFQDN", True, "spec.setHostnameAsFQDN: "),
        ("spec.schedulingGates", [{"name": "mine"}], "spec.schedulingGates: "),
        ("spec.priority", 7, "spec.priority: "),
        ("spec.preemptionPolicy", "Never", "spec.preemptionPolicy: "),
        (
            "spec.serviceAccount",
            "a",
            "spec.serviceAccount: geotrain sets it: write serviceAccountN",
        ),
        ("spec.ephemeralContainers", [HELPER], "spec.ephemeralContainers: "),
        (
            "spec.nodeSelector",
            {labels.DATA_CENTER: "dc-west"},
            "spec.nodeSelector[topology.geotrain.io/datacenter]: ",
        ),
        ("metadata.labels", {"geotrain.io/rank": "0"}, "metadata.labels[geotrain.io/rank]: "),
        ("metadata.labels", {labels.MANAGED_BY: "me"}, "app.kubernetes.io/managed-by]: "),
        ("metadata.annotations", {"geotrain.io/a": "b"}, "metadata.annotations[geotrain.io/a]: "),
        ("spec.volumes", [{"name": "geotrain-config"}], "spec.volumes[0].name: names that begin"),
        ("spec.containers.0.name", "geotrain-sidecar", "spec.containers[0].name: names that begin"),
        (
            "spec.initContainers",
            [{"name": "geotrain-sidecar"}],
            "spec.initContainers[0].name: names that begin",
        ),
        (
            "spec.containers.0.resources",
            {"limits": {"geotrain.io/rank": 2}},
            "spec.containers[0].resources.limits[geotrain.io/rank]: ",
        ),
        (
            "spec.containers.0.env",
            [{"name": "A"}, {"name": "RANK", "value": "7"}],
            "spec.containers[0].env[1].name: geotrain sets RANK",
        ),
        (
            "spec.containers.0.volumeMounts",
            [{"name": "a", "mountPath": "/etc/geotrain/mine"}],
            "spec.containers[0].volumeMounts[0].mountPath: geotrain mounts /etc/geotrain",
        ),
        (
            "spec.containers.0.volumeMounts",
            [{"name": "a", "mountPath": "/run/geotrain-signal/"}],
            "geotrain mounts /run/geotrain-signal",
        ),
        (
            "spec.containers.0.ports",
            [{"containerPort": 15003}],
            "spec.containers[0].ports[0].containerPort: geotrain's sidecar listens on 15003",
        ),
        (
            "spec.containers.1",
            HELPER | {"ports": [{"containerPort": 29500}]},
            "spec.containers[1].ports[0].containerPort: the first container listens on 29500",
        ),
    ],
)
def test_what_is_ours_is_refused(path, value, fault):
    (found,) = told(path, value)
    assert fault in found


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.schedulerName", "geotrain-scheduler"),
        ("spec.restartPolicy", "Never"),
        ("spec.nodeName", ""),
        ("spec.nodeSelector", {"pool": "gpu"}),
        ("metadata.labels", {"mygeotrain.io/rank": "0", "geotrain.io": "a", "app": "gpt"}),
        ("spec.containers.0.ports", [{"containerPort": 29500}]),
        ("spec.containers.0.env", [{"name": "GEOTRAIN_ACCELERATOR"}, {"name": "NCCL_NTHREADS"}]),
        ("spec.containers.0.env", [{"name": "NCCL_SOCKET_NTHREADS", "value": "2"}]),
        ("spec.containers.0.volumeMounts", [{"name": "node", "mountPath": "/run/geotrain"}]),
        ("spec.containers.0.volumeMounts", [{"name": "a", "mountPath": "/etc/geotrained"}]),
        (
            "spec.containers.1",
            HELPER
            | {
                "env": [{"name": "RANK"}],
                "volumeMounts": [{"name": "a", "mountPath": "/etc/geotrain"}],
            },
        ),
    ],
)
def test_what_says_the_same_or_touches_nothing_of_ours_is_right(path, value):
    assert told(path, value) == []


def test_without_a_sidecar_nccl_is_told_how_many_sockets_and_its_ports_are_free():
    variable = [{"name": "NCCL_SOCKET_NTHREADS", "value": "2"}]
    (found,) = told("spec.containers.0.env", variable, BARE)
    assert "geotrain sets NCCL_SOCKET_NTHREADS" in found
    assert told("spec.containers.0.ports", [{"containerPort": 15001}], BARE) == []


def test_a_worker_restarts_and_has_the_nodes_folder():
    assert told("spec.restartPolicy", "Always", POOL) == []
    assert "Always" in told("spec.restartPolicy", "Never", POOL)[0]
    mount = [{"name": "node", "mountPath": "/run/geotrain"}]
    assert "geotrain mounts /run/geotrain" in told("spec.containers.0.volumeMounts", mount, POOL)[0]
    gate = [{"name": "GEOTRAIN_GATE", "value": "x"}]
    assert "geotrain sets GEOTRAIN_GATE" in told("spec.containers.0.env", gate, POOL)[0]
