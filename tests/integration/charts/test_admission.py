"""The chart's admission policies on a real API server: which templates and labels pass."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from support import helm, manifests, schemas
from support.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane

SYSTEM = "geotrain-system"
CASES = yaml.safe_load((Path(__file__).parents[2] / "data" / "pod_security_cases.yaml").read_text())
CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
GPU = {"resources": {"limits": {"nvidia.com/gpu": 1}}}
MAIN = {"name": "trainer", "image": "example.com/trainer", **GPU}
Object = dict[str, Any]


@pytest.fixture(scope="module")
def server(control_plane_factory: Any) -> ControlPlane:
    """An API server with the chart's policies; namespace team-a is opted in, team-b is not."""
    plane: ControlPlane = control_plane_factory()
    plane.apply(*schemas.crds().values())
    plane.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=90s")
    for namespace in (SYSTEM, "team-a", "team-b", "baseline"):
        plane.kubectl("create", "namespace", namespace)
    plane.kubectl("label", "namespace", "team-a", "geotrain.io/enabled=true")
    enforced = "pod-security.kubernetes.io/enforce=baseline"
    plane.kubectl("label", "namespace", "baseline", enforced)
    plane.apply(*helm.render_or_skip("hub.enabled=true", "member.enabled=true"))
    _await_enforced(plane)
    return plane


def _await_enforced(plane: ControlPlane) -> None:
    """The API server takes up policies a moment after they were written."""
    bad = job({"spec": {"hostPID": True, "containers": [MAIN]}})
    _until(lambda: "hostPID" in refusal(plane, bad))
    _until(lambda: FORGED in refusal(plane, pod(RANK)))


def template(case: Object, place: str) -> tuple[Object, str]:
    """The pod template of a case, and the path at which its fragment lies."""
    made: Object = {"spec": {"containers": [dict(MAIN)]}}
    if "pod" in case:
        made["spec"] |= case["pod"]
        made["spec"]["containers"] = [{**GPU, **each} for each in made["spec"]["containers"]]
        return made, "spec.template.spec"
    if "metadata" in case:
        made["metadata"] = case["metadata"]
        return made, "spec.template.metadata"
    made["spec"].setdefault(place, [{"name": "other", "image": "example.com/other"}])
    made["spec"][place].append({"name": "case", "image": "example.com/case", **case["container"]})
    return made, f"spec.template.spec.{place}[1]"


def job(made: Object, kind: str = "training_job") -> Object:
    manifest: Object = getattr(manifests, kind)("gpt", "team-a")
    manifest["spec"]["template"] = made
    return manifest


PLURALS = {
    "GeoTrainingJob": "apis/geotrain.io/v1alpha1/namespaces/{}/geotrainingjobs",
    "PrefillPool": "apis/geotrain.io/v1alpha1/namespaces/{}/prefillpools",
    "Pod": "api/v1/namespaces/{}/pods",
    "Deployment": "apis/apps/v1/namespaces/{}/deployments",
    "ReplicaSet": "apis/apps/v1/namespaces/{}/replicasets",
}


def refusal(plane: ControlPlane, manifest: Object, user: str = "") -> str:
    """What the API server says against a new object, '' where it takes it; nothing is stored."""
    path = PLURALS[manifest["kind"]].format(manifest["metadata"]["namespace"])
    status, answer = plane.request("POST", f"/{path}?dryRun=All", manifest, user=user)
    return "" if status < 400 else str(answer["message"])


ALL = [
    pytest.param(case, place, id=f"{case['title']} {place}".strip())
    for case in CASES
    for place in (CONTAINERS if "container" in case else ("",))
]


@pytest.mark.parametrize(("case", "place"), ALL)
def test_a_template_goes_as_far_as_baseline(server: ControlPlane, case: Object, place: str) -> None:
    made, path = template(case, place)
    said = refusal(server, job(made))
    if case.get("allowed"):
        assert said == ""
    else:
        assert f"{path}.{case['field']}: " in said
        assert case["right"] in said
        assert "geotrain-templates" in said


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case["title"]) for case in CASES if "folder of geo" not in str(case)],
)
def test_kubernetes_itself_draws_the_same_line(server: ControlPlane, case: Object) -> None:
    """Pod Security Admission judges the cases' pods; only the node's folder is our own addition."""
    made, _ = template(case, "containers")
    made["metadata"] = {"name": "case", "namespace": "baseline", **made.get("metadata", {})}
    said = refusal(server, {"apiVersion": "v1", "kind": "Pod", **made})
    if case.get("allowed"):
        assert said == ""
    else:  # what has not the shape of a pod does not get as far as to the standard
        assert "violates PodSecurity" in said or "is invalid" in said or "cannot" in said


def test_pools_and_overrides_are_held_the_same(server: ControlPlane) -> None:
    host = {"spec": {"containers": [MAIN], "hostNetwork": True}}
    assert "spec.template.spec.hostNetwork: leave it out" in refusal(
        server, job(host, "prefill_pool")
    )


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, ".volumes[0].hostPath: "),
        (
            {"annotations": {"container.apparmor.security.beta.kubernetes.io/a": "unconfined"}},
            ".annotations[container.apparmor.security.beta.kubernetes.io/a]: ",
        ),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/run/geotrain"}}]}, ""),
        ({"image": "example.com/other", "nodeSelector": {"a": "b"}}, ""),
    ],
)
def test_an_override_goes_no_further_than_the_template(
    server: ControlPlane, override: Object, said: str
) -> None:
    made = job({"spec": {"containers": [MAIN]}})
    first = {"dataCenter": "dc-east", "image": "example.com/east"}
    made["spec"]["overrides"] = [first, {"dataCenter": "dc-west", **override}]
    found = refusal(server, made)
    assert (f"spec.overrides[1]{said}" in found) if said else (found == "")


def test_the_first_fault_is_named_and_the_others_are_counted(server: ControlPlane) -> None:
    bad = {"spec": {"containers": [MAIN], "hostPID": True, "hostIPC": True, "hostNetwork": True}}
    assert "spec.template.spec.hostNetwork: leave it out (and 2 more)" in refusal(server, job(bad))


def test_a_template_as_large_as_they_come_is_within_the_budget(server: ControlPlane) -> None:
    """An expression that costs too much would refuse the template for no fault of its own."""
    ports = [{"containerPort": 1024 + n, "protocol": "TCP"} for n in range(30)]
    context = {
        "capabilities": {"drop": ["ALL"], "add": ["CHOWN", "KILL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
        "seLinuxOptions": {"type": "container_t"},
    }
    made = {
        f"{kind[0]}{n}": {"image": "example.com/i", "ports": ports, "securityContext": context}
        for kind in ("containers", "initContainers")
        for n in range(32)
    }
    spec = {
        kind: [{"name": name, **each} for name, each in made.items() if name[0] == kind[0]]
        for kind in ("containers", "initContainers")
    }
    spec["containers"][0] |= GPU
    spec["volumes"] = [{"name": f"v{n}", "configMap": {"name": f"c{n}"}} for n in range(200)]
    spec["securityContext"] = {"sysctls": [{"name": "net.ipv4.tcp_rmem", "value": "1"}] * 20}
    assert refusal(server, job({"spec": spec})) == ""
    spec["containers"][31] = {**spec["containers"][31], "ports": [{"hostPort": 1}]}
    assert "containers[31].ports[0].hostPort" in refusal(server, job({"spec": spec}))


def test_what_is_there_already_can_be_stopped_and_let_go(server: ControlPlane) -> None:
    """A job from before the policy: its template is not judged again, a new one is."""
    old = job({"spec": {"containers": [MAIN], "hostPID": True}})
    old["metadata"]["name"] = "old"
    path = "/apis/geotrain.io/v1alpha1/namespaces/team-a/geotrainingjobs"
    server.kubectl("delete", "validatingadmissionpolicybinding", "geotrain-templates")
    _until(lambda: server.request("POST", path, old)[0] == 201)
    server.apply(*helm.render_or_skip("hub.enabled=true", "member.enabled=true"))
    _await_enforced(server)
    merge = {"content": "application/merge-patch+json"}
    for change in ({"spec": {"suspend": True}}, {"metadata": {"finalizers": ["example.com/a"]}}):
        assert server.request("PATCH", f"{path}/old", change, **merge)[0] == 200
    worse = {"spec": {"template": {"spec": {"hostIPC": True}}}}
    status, said = server.request("PATCH", f"{path}/old", worse, **merge)
    assert (status, "hostPID" in said["message"]) == (422, True)
    none = {"metadata": {"finalizers": None}}
    assert server.request("PATCH", f"{path}/old", none, **merge)[0] == 200
    assert server.request("DELETE", f"{path}/old")[0] == 200


def _until(holds: Callable[[], bool]) -> None:
    """Wait for the API server to take up a change of policies."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.1)


RANK = {
    "app.kubernetes.io/managed-by": "geotrain",
    "geotrain.io/role": "trainer",
    "geotrain.io/job-uid": "0",
}
ROUTER = {"geotrain.io/role": "router", "geotrain.io/pool-uid": "0"}
PROBE = {"geotrain.io/role": "probe"}
CONTROLLER = f"system:serviceaccount:{SYSTEM}:geotrain-controller"
MEMBER = f"system:serviceaccount:{SYSTEM}:geotrain-member"
REPLICA_SETS = "system:serviceaccount:kube-system:replicaset-controller"
DEPLOYMENTS = "system:serviceaccount:kube-system:deployment-controller"
ADMIN = ""
PLAIN = {"app": "mine", "geotrain.example.com/role": "trainer"}


def pod(labels: Object, namespace: str = "team-a") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": namespace, "labels": labels},
        "spec": {"containers": [MAIN]},
    }


def workload(kind: str, labels: Object, namespace: str = "team-a") -> Object:
    tags = {"app": "mine", **labels}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "w", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": "mine"}},
            "template": {"metadata": {"labels": tags}, "spec": {"containers": [MAIN]}},
        },
    }


FORGED = "only geotrain's controller makes pods"
CLOSED = "kubectl label namespace team-b geotrain.io/enabled=true"


@pytest.mark.parametrize(
    ("manifest", "user", "said"),
    [
        (pod(RANK), MEMBER, ""),
        (pod(RANK), CONTROLLER, ""),
        (pod(RANK), ADMIN, FORGED),
        (pod({"geotrain.io/job-uid": "0"}), ADMIN, FORGED),
        (pod(PROBE), ADMIN, ""),
        (pod(PROBE, "team-b"), ADMIN, ""),
        (pod(PROBE | {"geotrain.io/job-uid": "0"}), ADMIN, FORGED),
        (pod(PLAIN), ADMIN, ""),
        (pod(PLAIN, "team-b"), ADMIN, ""),
        (pod({}), ADMIN, ""),
        (pod(RANK, "team-b"), MEMBER, CLOSED),
        (pod(ROUTER), REPLICA_SETS, ""),
        (pod(ROUTER), "system:kube-controller-manager", ""),
        (pod(ROUTER, "team-b"), REPLICA_SETS, CLOSED),
        (pod(RANK), REPLICA_SETS, FORGED),
        (pod(ROUTER), "system:serviceaccount:kube-system:job-controller", FORGED),
        (workload("Deployment", ROUTER), CONTROLLER, ""),
        (workload("Deployment", ROUTER, "team-b"), CONTROLLER, CLOSED),
        (workload("Deployment", ROUTER), ADMIN, FORGED),
        (workload("ReplicaSet", ROUTER), DEPLOYMENTS, ""),
        (workload("ReplicaSet", ROUTER), ADMIN, FORGED),
        (workload("Deployment", {}), ADMIN, ""),
    ],
)
def test_only_the_controller_makes_pods_with_our_labels(
    server: ControlPlane, manifest: Object, user: str, said: str
) -> None:
    if user:
        _allow_all(server, user)
    found = refusal(server, manifest, user)
    assert (said in found) if said else (found == "")
    if said == FORGED:
        assert (user or "admin") in found
        assert "geotrain.io/" in found.partition("take out")[2]


def test_labels_of_a_pod_stay_as_they_are_and_the_rest_of_it_does_not(
    server: ControlPlane,
) -> None:
    _allow_all(server, MEMBER)
    pods = "/api/v1/namespaces/team-a/pods"
    merge = {"content": "application/merge-patch+json"}

    def change(name: str, **meta: Any) -> int:
        return server.request("PATCH", f"{pods}/{name}", {"metadata": meta}, **merge)[0]

    ours, theirs = pod(RANK), pod(PLAIN)
    theirs["metadata"]["name"] = "theirs"
    assert server.request("POST", pods, ours, user=MEMBER)[0] == 201
    assert server.request("POST", pods, theirs)[0] == 201
    assert change("theirs", labels={"geotrain.io/role": "trainer"}) == 403
    assert change("p", labels={"geotrain.io/role": None}) == 403
    assert change("p", labels={"geotrain.io/job-uid": "1"}) == 403
    assert change("p", labels={"team": "red"}) == 200
    assert change("p", annotations={"geotrain.io/note": "hello"}) == 200
    # A namespace that is closed later keeps what it has, and the gate can still be lifted.
    server.kubectl("label", "namespace", "team-a", "geotrain.io/enabled-")
    try:
        assert change("p", annotations={"geotrain.io/note": "again"}) == 200
    finally:
        server.kubectl("label", "namespace", "team-a", "geotrain.io/enabled=true")
        for name in ("p", "theirs"):
            server.request("DELETE", f"{pods}/{name}", {"gracePeriodSeconds": 0})


def _allow_all(server: ControlPlane, user: str) -> None:
    """RBAC is not what is tested here."""
    server.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": user.replace(":", "-")},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "cluster-admin",
            },
            "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
        }
    )
