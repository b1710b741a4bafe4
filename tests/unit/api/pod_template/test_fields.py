"""Field names and JSON types of pods."""

import pytest

from geotrain.api.pod_template.fields import field_faults
from support import manifests
from support.manifests import with_field


def told(path, value):
    pod = with_field(manifests.POD, f"spec.{path}", value)
    return [str(each) for each in field_faults(pod["spec"])]


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        (
            "containers.0.resorces",
            {"limits": {}},
            "spec.containers[0].resorces: unknown field; did you mean resources?",
        ),
        ("nodeselector", {}, "spec.nodeselector: unknown field; did you mean nodeSelector?"),
        ("xyzzy", 1, "spec.xyzzy: unknown field"),
        (
            "initContainers",
            [{"name": "a", "imagePullPolcy": "Never"}],
            "spec.initContainers[0].imagePullPolcy: unknown field; did you mean imagePullPolicy?",
        ),
        (
            "volumes",
            [{"name": "a", "emptyDir": {"medum": "Memory"}}],
            "spec.volumes[0].emptyDir.medum: unknown field; did you mean medium?",
        ),
        (
            "containers.0.env",
            [{"name": "A", "value": 3}],
            "spec.containers[0].env[0].value: write text, in quotes where YAML would read a number"
            " or a flag",
        ),
        ("containers.0.ports", 80, "spec.containers[0].ports: write a list"),
        ("nodeSelector", ["a"], "spec.nodeSelector: write a mapping"),
        (
            "nodeSelector",
            {"a": 1},
            "spec.nodeSelector[a]: write text, in quotes where YAML would read a number or a flag",
        ),
        ("securityContext", "root", "spec.securityContext: write a mapping"),
        ("hostUsers", "no", "spec.hostUsers: write true or false"),
        (
            "terminationGracePeriodSeconds",
            True,
            "PeriodSeconds: write a whole number",
        ),
        ("containers.0.resources", {"limits": {"cpu": True}}, "write an amount like 8, 500m"),
        (
            "containers.0.readinessProbe",
            {"httpGet": {"port": [80]}},
            "readinessProbe.httpGet.port: write a whole number or text",
        ),
    ],
)
def test_what_is_no_field_or_of_another_type_is_named(path, value, fault):
    (found,) = told(path, value)
    assert fault in found


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("containers.0.resources", {"limits": {"cpu": 0.5, "memory": "4Gi", "a.b/c": 1}}),
        ("containers.0.readinessProbe", {"httpGet": {"port": "http"}, "periodSeconds": 2}),
        ("tolerations", [{"key": "a", "operator": "Exists", "tolerationSeconds": 5}]),
        ("resourceClaims", [{"name": "nic", "resourceClaimTemplateName": "nic"}]),
        ("affinity", {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": None}}),
        ("securityContext", None),
        (
            "volumes",
            [
                {
                    "name": "scratch",
                    "ephemeral": {
                        "volumeClaimTemplate": {
                            "metadata": {"labels": {"a": "b"}},
                            "spec": {"resources": {"requests": {"storage": "1Ti"}}},
                        }
                    },
                }
            ],
        ),
    ],
)
def test_whatever_kubernetes_knows_is_right(path, value):
    assert told(path, value) == []
