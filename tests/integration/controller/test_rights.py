"""The controller under its real accounts, with the chart's rights and policies: just enough.

A hub that is a data centre itself and one member take the whole chart. The controller logs in as
its service account on the hub, and as the one that the chart makes for it in the member. Through
the lives of a job and a pool the API servers log every call and which role allowed it; then each
right must have been used, and no call refused.
"""

import asyncio
import contextlib
import itertools
import json
import time
from typing import Any

import pytest
import yaml

from e2e.testbed import rights
from geotrain.adapters import credentials
from geotrain.api import labels
from geotrain.roles.controller import app
from geotrain.roles.controller.children.discovery import slice_name
from geotrain.roles.controller.children.gang import config_name
from geotrain.roles.controller.children.policy import policy_name
from geotrain.settings import Settings
from support import helm, manifests, schemas
from support.controlplane import ControlPlane
from support.world import GPU, NETWORKS, job, profile, secret

pytestmark = pytest.mark.controlplane

SYSTEM = "geotrain-system"
TEAM = "team-a"
HUB, MEMBER = "dc-central", "dc-west"
VALUES = {HUB: ("hub.enabled=true", "member.enabled=true"), MEMBER: ("member.enabled=true",)}
PATIENCE = 90.0
JOBS = f"/apis/geotrain.io/v1alpha1/namespaces/{TEAM}/geotrainingjobs"
POOLS = f"/apis/geotrain.io/v1alpha1/namespaces/{TEAM}/prefillpools"
PODS = f"/api/v1/namespaces/{TEAM}/pods"
MERGE = "application/merge-patch+json"
SETTINGS = {"controller": {"healthPort": 0, "contactPeriod": 1.0}, "log": {"form": "text"}}
Object = dict[str, Any]


class Clusters:
    """Both planes as an administrator sees them, and the controller."""

    def __init__(self, planes: dict[str, ControlPlane]) -> None:
        self.planes, self.hub = planes, planes[HUB]

    @contextlib.asynccontextmanager
    async def controller(self):
        access = credentials.from_file(self.hub.service_account(SYSTEM, "geotrain-controller"))
        settings = Settings.from_document(SETTINGS)
        task = asyncio.create_task(app.run(access, settings, SYSTEM))
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def call(
        self, method: str, path: str, body: Any = None, where: str = HUB, **options: str
    ) -> Object:
        status, answer = await asyncio.to_thread(
            self.planes[where].request, method, path, body, **options
        )
        assert status < 400, answer
        return answer

    async def pods(self, role: str = labels.ROLE_TRAINER) -> list[tuple[str, Object]]:
        """The pods of a role that are not ending, with the cluster."""
        chosen = f"{PODS}?labelSelector={labels.ROLE}%3D{role}"
        found = [(name, await self.call("GET", chosen, where=name)) for name in self.planes]
        return [
            (name, pod)
            for name, pods in found
            for pod in pods["items"]
            if "deletionTimestamp" not in pod["metadata"]
        ]

    async def until(self, what: str, look: Any) -> None:
        end = time.monotonic() + PATIENCE
        while not await look():
            if time.monotonic() > end:
                raise AssertionError(f"not so after {PATIENCE:.0f} s: {what}; {self.state()}")
            await asyncio.sleep(0.3)

    def state(self) -> str:
        both = [self.hub.request("GET", path)[1].get("items", []) for path in (JOBS, POOLS)]
        return json.dumps([each.get("status") for items in both for each in items])[:3000]

    async def until_phase(self, phase: str, path: str = f"{JOBS}/gpt") -> None:
        async def look() -> bool:
            return (await self.call("GET", path)).get("status", {}).get("phase") == phase

        await self.until(phase, look)

    async def until_gone(self, path: str) -> None:
        async def look() -> bool:
            status, _ = await asyncio.to_thread(self.hub.request, "GET", path)
            return status == 404

        await self.until(f"{path} gone", look)

    async def until_empty(self) -> None:
        async def look() -> bool:
            roles = (labels.ROLE_TRAINER, labels.ROLE_PREFILL)
            return not [pod for role in roles for pod in await self.pods(role)]

        await self.until("no pods", look)


@pytest.fixture(scope="module")
def clusters(control_plane_factory):
    planes = {name: _plane(control_plane_factory, name) for name in VALUES}
    for name, plane in planes.items():
        for namespace in (SYSTEM, TEAM):
            plane.kubectl("create", "namespace", namespace)
        plane.kubectl("label", "namespace", TEAM, "geotrain.io/enabled=true")
        if name == HUB:
            plane.apply(*schemas.crds().values())
            wait = "--for=condition=Established"
            plane.kubectl("wait", "crd", "--all", wait, "--timeout=30s")
        plane.apply(*helm.render_or_skip(*VALUES[name]))
    member = planes[MEMBER].service_account(SYSTEM, "geotrain-member")
    near, far = (_data_center(name) for name in (HUB, MEMBER))
    far["spec"]["cluster"] = {"kubeconfigSecretRef": {"namespace": SYSTEM, "name": MEMBER}}
    planes[HUB].apply(
        profile(),
        _prefill_profile(),
        secret(MEMBER, yaml.safe_dump(yaml.safe_load(member.read_text()))),
        near,
        far,
        manifests.wan_link(f"{HUB}-{MEMBER}", **{"from": HUB, "to": MEMBER}),
    )
    return Clusters(planes)


def _data_center(name: str) -> Object:
    network = {"podCIDRs": [NETWORKS[name]]}
    return manifests.data_center(name, gpuResource=GPU, network=network)


def _plane(factory, name: str) -> ControlPlane:
    resources = {GPU: "4", labels.MANAGED_RESOURCE: "110"}
    profiles = [{"schedulerName": labels.SCHEDULER_NAME}, {"schedulerName": "default-scheduler"}]
    return factory(
        scheduler={"profiles": profiles},
        nodes={f"{name}-node": ({labels.DATA_CENTER: name}, resources)},
        controller_manager=name == HUB,
        audit_policy=rights.audit_policy(),
    )


def _prefill_profile() -> Object:
    text = json.dumps({"layers": 4, "layerTimes": [{"tokens": 512, "time": "1ms"}]})
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "prefill", "namespace": TEAM},
        "data": {"prefill.json": text},
    }


def training(**spec: Any) -> Object:
    """Four stages, two in each data centre."""
    stages = [{"dataCenter": HUB, "stages": 2}, {"dataCenter": MEMBER, "stages": 2}]
    usual = {
        "parallelism": {"data": 1, "pipeline": 4},
        "placement": {"policy": "Fixed", "stages": stages},
    }
    return job(**usual | spec)


def pool() -> Object:
    made = manifests.prefill_pool("chat", TEAM, profileRef={"name": "prefill"})
    del made["spec"]["model"], made["spec"]["decode"]
    made["spec"]["template"]["spec"]["containers"] = [{"name": "worker", "image": "example.com/w"}]
    return made


async def test_the_accounts_may_do_all_that_they_need_and_nothing_else(clusters):
    async with clusters.controller():
        await _names_that_are_taken(clusters)
        await _life_of_a_job(clusters)
        await _life_of_a_pool(clusters)
        await _leave_a_job_behind(clusters)
    await clusters.call("PATCH", f"{JOBS}/gpt", {"metadata": {"finalizers": None}}, content=MERGE)
    await clusters.call("DELETE", f"{JOBS}/gpt")
    assert await clusters.pods()
    async with clusters.controller():  # and find what nobody owns any more
        await clusters.until_empty()
    _check(clusters)


def theirs(kind: str, name: str, **fields: Any) -> tuple[str, Object]:
    """An object of a user's, and the path of its kind."""
    group, plural = {
        "Service": ("/api/v1", "services"),
        "ConfigMap": ("/api/v1", "configmaps"),
        "EndpointSlice": ("/apis/discovery.k8s.io/v1", "endpointslices"),
        "NetworkPolicy": ("/apis/networking.k8s.io/v1", "networkpolicies"),
    }[kind]
    version = group.removeprefix("/apis/").removeprefix("/api/")
    meta = {"name": name, "namespace": TEAM}
    manifest = {"apiVersion": version, "kind": kind, "metadata": meta, **fields}
    return f"{group}/namespaces/{TEAM}/{plural}", manifest


async def _names_that_are_taken(clusters: Clusters) -> None:
    """Users have objects of names that a job needs: it is told, and looks at them again."""
    around = [
        theirs("Service", "gpt", spec={"ports": [{"port": 1}]}),
        theirs("EndpointSlice", slice_name("gpt", "IPv4", 0), addressType="IPv4", endpoints=[]),
        theirs("NetworkPolicy", policy_name("gpt"), spec={"podSelector": {}}),
    ]
    placed = [(place, each) for each in around for place in clusters.planes]
    placed += [(name, theirs("ConfigMap", config_name("gpt", name))) for name in clusters.planes]
    for where, (path, manifest) in placed:
        await clusters.call("POST", path, manifest, where)
    await clusters.call("POST", JOBS, training())
    await _taken(clusters, "Service")
    for where, (path, manifest) in placed:
        await clusters.call("DELETE", f"{path}/{manifest['metadata']['name']}", None, where)
    await clusters.until_phase("Running")
    await clusters.call("DELETE", f"{JOBS}/gpt")
    await clusters.until_gone(f"{JOBS}/gpt")


async def _taken(clusters: Clusters, kind: str) -> None:
    async def look() -> bool:
        conditions = (await clusters.call("GET", f"{JOBS}/gpt")).get("status", {}).get("conditions")
        return any(
            (c["type"], c["reason"]) == ("Reserved", "NameTaken")
            and c["message"].partition(f"{kind} {TEAM}/")[1]
            for c in conditions or ()
        )

    await clusters.until(f"the {kind} in the way", look)


async def _life_of_a_job(clusters: Clusters) -> None:
    """Place, repair, restart, suspend, resume, finish, remove after the time to live."""
    await clusters.call("POST", JOBS, training(ttlAfterFinished="0s"))
    await clusters.until_phase("Running")
    for where in clusters.planes:
        config = f"/api/v1/namespaces/{TEAM}/configmaps/{config_name('gpt', where)}"
        await _repaired(clusters, config, {"data": {"schedule.csv": "none"}}, where)
        service = f"/api/v1/namespaces/{TEAM}/services/gpt"
        await _repaired(clusters, service, {"spec": {"publishNotReadyAddresses": False}}, where)
    (where, lost), *_ = await clusters.pods()
    name = lost["metadata"]["name"]
    await clusters.call("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0}, where)

    async def restarted() -> bool:
        status = (await clusters.call("GET", f"{JOBS}/gpt"))["status"]
        return status["attempt"] == 1 and status["phase"] == "Running"

    await clusters.until("a second attempt", restarted)
    await clusters.call("PATCH", f"{JOBS}/gpt", {"spec": {"suspend": True}}, content=MERGE)
    await clusters.until_phase("Suspended")
    await clusters.until_empty()
    await clusters.call("PATCH", f"{JOBS}/gpt", {"spec": {"suspend": False}}, content=MERGE)
    await clusters.until_phase("Running")
    done = {"status": {"phase": "Succeeded"}}
    for where, pod in await clusters.pods():
        path = f"{PODS}/{pod['metadata']['name']}/status"
        await clusters.call("PATCH", path, done, where, content=MERGE)
    await clusters.until_gone(f"{JOBS}/gpt")
    await clusters.until_empty()


async def _repaired(clusters: Clusters, path: str, damage: Object, where: str) -> None:
    """Somebody changes an object of geotrain's, which then is as it was."""
    (part,) = damage
    before = (await clusters.call("GET", path, where=where))[part]
    await clusters.call("PATCH", path, damage, where, content=MERGE)

    async def whole() -> bool:
        return (await clusters.call("GET", path, where=where))[part] == before

    await clusters.until(f"{path} in {where} repaired", whole)


async def _life_of_a_pool(clusters: Clusters) -> None:
    """A router on the hub and workers beside all ranks, until the pool is deleted."""
    await clusters.call("POST", JOBS, training())
    await clusters.until_phase("Running")
    await clusters.call("POST", POOLS, pool())

    async def served() -> bool:
        homes = {where for where, _ in await clusters.pods(labels.ROLE_PREFILL)}
        routers = await clusters.pods(labels.ROLE_ROUTER)
        told = [labels.ROUTES in (p["metadata"].get("annotations") or {}) for _, p in routers]
        return homes == {HUB, MEMBER} and told == [True]

    await clusters.until("workers and a router that knows them", served)
    router = f"/apis/apps/v1/namespaces/{TEAM}/deployments/chat-router"
    await _repaired(clusters, router, {"spec": {"replicas": 2}}, HUB)
    await clusters.call("DELETE", f"{POOLS}/chat")
    await clusters.until_gone(f"{POOLS}/chat")


async def _leave_a_job_behind(clusters: Clusters) -> None:
    """Wait until a gang runs whose job is then lost while nobody looks."""
    await clusters.until_phase("Running")
    assert len(await clusters.pods()) == 4


def _check(clusters: Clusters) -> None:
    log = {name: rights.events(plane.audit_log()) for name, plane in clusters.planes.items()}
    refused = {name: rights.refused(events) for name, events in log.items()}
    assert refused == {HUB: [], MEMBER: []}
    grants = {name: rights.granted(helm.render(*values)) for name, values in VALUES.items()}
    unused = {name: rights.unused(grants[name], rights.used(log[name])) for name in VALUES}
    # On a hub that is a data centre the controller acts as its own account alone.
    unused[HUB] = [each for each in unused[HUB] if "ClusterRole geotrain-member" not in each]
    # No scheduler runs under its account here: tests/integration/charts does that.
    schedulers = "geotrain-scheduler"
    left = {n: [each for each in found if schedulers not in each] for n, found in unused.items()}
    assert left == {HUB: [], MEMBER: []}
    assert rights.stale_exemptions(itertools.chain.from_iterable(grants.values())) == []


RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


async def test_a_namespaces_level_decides_which_pods_it_takes(clusters):
    async with clusters.controller():
        enforce(clusters, "baseline", MEMBER)
        await clusters.call("POST", JOBS, training())
        said = await _refusal(clusters, f"{JOBS}/gpt", "Reserved")
        assert f'namespace {TEAM} in {MEMBER} enforces Pod Security "baseline"' in said
        assert f"namespace {TEAM} pod-security.kubernetes.io/enforce=privileged" in said
        assert "spec.network.enforcement: None" in said
        await _change(clusters, {"network": {"enforcement": "None"}})
        await clusters.until_phase("Running")

        enforce(clusters, "restricted", HUB, MEMBER)
        await _change(clusters, {"template": {"metadata": {"annotations": {"a/b": "c"}}}})
        said = await _refusal(clusters, f"{JOBS}/gpt", "Reserved")
        assert 'enforces Pod Security "restricted"' in said
        assert "change spec.template" in said
        (container,) = training()["spec"]["template"]["spec"]["containers"]
        confined = {"spec": {"containers": [{**container, "securityContext": RESTRICTED}]}}
        await _change(clusters, {"template": confined})
        await clusters.until_phase("Running")

        await clusters.call("POST", POOLS, pool())  # its workers mount a folder of the node
        said = await _refusal(clusters, f"{POOLS}/chat", "Serving")
        assert "a prefill worker needs the node's folder" in said

        async def routed() -> bool:
            return bool(await clusters.pods(labels.ROLE_ROUTER))

        await clusters.until("a router in a restricted namespace", routed)
        for path in (f"{POOLS}/chat", f"{JOBS}/gpt"):
            await clusters.call("DELETE", path)
            await clusters.until_gone(path)


def enforce(clusters: Clusters, level: str, *names: str) -> None:
    for name in names:
        label = f"pod-security.kubernetes.io/enforce={level}"
        clusters.planes[name].kubectl("label", "--overwrite", "namespace", TEAM, label)


async def _change(clusters: Clusters, spec: Object) -> None:
    await clusters.call("PATCH", f"{JOBS}/gpt", {"spec": spec}, content=MERGE)


async def _refusal(clusters: Clusters, path: str, kind: str) -> str:
    """The message of a condition, once its reason is that a namespace is too strict."""
    found: list[str] = []

    async def look() -> bool:
        conditions = (await clusters.call("GET", path)).get("status", {}).get("conditions", ())
        found[:] = [
            each["message"]
            for each in conditions
            if (each["type"], each["reason"]) == (kind, "PodSecurityRefused")
        ]
        return bool(found)

    await clusters.until(f"{kind} for PodSecurityRefused", look)
    return found[0]
