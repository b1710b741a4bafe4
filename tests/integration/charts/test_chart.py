"""The chart: what helm renders, what an API server takes of it, and what its roles allow."""

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.testbed import rights
from support import helm, schemas
from support.controlplane import ControlPlane, find_programs, free_ports

pytestmark = pytest.mark.controlplane

NAMESPACE = "geotrain-system"
BOTH = ("hub.enabled=true",)
HUB = ("hub.enabled=true", "member.enabled=false")
MEMBER = ()

Objects = list[dict[str, Any]]


def names(objects: Objects, kind: str) -> set[str]:
    return {o["metadata"]["name"] for o in objects if o["kind"] == kind}


def one(objects: Objects, kind: str, name: str) -> dict[str, Any]:
    (found,) = (o for o in objects if (o["kind"], o["metadata"]["name"]) == (kind, name))
    return found


def pods(objects: Objects, kinds: tuple[str, ...] = ("Deployment",)) -> Iterator[dict[str, Any]]:
    for each in objects:
        if each["kind"] in kinds:
            yield each["spec"]["template"]["spec"]


class TestRendering:
    def test_lint_finds_nothing(self) -> None:
        assert "0 chart(s) failed" in helm.helm("lint", "--strict", str(helm.CHART))

    def test_as_it_is_the_chart_makes_a_member(self) -> None:
        assert names(helm.render(), "Deployment") == {"geotrain-scheduler"}

    def test_values_that_would_install_nothing_are_refused_with_those_that_do(self) -> None:
        with pytest.raises(helm.HelmError, match=r"nothing would be .* set hub\.enabled=true"):
            helm.render("member.enabled=false")

    def test_a_hub_has_gpus_unless_it_is_told_otherwise(self) -> None:
        both = {"geotrain-controller", "geotrain-scheduler"}
        assert names(helm.render("hub.enabled=true"), "Deployment") == both

    def test_a_hub_has_a_controller_and_no_scheduler(self) -> None:
        objects = helm.render(*HUB)
        assert names(objects, "Deployment") == {"geotrain-controller"}
        assert names(objects, "PriorityClass") == set()

    def test_a_member_has_a_scheduler_and_no_controller(self) -> None:
        objects = helm.render(*MEMBER)
        assert names(objects, "Deployment") == {"geotrain-scheduler"}
        assert names(objects, "PriorityClass") == {"geotrain-training", "geotrain-prefill"}
        assert names(objects, "Secret") == set(), "tokens are made when a member joins"

    def test_prefill_is_below_all_and_never_preempts(self) -> None:
        prefill = one(helm.render(*MEMBER), "PriorityClass", "geotrain-prefill")
        assert prefill["value"] < 0
        assert prefill["preemptionPolicy"] == "Never"

    def test_annotations_reach_every_pod(self) -> None:
        objects = helm.render(*BOTH, "podAnnotations.example\\.com/build=abc")
        templates = [o["spec"]["template"] for o in objects if o["kind"] == "Deployment"]
        assert len(templates) == 2
        for each in templates:
            assert each["metadata"]["annotations"]["example.com/build"] == "abc"

    def test_every_container_is_confined(self) -> None:
        for pod in pods(helm.render(*BOTH)):
            assert pod["securityContext"]["runAsNonRoot"] is True
            assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
            for container in pod["containers"]:
                assert container["securityContext"] == {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                }
                assert container["resources"]["requests"].keys() == {"cpu", "memory"}
                assert "memory" in container["resources"]["limits"]
                assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys()

    def test_images_can_be_replaced(self) -> None:
        values = ("image.repository=r/geotrain", "image.tag=dev", "image.pullPolicy=Never")
        scheduler = (
            "member.scheduler.image.repository=r/scheduler",
            "member.scheduler.image.tag=v1.37.9",
        )
        objects = helm.render(*BOTH, *values, *scheduler)
        containers = [c for pod in pods(objects) for c in pod["containers"]]
        assert {c["image"] for c in containers} == {"r/geotrain:dev", "r/scheduler:v1.37.9"}
        assert {c["imagePullPolicy"] for c in containers} == {"Never"}

    def test_placing_and_pull_secrets_reach_the_pods(self) -> None:
        place = ("hub.nodeSelector.role=system", "member.scheduler.tolerations[0].operator=Exists")
        objects = helm.render(*BOTH, *place, "imagePullSecrets[0].name=regcred", "labels.team=ml")
        controller, scheduler = sorted(pods(objects), key=lambda p: p["serviceAccountName"])
        assert controller["nodeSelector"] == {"role": "system"}
        assert scheduler["tolerations"] == [{"operator": "Exists"}]
        assert controller["imagePullSecrets"] == [{"name": "regcred"}]
        assert all(o["metadata"]["labels"]["team"] == "ml" for o in objects)

    def test_the_controller_gets_its_settings_and_its_own_image_for_sidecars(self) -> None:
        objects = helm.render(
            *HUB,
            "image.tag=dev",
            "hub.settings.controller.workers=4",
            "hub.settings.log.level=DEBUG",
        )
        text = one(objects, "ConfigMap", "geotrain-settings")["data"]["settings.yaml"]
        settings = yaml.safe_load(text)
        assert settings["controller"] == {
            "sidecarImage": "geotrain:dev",
            "healthPort": 8080,
            "workers": 4,
        }
        assert settings["log"] == {"level": "DEBUG", "form": "json"}

    def test_a_change_of_settings_restarts_the_controller(self) -> None:
        def checksum(*values: str) -> str:
            deployment = one(helm.render(*HUB, *values), "Deployment", "geotrain-controller")
            annotations = deployment["spec"]["template"]["metadata"]["annotations"]
            return str(annotations["checksum/settings"])

        assert checksum() == checksum()
        assert checksum() != checksum("hub.settings.log.level=DEBUG")

    def test_the_schedulers_lease_is_in_the_releases_namespace(self) -> None:
        objects = helm.render(*MEMBER, namespace="elsewhere")
        text = one(objects, "ConfigMap", "geotrain-scheduler")["data"]["scheduler-config.yaml"]
        config = yaml.safe_load(text)
        assert config["leaderElection"]["resourceNamespace"] == "elsewhere"
        assert config["extenders"][0]["urlPrefix"] == "http://127.0.0.1:8888"

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            ("hub.enabled=maybe", "hub/enabled"),
            ("hub.colour=blue", "colour"),
            ("member.priorities.prefill=5", "maximum"),
            ("member.priorities.training=-5", "minimum"),
            ("member.scheduler.replicas=0", "minimum"),
            ("image.pullPolicy=Sometimes", "pullPolicy"),
            ("image.repository=", "minLength"),
            ("uninstall=Delete", "uninstall"),
            ("crds.enable=true", "crds"),
            ("hub.settings.controler.workers=4", "controler"),
            ("hub.settings.controller.workers=0", "workers"),
            ("hub.settings.controller.sidecarImage=x", "sidecarImage"),
            ("hub.settings.log.level=LOUD", "level"),
            ("member.scheduler.priorityClassName=Very High", "priorityClassName"),
            ("hub.secretNamespaces[0]=Team_A", "pattern"),
            ("admission.enabled=perhaps", "admission/enabled"),
            ("admission.accounts[0]=o'brien", "pattern"),
        ],
    )
    def test_a_wrong_value_is_refused(self, value: str, message: str) -> None:
        with pytest.raises(helm.HelmError, match=re.compile(message, re.IGNORECASE)):
            helm.render(*BOTH, value)

    @pytest.mark.parametrize(
        ("values", "namespace", "name"),
        [
            ((), "geotrain-system", "geotrain-training"),
            ((), "kube-system", "system-cluster-critical"),
            (("member.scheduler.priorityClassName=high",), "geotrain-system", "high"),
            (("member.scheduler.priorityClassName=high",), "kube-system", "high"),
        ],
    )
    def test_the_schedulers_priority_is_one_that_its_namespace_may_use(
        self, values: tuple[str, ...], namespace: str, name: str
    ) -> None:
        (scheduler,) = pods(helm.render(*values, namespace=namespace))
        assert scheduler["priorityClassName"] == name

    def test_what_only_renders_gets_no_hook_that_would_uninstall(self) -> None:
        """Applied by something else than Helm it would run at once."""
        kinds = {o["metadata"]["name"] for o in helm.render(*BOTH) if o["kind"] == "Job"}
        assert all(name.startswith("geotrain-crds-") for name in kinds)
        assert len(kinds) == 1


def test_no_role_has_a_wildcard_or_reaches_all_secrets() -> None:
    for values in (BOTH, HUB, MEMBER):
        assert rights.wildcards(helm.render(*values)) == []


def test_a_hub_that_is_no_data_center_places_no_pods() -> None:
    grants = {str(each) for each in rights.granted(helm.render(*HUB, "member.enabled=false"))}
    assert "ClusterRole geotrain-controller: list pods" in grants
    assert "ClusterRole geotrain-controller: create pods" not in grants
    assert rights.granted(helm.render(*HUB, "member.enabled=false")) < rights.granted(
        helm.render(*BOTH)
    )


@pytest.mark.parametrize("minor", range(33, 38))
def test_every_supported_kubernetes_has_the_policies(minor: int) -> None:
    """ValidatingAdmissionPolicy is v1 since Kubernetes 1.30."""
    objects = helm.render(*BOTH, kubernetes=f"1.{minor}.0")
    policies = [o for o in objects if o["kind"].startswith("ValidatingAdmissionPolicy")]
    assert {o["apiVersion"] for o in policies} == {"admissionregistration.k8s.io/v1"}
    assert names(policies, "ValidatingAdmissionPolicy") == {"geotrain-templates", "geotrain-pods"}
    bindings = [o for o in policies if o["kind"].endswith("Binding")]
    assert [o["spec"]["validationActions"] for o in bindings] == [["Deny"]] * 2


def test_policies_can_be_left_out_and_other_accounts_be_let_in() -> None:
    off = helm.render(*BOTH, "admission.enabled=false")
    assert not [o for o in off if o["kind"].startswith("ValidatingAdmissionPolicy")]
    assert names(helm.render(*MEMBER), "ValidatingAdmissionPolicy") == {"geotrain-pods"}
    policy = one(
        helm.render(*MEMBER, "admission.accounts[0]=hub@example.com"),
        "ValidatingAdmissionPolicy",
        "geotrain-pods",
    )
    assert "'hub@example.com'" in json.dumps(policy["spec"]["variables"])


ALLOWED = [
    ("geotrain-member", "create pods -n team-a"),
    ("geotrain-member", "delete pods -n team-a"),
    ("geotrain-member", "get pods/proxy -n team-a"),
    ("geotrain-member", "list nodes"),
    ("geotrain-member", "patch endpointslices.discovery.k8s.io -n team-a"),
    ("geotrain-member", "create networkpolicies.networking.k8s.io -n team-a"),
    ("geotrain-member", "list priorityclasses.scheduling.k8s.io"),
    ("geotrain-controller", "patch geotrainingjobs.geotrain.io/status -n team-a"),
    ("geotrain-controller", "create bandwidthschedules.geotrain.io -n team-a"),
    ("geotrain-controller", "create deployments.apps -n team-a"),
    ("geotrain-controller", f"get secrets -n {NAMESPACE}"),
    ("geotrain-controller", "get secrets -n vault"),
    ("geotrain-scheduler", "create pods/binding -n team-a"),
    ("geotrain-scheduler", "list nodes"),
    (
        "geotrain-scheduler",
        f"update leases.coordination.k8s.io/geotrain-scheduler -n {NAMESPACE}",
    ),
]
DENIED = [
    ("geotrain-member", "get secrets -n team-a"),
    ("geotrain-member", "create pods/proxy -n team-a"),
    ("geotrain-member", "create pods/exec -n team-a"),
    ("geotrain-member", "delete nodes"),
    ("geotrain-member", "patch nodes"),
    ("geotrain-member", "create namespaces"),
    ("geotrain-member", "delete namespaces"),
    ("geotrain-member", "create deployments.apps -n team-a"),
    ("geotrain-member", "create events -n team-a"),
    ("geotrain-member", "create clusterrolebindings.rbac.authorization.k8s.io"),
    ("geotrain-member", "get geotrainingjobs.geotrain.io -n team-a"),
    ("geotrain-controller", "get secrets -n team-a"),
    ("geotrain-controller", f"list secrets -n {NAMESPACE}"),
    ("geotrain-controller", "create geotrainingjobs.geotrain.io -n team-a"),
    ("geotrain-controller", "delete datacenters.geotrain.io"),
    ("geotrain-controller", "patch datacenters.geotrain.io"),
    ("geotrain-controller", "create namespaces"),
    ("geotrain-controller", f"create leases.coordination.k8s.io -n {NAMESPACE}"),
    ("geotrain-controller", "create pods/exec -n team-a"),
    ("geotrain-scheduler", f"update leases.coordination.k8s.io/other -n {NAMESPACE}"),
    ("geotrain-scheduler", "get secrets -n team-a"),
]


@pytest.fixture(scope="module")
def server(control_plane_factory: Any) -> ControlPlane:
    plane: ControlPlane = control_plane_factory(audit_policy=rights.audit_policy())
    plane.apply(*schemas.crds().values())
    for namespace in (NAMESPACE, "vault", "team-a"):
        plane.kubectl("create", "namespace", namespace)
    plane.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=30s")
    plane.apply(*helm.render(*BOTH, "hub.secretNamespaces[0]=vault"))
    return plane


class TestOnAServer:
    def test_all_is_taken_twice(self, server: ControlPlane) -> None:
        server.apply(*helm.render(*BOTH, "hub.secretNamespaces[0]=vault"))
        assert {d["metadata"]["name"] for d in server.get("deploy", "-n", NAMESPACE)["items"]} == {
            "geotrain-controller",
            "geotrain-scheduler",
        }

    def test_the_pods_meet_the_restricted_standard(self, server: ControlPlane) -> None:
        """Pod Security Admission warns, by its label, of every pod that does not."""
        server.kubectl("create", "namespace", "restricted")
        label = "pod-security.kubernetes.io/enforce=restricted"
        server.kubectl("label", "namespace", "restricted", label)
        for index, pod in enumerate(pods(helm.render(*BOTH), ("Deployment", "Job"))):
            server.apply(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": f"p{index}", "namespace": "restricted"},
                    "spec": pod,
                }
            )

    @pytest.mark.parametrize(("account", "question"), ALLOWED)
    def test_an_account_may_do_its_work(
        self, server: ControlPlane, account: str, question: str
    ) -> None:
        assert _may(server, account, question)

    @pytest.mark.parametrize(("account", "question"), DENIED)
    def test_an_account_may_do_no_more(
        self, server: ControlPlane, account: str, question: str
    ) -> None:
        assert not _may(server, account, question)

    def test_the_schedulers_account_suffices_for_a_real_scheduler(
        self, server: ControlPlane, tmp_path: Path
    ) -> None:
        server.add_node("n0")
        server.apply(PLAIN_POD)
        with _scheduler(server, tmp_path) as log:
            server.kubectl(
                *("wait", "pod/plain", "-n", "team-a", "--for=condition=PodScheduled"),
                "--timeout=60s",
            )
            _await(lambda: _lease_was_renewed(server))
        assert "forbidden" not in log.read_text()
        calls = rights.events(server.audit_log())
        assert rights.refused(calls) == []
        own = {each for each in rights.granted(helm.render(*MEMBER)) if "leases" in each.resource}
        assert {each.verb for each in own} == {"get", "update"}
        assert own <= rights.used(calls)


def _lease_was_renewed(server: ControlPlane) -> bool:
    leases = server.get("lease", "-n", NAMESPACE)["items"]
    return any(each["spec"]["acquireTime"] != each["spec"]["renewTime"] for each in leases)


PLAIN_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "plain", "namespace": "team-a"},
    "spec": {
        "schedulerName": "geotrain-scheduler",
        "containers": [{"name": "c", "image": "none"}],
    },
}


@contextmanager
def _scheduler(server: ControlPlane, folder: Path) -> Iterator[Path]:
    """kube-scheduler with the chart's configuration and its account's token; gives its log."""
    objects = helm.render(*MEMBER)
    text = one(objects, "ConfigMap", "geotrain-scheduler")["data"]["scheduler-config.yaml"]
    kubeconfig = yaml.safe_load(server.kubeconfig.read_text())
    token = server.kubectl("create", "token", "geotrain-scheduler", "-n", NAMESPACE).strip()
    kubeconfig["users"][0]["user"] = {"token": token}
    (folder / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    config = yaml.safe_load(text)
    config["clientConnection"]["kubeconfig"] = str(folder / "kubeconfig")
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    log = folder / "log"
    command = [
        str(find_programs("kube-scheduler") / "kube-scheduler"),
        f"--config={folder / 'config.yaml'}",
        f"--secure-port={free_ports(1)[0]}",
    ]
    with log.open("w") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            yield log
        finally:
            process.terminate()


def _await(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def _may(server: ControlPlane, account: str, question: str) -> bool:
    """Ask the API server itself; after a slash comes a subresource, or the name of a lease."""
    verb, what, *place = question.split()
    what, _, below = what.partition("/")
    resource, _, group = what.partition(".")
    attributes = {"verb": verb, "resource": resource, "group": group}
    attributes["name" if resource == "leases" else "subresource"] = below
    if place:
        attributes["namespace"] = place[-1]
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{NAMESPACE}:{account}",
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": attributes,
        },
    }
    answer = server.kubectl("create", "-f", "-", "-o", "json", stdin=json.dumps(review))
    return bool(json.loads(answer)["status"]["allowed"])


def test_the_chart_and_the_package_have_one_version() -> None:
    chart = yaml.safe_load((helm.CHART / "Chart.yaml").read_text())
    text = (Path(helm.CHART).parents[1] / "operator/geotrain/__init__.py").read_text()
    version = re.search(r'__version__ = "([^"]+)"', text)
    assert version is not None
    assert chart["appVersion"] == version.group(1)
