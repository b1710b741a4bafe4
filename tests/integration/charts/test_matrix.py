"""Values by versions of Kubernetes: what renders is valid on the oldest and on the newest of them.

The newest is asked itself, by a dry run on its API server; of the oldest there is its own list of
fields. What both take, those between them take.
"""

import json
from itertools import product
from typing import Any

import pytest
import yaml

from support import helm, kubernetes_fields
from support.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane

MINORS = range(33, 38)
VENDORS = {
    "1.33.4-gke.1134000": 33,
    "1.34.1+k3s1": 34,
    "1.35.0-eks-3cfe0ce": 35,
    "1.36.2+rke2r1": 36,
    "1.37.0-aks": 37,
    "v1.34.0-rc.1": 34,
}
VALUES: dict[str, tuple[str, ...]] = {
    "a member": (),
    "a hub with GPUs": ("hub.enabled=true",),
    "a hub without GPUs": ("hub.enabled=true", "member.enabled=false"),
    "a hub that drains": ("hub.enabled=true", "uninstall=Drain"),
    "definitions by somebody else": ("hub.enabled=true", "crds.enabled=false"),
    "all that can be placed": (
        *("hub.enabled=true", "hub.nodeSelector.pool=system", "hub.tolerations[0].operator=Exists"),
        *("hub.priorityClassName=high", "hub.secretNamespaces[0]=vault"),
        *("member.scheduler.nodeSelector.pool=system", "member.scheduler.replicas=2"),
        *("member.scheduler.tolerations[0].operator=Exists",),
        *("member.scheduler.priorityClassName=system-cluster-critical",),
        *("imagePullSecrets[0].name=pull", "labels.team=ml", "podAnnotations.note=x"),
        *("image.repository=registry.example.com/geotrain", "image.tag=v9"),
    ),
}
CLUSTER_SCOPED = {
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "PriorityClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}

Objects = list[dict[str, Any]]


def scheduler_tag(objects: Objects) -> str:
    (deployment,) = (
        o
        for o in objects
        if (o["kind"], o["metadata"]["name"]) == ("Deployment", "geotrain-scheduler")
    )
    containers = deployment["spec"]["template"]["spec"]["containers"]
    image = next(c["image"] for c in containers if c["name"] == "scheduler")
    return str(image.rpartition(":")[2])


@pytest.fixture(scope="module")
def rendered() -> dict[tuple[str, int], Objects]:
    """Every combination, once."""
    return {
        (name, minor): helm.render(*values, kubernetes=f"1.{minor}.0")
        for (name, values), minor in product(VALUES.items(), MINORS)
    }


@pytest.fixture(scope="module")
def server(control_plane_factory: Any) -> ControlPlane:
    plane: ControlPlane = control_plane_factory()
    for namespace in (helm.NAMESPACE, "vault"):
        plane.kubectl("create", "namespace", namespace)
    return plane


@pytest.mark.parametrize("minor", MINORS)
def test_the_scheduler_is_of_the_clusters_minor_version(
    rendered: dict[tuple[str, int], Objects], minor: int
) -> None:
    assert scheduler_tag(rendered["a member", minor]).startswith(f"v1.{minor}.")


@pytest.mark.parametrize(("version", "minor"), VENDORS.items())
def test_what_a_vendor_adds_to_the_version_does_not_matter(version: str, minor: int) -> None:
    assert scheduler_tag(helm.render(kubernetes=version)).startswith(f"v1.{minor}.")


@pytest.mark.parametrize(
    "version", ["1.32.9", "1.32.9-gke.1", "1.38.0", "v1.38.0+k3s1", "1.20.0", "2.35.0"]
)
def test_another_version_is_refused_with_the_range(version: str) -> None:
    with pytest.raises(helm.HelmError, match=r"1\.33.*1\.37.*incompatible with Kubernetes v"):
        helm.render(kubernetes=version)


@pytest.mark.parametrize("minor", MINORS)
def test_every_supported_version_has_a_scheduler_and_no_other(minor: int) -> None:
    chart = yaml.safe_load((helm.CHART / "Chart.yaml").read_text())
    assert chart["kubeVersion"] == f">=1.{MINORS[0]}.0-0 <=1.{MINORS[-1]}.999-0"
    table = (helm.CHART / "templates" / "_versions.tpl").read_text()
    assert f'"{minor}": v1.{minor}.' in table
    assert table.count('": v1.') == len(MINORS)


@pytest.mark.parametrize("minor", [33, 37])
@pytest.mark.parametrize("apart", [-2, -1, 1, 2])
def test_a_tag_is_taken_up_to_one_minor_version_away(minor: int, apart: int) -> None:
    tag = f"v1.{minor + apart}.3-hardened"
    value = f"member.scheduler.image.tag={tag}"
    if abs(apart) <= 1:
        assert scheduler_tag(helm.render(value, kubernetes=f"1.{minor}.9")) == tag
        return
    with pytest.raises(
        helm.HelmError, match=f"{tag} is more than one minor version from this cluster"
    ):
        helm.render(value, kubernetes=f"1.{minor}.9")


@pytest.mark.parametrize("tag", ["latest", "v1", "1.x", "stable-1.37", "v2.37.0"])
def test_a_tag_that_tells_no_version_is_refused_with_one_that_does(tag: str) -> None:
    with pytest.raises(helm.HelmError, match=r"does not begin with a version .* such as v1\.37\."):
        helm.render(f"member.scheduler.image.tag={tag}")


@pytest.mark.parametrize("values", VALUES)
def test_the_oldest_version_knows_every_field(
    rendered: dict[tuple[str, int], Objects], values: str
) -> None:
    faults = {
        f"{o['kind']} {o['metadata']['name']}": found
        for minor in MINORS
        for o in rendered[values, minor]
        if (found := kubernetes_fields.unknown(o))
    }
    assert faults == {}


def test_the_oldest_version_knows_every_field_of_the_definitions() -> None:
    for path in helm.DEFINITIONS.glob("*.yaml"):
        assert kubernetes_fields.unknown(yaml.safe_load(path.read_text())) == []


@pytest.mark.parametrize("values", VALUES)
def test_the_newest_version_takes_every_object(
    server: ControlPlane, rendered: dict[tuple[str, int], Objects], values: str
) -> None:
    """Strictly: a field that it does not know is an error, not a warning."""
    different: dict[str, dict[str, Any]] = {}
    for minor in MINORS:
        different |= {json.dumps(o, sort_keys=True): o for o in rendered[values, minor]}
    same: dict[tuple[str, str], int] = {}
    items = []
    for each in different.values():
        place = (each["kind"], each["metadata"]["name"])
        same[place] = same.get(place, 0) + 1
        suffix = f"-{same[place]}" if same[place] > 1 else ""
        items.append(each | {"metadata": each["metadata"] | {"name": place[1] + suffix}})
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    server.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=text)


def test_the_check_of_fields_finds_one_that_is_too_new() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "shiny": 1}]}}
    assert kubernetes_fields.unknown(pod) == [".spec.containers[0].shiny"]
    assert "no kind there" in kubernetes_fields.unknown({"apiVersion": "v9", "kind": "Pod"})[0]


@pytest.mark.parametrize("values", VALUES)
def test_everything_of_a_namespace_is_in_one(
    rendered: dict[tuple[str, int], Objects], values: str
) -> None:
    for each in rendered[values, 37]:
        has = "namespace" in each["metadata"]
        assert has == (each["kind"] not in CLUSTER_SCOPED), each["metadata"]["name"]


JOINED = "geotrain join dc-west --hub-context HUB_CONTEXT --context CONTEXT"
NOTES = {
    (): (JOINED, "once it has joined a hub", "refuses while jobs have pods here"),
    ("hub.enabled=true",): (
        *(JOINED, "is the hub, and a data centre too", "--hub-context CONTEXT --local"),
        *("kubectl get gtj,pfp,dc,wan,bws -A", "CustomResourceDefinitions up to date"),
        "refuses while jobs run",
    ),
    ("hub.enabled=true", "member.enabled=false"): (JOINED, "runs no part of a job"),
    ("hub.enabled=true", "uninstall=Drain"): ("ends what jobs have in all clusters",),
    ("uninstall=Drain",): ("ends what jobs have here",),
}


@pytest.mark.parametrize(("values", "said"), NOTES.items())
def test_the_notes_are_true_for_what_is_installed(
    server: ControlPlane, values: tuple[str, ...], said: tuple[str, ...]
) -> None:
    notes = helm.Release(server).install(*values, options=("--dry-run=client",))
    for each in said:
        assert each in notes
    if values == ("hub.enabled=true", "member.enabled=false"):
        assert "kubectl label nodes" not in notes
