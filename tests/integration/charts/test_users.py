"""What people may do, once they have Kubernetes' own roles view, edit and admin in a namespace."""

import time
from typing import Any

import pytest

from support import helm, manifests, schemas
from support.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane

GROUP = "/apis/geotrain.io/v1alpha1"
MERGE = {"content": "application/merge-patch+json"}
IN_TEAM = {"viewer": "view", "editor": "edit", "owner": "admin"}
EVERYWHERE = {"platform": "geotrain-platform", "reader": "geotrain-topology-view"}
Object = dict[str, Any]


@pytest.fixture(scope="module")
def server(control_plane_factory: Any) -> ControlPlane:
    """An API server with the chart's roles, a person for each, and an object of every kind."""
    plane: ControlPlane = control_plane_factory(controller_manager=True)
    plane.apply(*schemas.crds().values())
    plane.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=30s")
    for namespace in ("geotrain-system", "team-a", "team-b"):
        plane.kubectl("create", "namespace", namespace)
    plane.apply(*helm.render_or_skip("hub.enabled=true", "admission.enabled=false"))
    for user, role in IN_TEAM.items():
        bound = ("rolebinding", user, f"--clusterrole={role}", f"--user={user}", "-n", "team-a")
        plane.kubectl("create", *bound)
    for user, role in EVERYWHERE.items():
        bound = ("clusterrolebinding", user, f"--clusterrole={role}", f"--user={user}")
        plane.kubectl("create", *bound)
    plane.apply(
        manifests.training_job("gpt", "team-a"),
        manifests.prefill_pool("chat", "team-a"),
        manifests.bandwidth_schedule("gpt-dc-west", "team-a"),
        manifests.data_center("dc-west"),
    )
    _await_aggregation(plane)
    return plane


def _await_aggregation(plane: ControlPlane) -> None:
    """The controller manager adds the chart's roles to Kubernetes' own a moment later."""
    deadline = time.monotonic() + 60
    while call(plane, "owner", "DELETE", "bandwidthschedules/none") != 404:
        assert time.monotonic() < deadline, "the roles were not aggregated"
        time.sleep(0.1)


def call(
    plane: ControlPlane,
    user: str,
    method: str,
    what: str,
    body: Any = None,
    namespace: str = "team-a",
) -> int:
    """The status of a call by a user on what is in the namespace, or in the cluster ('')."""
    place = f"/namespaces/{namespace}" if namespace else ""
    content = MERGE if method == "PATCH" else {}
    path = f"{GROUP}{place}/{what}"
    return plane.request(method, path, body, user=user, **content)[0]


NOTE = {"metadata": {"annotations": {"example.com/note": "hello"}}}
DONE = {"status": {"phase": "Running"}}


@pytest.mark.parametrize("user", [*IN_TEAM, "platform"])
@pytest.mark.parametrize("kind", ["geotrainingjobs", "prefillpools", "bandwidthschedules"])
def test_who_may_look_sees_jobs_pools_and_schedules(
    server: ControlPlane, user: str, kind: str
) -> None:
    assert call(server, user, "GET", kind) == 200


@pytest.mark.parametrize("user", [*IN_TEAM, "reader", "nobody"])
def test_the_next_namespace_is_not_theirs(server: ControlPlane, user: str) -> None:
    assert call(server, user, "GET", "geotrainingjobs", namespace="team-b") == 403
    job = manifests.training_job("gpt", "team-b")
    assert call(server, user, "POST", "geotrainingjobs", job, "team-b") == 403


@pytest.mark.parametrize(("user", "may"), [("viewer", False), ("editor", True), ("owner", True)])
def test_editors_and_admins_write_jobs_and_pools(
    server: ControlPlane, user: str, may: bool
) -> None:
    for kind, made in (
        ("geotrainingjobs", manifests.training_job(f"by-{user}", "team-a")),
        ("prefillpools", manifests.prefill_pool(f"by-{user}", "team-a")),
    ):
        assert call(server, user, "POST", kind, made) == (201 if may else 403)
        assert call(server, user, "PATCH", f"{kind}/by-{user}", NOTE) == (200 if may else 403)
        assert call(server, user, "DELETE", f"{kind}/by-{user}") == (200 if may else 403)


@pytest.mark.parametrize("user", [*IN_TEAM, "platform", "reader"])
def test_nobody_writes_a_status(server: ControlPlane, user: str) -> None:
    for what in ("geotrainingjobs/gpt", "prefillpools/chat", "bandwidthschedules/gpt-dc-west"):
        assert call(server, user, "PATCH", f"{what}/status", DONE) == 403
    assert call(server, user, "PATCH", "datacenters/dc-west/status", DONE, "") == 403


def test_schedules_are_the_controllers_and_an_admin_may_clear_them_away(
    server: ControlPlane,
) -> None:
    made = manifests.bandwidth_schedule("other", "team-a")
    for user in IN_TEAM:
        assert call(server, user, "POST", "bandwidthschedules", made) == 403
        assert call(server, user, "PATCH", "bandwidthschedules/gpt-dc-west", NOTE) == 403
    assert call(server, "editor", "DELETE", "bandwidthschedules/gpt-dc-west") == 403
    assert call(server, "owner", "DELETE", "bandwidthschedules/gpt-dc-west") == 200


@pytest.mark.parametrize("kind", ["datacenters", "wanlinks"])
def test_the_platforms_engineers_alone_write_data_centers_and_links(
    server: ControlPlane, kind: str
) -> None:
    made = manifests.data_center("new") if kind == "datacenters" else manifests.wan_link("new")
    for user in (*IN_TEAM, "reader"):
        assert call(server, user, "POST", kind, made, "") == 403
        assert call(server, user, "DELETE", f"{kind}/new", None, "") == 403
    assert call(server, "reader", "GET", kind, None, "") == 200
    assert call(server, "viewer", "GET", kind, None, "") == 403
    assert call(server, "platform", "POST", kind, made, "") == 201
    assert call(server, "platform", "PATCH", f"{kind}/new", NOTE, "") == 200
    assert call(server, "platform", "DELETE", f"{kind}/new", None, "") == 200
    job = manifests.training_job("theirs", "team-a")
    assert call(server, "platform", "POST", "geotrainingjobs", job) == 403
