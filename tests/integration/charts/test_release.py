"""A release's life on a bare API server: install, upgrade, roll back, uninstall, refusals.

Helm's hooks are Jobs; where one is to run, ``Hooks`` runs it as a process with the Job's own
account, and ``Controller`` the controller.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from geotrain.api import labels
from geotrain.api.crd import DIGEST
from support import helm, schemas
from support.controlplane import ControlPlane, ControlPlaneError
from support.helm import HelmError, Release
from support.kubelet import Controller, Hooks

pytestmark = pytest.mark.controlplane

TRAINING, PREFILL = "geotrain-training", "geotrain-prefill"
CENTERS = "datacenters.geotrain.io"
JOBS_CRD = "geotrainingjobs.geotrain.io"
CRDS = sorted(d["metadata"]["name"] for d in schemas.crds().values())
HUB = ("hub.enabled=true",)
DRAIN = ("hub.enabled=true", "uninstall=Drain")
OF_RELEASE = "app.kubernetes.io/instance=geotrain"
OPEN = "admission.enabled=false"  # so that a test can make a job's pods
SOON = ("--timeout", "60s")


@pytest.fixture(scope="module")
def plane(control_plane_factory: Any) -> ControlPlane:
    """Namespaces go and owners' objects are collected; Jobs are left to ``Hooks``."""
    started: ControlPlane = control_plane_factory(
        controller_manager=True, without=["job-controller", "deployment-controller"]
    )
    return started


@pytest.fixture
def release(plane: ControlPlane) -> Iterator[Release]:
    """A release that does not exist yet; nothing of it is left behind."""
    found = Release(plane)
    yield found
    if found.status():
        found.uninstall("--no-hooks")
    if plane.get("crd")["items"]:
        for each in plane.get("gtj", "-A")["items"]:
            let_go(plane, each["metadata"]["name"])
        _without_definitions(plane)
    plane.kubectl("delete", "jobs", "--all", "-n", helm.NAMESPACE, "--ignore-not-found")
    plane.kubectl("delete", "pods", "--all", "-n", "team-a", "--grace-period=0", "--force")
    plane.kubectl("delete", "priorityclass", TRAINING, PREFILL, "--ignore-not-found")


def _without_definitions(plane: ControlPlane) -> None:
    """Deletes the CRDs. Where one has just changed, the API server cannot list its objects yet and
    waits ever longer before it tries again, unless the CRD changes: so it is touched."""
    for attempt in range(20):
        left = [name for name in CRDS if name in _names_of_crds(plane)]
        if not left:
            return
        plane.kubectl("annotate", "crd", *left, "--overwrite", f"geotrain.io/attempt={attempt}")
        with suppress(ControlPlaneError):
            plane.kubectl("delete", "crd", *left, "--ignore-not-found", "--timeout=5s")
    raise ControlPlaneError(f"CRDs that do not go: {', '.join(left)}")


def _names_of_crds(plane: ControlPlane) -> set[str]:
    return {each["metadata"]["name"] for each in plane.get("crd")["items"]}


def classes(plane: ControlPlane) -> dict[str, int]:
    found = plane.get("priorityclasses")["items"]
    return {c["metadata"]["name"]: c["value"] for c in found if "geotrain" in c["metadata"]["name"]}


def a_class(name: str, value: int, policy: str = "PreemptLowerPriority") -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "preemptionPolicy": policy,
    }


class TestPriorities:
    def test_another_value_is_refused_before_anything_changes(self, release: Release) -> None:
        release.install()
        before = release.plane.get("deploy,cm,sa", "-n", helm.NAMESPACE)
        for value in ("member.priorities.training=2000", "member.priorities.prefill=-5"):
            with pytest.raises(HelmError, match="and Kubernetes lets nobody change it to"):
                release.upgrade(value, "member.scheduler.replicas=3")
        assert release.status() == "deployed"
        assert release.plane.get("deploy,cm,sa", "-n", helm.NAMESPACE) == before
        release.upgrade("member.scheduler.replicas=3")

    def test_the_way_out_that_is_named_leads_out(self, release: Release) -> None:
        release.install()
        with pytest.raises(HelmError, match=f"kubectl delete priorityclass {TRAINING}"):
            release.upgrade("member.priorities.training=2000")
        release.plane.kubectl("delete", "priorityclass", TRAINING)
        release.upgrade("member.priorities.training=2000")
        assert classes(release.plane) == {TRAINING: 2000, PREFILL: -1000}

    def test_one_of_somebody_else_that_fits_is_used_and_left_alone(self, release: Release) -> None:
        theirs = a_class(TRAINING, 1000)
        release.plane.apply(theirs)
        release.install()
        release.upgrade("member.scheduler.replicas=2")
        names = {o["metadata"]["name"] for o in release.manifest() if o["kind"] == "PriorityClass"}
        assert names == {PREFILL}
        release.uninstall("--no-hooks")
        assert classes(release.plane) == {TRAINING: 1000}

    @pytest.mark.parametrize(
        ("theirs", "said"),
        [
            (a_class(TRAINING, 7), "has the value 7 .no release of Helm made it.*training=7"),
            (a_class(PREFILL, -1000), "preemptionPolicy PreemptLowerPriority .no release of Helm"),
        ],
        ids=["value", "preemption"],
    )
    def test_one_of_somebody_else_that_differs_is_refused(
        self, release: Release, theirs: dict[str, Any], said: str
    ) -> None:
        release.plane.apply(theirs)
        with pytest.raises(HelmError, match=said):
            release.install()
        assert release.status() == ""

    def test_a_release_that_has_it_is_named(self, release: Release) -> None:
        release.install()
        with pytest.raises(HelmError, match="belongs to the release geotrain in geotrain-system"):
            Release(release.plane, "default", "second").install("member.priorities.training=9")


NEWER = ("charts", "hooks", "admission.yaml")


def older_chart(folder: Path) -> Path:
    """The chart as it was: definitions in crds/, of an older version; no hooks, fewer values."""
    chart = folder / "geotrain"
    shutil.copytree(helm.CHART, chart, ignore=shutil.ignore_patterns(*NEWER))
    meta = yaml.safe_load((chart / "Chart.yaml").read_text())
    del meta["dependencies"]
    (chart / "Chart.yaml").write_text(yaml.safe_dump(meta))
    values = yaml.safe_load((chart / "values.yaml").read_text())
    del values["admission"], values["uninstall"], values["member"]["scheduler"]["priorityClassName"]
    (chart / "values.yaml").write_text(yaml.safe_dump(values))
    (chart / "crds").mkdir()
    for name, definition in schemas.crds().items():
        old = json.loads(json.dumps(definition))
        del old["metadata"]["annotations"]
        schema = old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        if name == "GeoTrainingJob":
            del schema["properties"]["spec"]["properties"]["schedule"]
        (chart / "crds" / f"{name}.yaml").write_text(yaml.safe_dump(old))
    return chart


def spec_fields(plane: ControlPlane, name: str = JOBS_CRD) -> set[str]:
    schema = plane.get("crd", name)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return set(schema["properties"]["spec"]["properties"])


def digests(plane: ControlPlane) -> dict[str, str]:
    found = plane.get("crd")["items"]
    return {c["metadata"]["name"]: c["metadata"]["annotations"].get(DIGEST) for c in found}


OWN_DIGESTS = {
    d["metadata"]["name"]: d["metadata"]["annotations"][DIGEST] for d in schemas.crds().values()
}


class TestDefinitions:
    def test_a_hub_gets_them_at_once_and_a_member_none(self, release: Release) -> None:
        release.install()
        assert digests(release.plane) == {}
        release.uninstall("--no-hooks")
        release.install(*HUB)
        assert digests(release.plane) == OWN_DIGESTS
        assert not any(h["metadata"]["name"] == "geotrain-crds" for h in release.hooks())

    def test_an_upgrade_brings_those_of_an_older_chart_up_to_date_and_a_rollback_keeps_them(
        self, release: Release, tmp_path: Path
    ) -> None:
        """They were installed by Helm's crds/ folder, so they belong to no release."""
        Release(release.plane, chart=older_chart(tmp_path)).install(*HUB)
        assert "schedule" not in spec_fields(release.plane)
        release.plane.apply(*job())
        with Hooks(release.plane, helm.NAMESPACE) as hooks:
            release.upgrade(options=(*SOON, "--reuse-values"))
        assert {"geotrain-pods", "geotrain-templates"} <= {
            o["metadata"]["name"] for o in release.manifest()
        }
        assert f"{JOBS_CRD}: is brought up to date" in hooks.said.popitem()[1]
        assert digests(release.plane) == OWN_DIGESTS
        assert "schedule" in spec_fields(release.plane)
        release.rollback(1)
        assert digests(release.plane) == OWN_DIGESTS
        assert release.plane.get("gtj", "gpt", "-n", "team-a")["spec"]["suspend"] is True

    def test_where_nothing_is_late_an_upgrade_runs_nothing(self, release: Release) -> None:
        release.install(*HUB)
        release.upgrade(*HUB, "hub.settings.log.level=DEBUG", options=("--timeout", "5s"))
        assert release.status() == "deployed"

    def test_newer_ones_stay(self, release: Release) -> None:
        release.install(*HUB)
        newer = schemas.crds()["GeoTrainingJob"]
        newer["metadata"]["annotations"][DIGEST] = "of-the-future"
        schema = newer["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        schema["properties"]["spec"]["properties"]["colour"] = {"type": "string"}
        release.plane.apply(newer)
        with Hooks(release.plane, helm.NAMESPACE):
            release.upgrade(*HUB, options=SOON)
        assert "colour" in spec_fields(release.plane)

    def test_an_installation_brings_those_of_an_earlier_one_up_to_date(
        self, release: Release
    ) -> None:
        older = schemas.crds()["PrefillPool"]
        del older["metadata"]["annotations"]
        release.plane.apply(older)
        with Hooks(release.plane, helm.NAMESPACE):
            release.install(*HUB, options=SOON)
        assert digests(release.plane) == OWN_DIGESTS

    def test_a_member_that_becomes_the_hub_gets_them(self, release: Release) -> None:
        release.install()
        with Hooks(release.plane, helm.NAMESPACE):
            release.upgrade(*HUB, options=SOON)
        assert digests(release.plane) == OWN_DIGESTS

    def test_they_can_be_left_to_somebody_else(self, release: Release) -> None:
        release.install(*HUB, "crds.enabled=false")
        assert digests(release.plane) == {}

    def test_they_and_the_objects_survive_an_uninstall(self, release: Release) -> None:
        release.install(*HUB)
        release.plane.apply(*job())
        with Hooks(release.plane, helm.NAMESPACE):
            release.uninstall(*SOON)
        assert digests(release.plane) == OWN_DIGESTS
        assert release.plane.get("gtj", "gpt", "-n", "team-a")["metadata"]["name"] == "gpt"
        release.install(*HUB)  # finds them as they should be


def job(name: str = "gpt", **changes: Any) -> list[dict[str, Any]]:
    """A suspended job and its namespace, as a person applies them."""
    resources = {"limits": {"nvidia.com/gpu": 1}}
    trainer = {"name": "trainer", "image": "none", "resources": resources}
    manifest: dict[str, Any] = {
        "apiVersion": "geotrain.io/v1alpha1",
        "kind": "GeoTrainingJob",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {
            "suspend": True,
            "profileRef": {"name": "layers"},
            "parallelism": {"data": 1, "pipeline": 2},
            "batch": {"global": 2, "micro": 1},
            "template": {"spec": {"containers": [trainer]}},
        },
    }
    manifest["spec"] |= changes
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
    return [space, manifest]


def held(plane: ControlPlane, name: str = "gpt", **changes: Any) -> None:
    """A job as the controller holds it: it has the finalizer."""
    plane.apply(*job(name, **changes))
    plane.kubectl(
        *("patch", "gtj", name, "-n", "team-a", "--type=merge"),
        *("-p", json.dumps({"metadata": {"finalizers": [labels.FINALIZER]}})),
    )


def says_suspended(plane: ControlPlane, name: str = "gpt") -> None:
    condition = {
        "type": "Suspended",
        "status": "True",
        "reason": "Suspended",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    plane.kubectl(
        *("patch", "gtj", name, "-n", "team-a", "--subresource=status", "--type=merge"),
        *("-p", json.dumps({"status": {"conditions": [condition]}})),
    )


CRITICAL = ["system-node-critical", "system-cluster-critical"]
GUARDED = {
    "ResourceQuota": {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "ResourceQuotaConfiguration",
        "limitedResources": [
            {
                "resource": "pods",
                "matchScopes": [
                    {"scopeName": "PriorityClass", "operator": "In", "values": CRITICAL}
                ],
            }
        ],
    }
}
"""As on GKE: pods of these classes only where a ResourceQuota asks for them by name."""


@pytest.fixture(scope="module")
def guarded(control_plane_factory: Any) -> ControlPlane:
    made: ControlPlane = control_plane_factory(controller_manager=True, admission=GUARDED)
    return made


class TestWhereQuotasGuardThePriorities:
    def test_the_default_makes_pods(self, guarded: ControlPlane) -> None:
        Release(guarded).install()
        await_(lambda: guarded.get("pods", "-n", helm.NAMESPACE)["items"])
        (pod,) = guarded.get("pods", "-n", helm.NAMESPACE)["items"]
        assert pod["spec"]["priorityClassName"] == TRAINING
        assert pod["spec"]["priority"] == 1000

    def test_the_clusters_own_class_does_not(self, guarded: ControlPlane) -> None:
        """What the default was: it shows that the guard is there."""
        critical = "member.scheduler.priorityClassName=system-cluster-critical"
        Release(guarded).upgrade(critical)

        def refused() -> bool:
            (found,) = guarded.get("deploy", "-n", helm.NAMESPACE)["items"]
            conditions = found["status"].get("conditions") or []
            return any(
                "insufficient quota to match these scopes" in c["message"] for c in conditions
            )

        await_(refused)


def rank(name: str, finalizers: tuple[str, ...] = ()) -> dict[str, Any]:
    """A training pod, as a member holds it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team-a",
            "finalizers": list(finalizers),
            "labels": {
                labels.MANAGED_BY: labels.MANAGED_BY_VALUE,
                labels.ROLE: labels.ROLE_TRAINER,
                labels.JOB: "gpt",
            },
        },
        "spec": {"containers": [{"name": "trainer", "image": "none"}]},
    }


@pytest.fixture
def team(plane: ControlPlane) -> None:
    plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}})


class TestUninstallingAHub:
    def test_live_jobs_are_named_and_nothing_is_touched(self, release: Release) -> None:
        release.install(*HUB)
        held(release.plane, suspend=False)
        with (
            Hooks(release.plane, helm.NAMESPACE) as hooks,
            pytest.raises(HelmError, match="failed"),
        ):
            release.uninstall(*SOON)
        said = hooks.said["geotrain-uninstall"]
        assert "1 job still runs or waits (team-a/gpt)" in said
        assert "Traceback" not in said
        controller = release.plane.get("deploy", "geotrain-controller", "-n", helm.NAMESPACE)
        assert controller["spec"]["replicas"] == 1
        assert labels.FINALIZER in finalizers(release.plane)
        # Helm itself has noted that it uninstalls; the command that was named goes on as before.
        assert "keep geotrain by `helm rollback geotrain 1 -n geotrain-system`" in said
        release.rollback(1)
        assert release.status() == "deployed"
        release.upgrade(*HUB)

    def test_idle_jobs_are_let_go_and_stay_and_their_namespace_can_go(
        self, release: Release
    ) -> None:
        release.install(*HUB)
        held(release.plane)
        says_suspended(release.plane)
        with Hooks(release.plane, helm.NAMESPACE):
            release.uninstall(*SOON)
        assert release.status() == ""
        assert finalizers(release.plane) == []
        release.plane.kubectl("delete", "namespace", "team-a", "--timeout=30s")

    def test_draining_suspends_the_jobs_and_waits_for_the_controller(
        self, release: Release
    ) -> None:
        release.install(*DRAIN)
        release.plane.apply(*job(suspend=False))
        with Controller(release.plane, helm.NAMESPACE), Hooks(release.plane, helm.NAMESPACE):
            await_(lambda: finalizers(release.plane) == [labels.FINALIZER])
            release.uninstall(*SOON)
        assert release.status() == ""
        assert release.plane.get("gtj", "gpt", "-n", "team-a")["spec"]["suspend"] is True
        assert finalizers(release.plane) == []
        release.plane.kubectl("delete", "namespace", "team-a", "--timeout=30s")

    def test_without_the_hook_a_later_installation_helps(self, release: Release) -> None:
        """Somebody deletes geotrain's namespace by hand: jobs keep their finalizer."""
        release.install(*HUB)
        held(release.plane, suspend=False)
        release.plane.kubectl("delete", "namespace", helm.NAMESPACE, "--timeout=60s")
        release.plane.kubectl("delete", "namespace", "team-a", "--wait=false")
        with pytest.raises(ControlPlaneError, match="timed out"):
            release.plane.kubectl("wait", "ns/team-a", "--for=delete", "--timeout=2s")
        release.plane.kubectl("delete", "clusterrole,clusterrolebinding", "-l", OF_RELEASE)
        release.install(*HUB)
        with Controller(release.plane, helm.NAMESPACE):
            release.plane.kubectl("wait", "ns/team-a", "--for=delete", "--timeout=60s")

    def test_definitions_that_were_deleted_by_hand_are_helped_by_applying_them(
        self, release: Release
    ) -> None:
        """Without the kind of data centres nobody can say where a job has something: it waits."""
        release.install(*HUB)
        release.plane.apply(*job(suspend=False))
        with Controller(release.plane, helm.NAMESPACE):
            await_(lambda: finalizers(release.plane) == [labels.FINALIZER])
            release.plane.kubectl("delete", "crd", *CRDS, "--wait=false")
            release.plane.kubectl("wait", f"crd/{CENTERS}", "--for=delete", "--timeout=60s")
            release.plane.apply(*schemas.crds().values())
            release.plane.kubectl("wait", f"crd/{JOBS_CRD}", "--for=delete", "--timeout=90s")
            release.plane.apply(*schemas.crds().values())
            wait = ("--for=condition=Established", "--timeout=30s")
            release.plane.kubectl("wait", "crd", *CRDS, *wait)
        release.plane.apply(*job(suspend=False))
        with Controller(release.plane, helm.NAMESPACE):  # it looks which kinds exist when it starts
            await_(lambda: finalizers(release.plane) == [labels.FINALIZER])


class TestUninstallingAMember:
    def test_pods_of_jobs_are_named_and_nothing_is_touched(
        self, release: Release, team: None
    ) -> None:
        release.install(OPEN)
        release.plane.apply(rank("gpt-r0"), rank("gpt-r1"))
        with (
            Hooks(release.plane, helm.NAMESPACE) as hooks,
            pytest.raises(HelmError, match="failed"),
        ):
            release.uninstall(*SOON)
        assert (
            "2 pods of geotrain's jobs still run in this cluster (team-a/gpt: 2)"
            in (hooks.said["geotrain-uninstall"])
        )
        assert len(release.plane.get("pods", "-n", "team-a")["items"]) == 2

    def test_draining_locks_the_hub_out_and_removes_what_jobs_have(
        self, release: Release, team: None
    ) -> None:
        release.install(OPEN, "uninstall=Drain")
        ours = {labels.MANAGED_BY: labels.MANAGED_BY_VALUE, labels.JOB: "gpt"}
        map_of = {"apiVersion": "v1", "kind": "ConfigMap"}
        place = {"namespace": "team-a"}
        release.plane.apply(
            rank("gpt-r0"),
            map_of | {"metadata": {"name": "gpt-geotrain", "labels": ours, **place}},
            map_of | {"metadata": {"name": "users", **place}},
        )
        with Hooks(release.plane, helm.NAMESPACE):
            release.uninstall(*SOON)
        assert release.status() == ""
        left = release.plane.get("pods,cm", "-n", "team-a")["items"]
        assert {o["metadata"]["name"] for o in left} == {"users", "kube-root-ca.crt"}


def await_(condition: Callable[[], Any], timeout: float = 90.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def finalizers(plane: ControlPlane) -> list[str]:
    return list(plane.get("gtj", "gpt", "-n", "team-a")["metadata"].get("finalizers") or [])


def let_go(plane: ControlPlane, name: str = "gpt") -> None:
    patch = json.dumps({"metadata": {"finalizers": []}})
    plane.kubectl("patch", "gtj", name, "-n", "team-a", "--type=merge", "-p", patch)
