"""A hub and its members in memory, with a controller whose steps a test takes one by one.

    world = World()
    async with world.running():
        world.submit(job(...))
        await world.settle()

Time stands still unless a test moves ``world.clock``. ``Kubelets`` plays schedulers and kubelets.
"""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from geotrain.api import labels, tokens
from geotrain.api.objects import (
    BANDWIDTH_SCHEDULES,
    CONFIG_MAPS,
    DATA_CENTERS,
    ENDPOINT_SLICES,
    EVENTS,
    NETWORK_POLICIES,
    PODS,
    SECRETS,
    SERVICES,
    TRAINING_JOBS,
    WAN_LINKS,
    ApiResource,
    Object,
)
from geotrain.errors import CredentialsError, GeotrainError
from geotrain.roles.controller.controller import Controller, Key
from geotrain.settings import ControllerSettings
from support import manifests
from support.fakes import FakeClock, FakeCluster
from support.scheduling import node_manifest

GPU = "example.com/gpu"
CENTERS = ("dc-central", "dc-east", "dc-west")  # dc-central is the hub
NETWORKS = {name: f"10.{101 + number}.0.0/16" for number, name in enumerate(CENTERS)}
CHILDREN = (PODS, SERVICES, ENDPOINT_SLICES, NETWORK_POLICIES, CONFIG_MAPS)
PROFILE = {
    "layers": [
        {
            "count": 6,
            "forward": "10ms",
            "inputGradient": "10ms",
            "weightGradient": "10ms",
            "activationBytes": "1Mi",
            "parameterBytes": "1Mi",
        }
    ],
    "boundaryBytes": "100000",
    "optimizerStep": "1ms",
    "gradientBytes": "1000",
}
_KEY = Key(TRAINING_JOBS, "team-a", "gpt")


def job(name: str = "gpt", **spec: Any) -> Object:
    """Six stages of two replicas over a profile of six layers, one GPU a pod."""
    template = {
        "spec": {
            "containers": [
                {
                    "name": "trainer",
                    "image": "example.com/trainer",
                    "resources": {"limits": {GPU: "1"}, "requests": {GPU: "1"}},
                }
            ]
        }
    }
    usual: dict[str, Any] = {
        "model": None,
        "profileRef": {"name": "profile"},
        "batch": {"global": 8, "micro": 1},
        "template": template,
    }
    made = manifests.training_job(name, "team-a", **usual | spec)
    made["spec"] = {key: value for key, value in made["spec"].items() if value is not None}
    return made


class Kubelets:
    """Binds pods without gates where GPUs are free and lets them run, as kubelets would.

    Pods that are deleted go at once, but for those whose names are in ``lingering``.
    """

    def __init__(self, clusters: dict[str, FakeCluster]) -> None:
        self.clusters = clusters
        self.binding = True
        self.lingering: set[str] = set()
        self._addresses = 0

    def work(self) -> None:
        for name, cluster in self.clusters.items():
            for pod in cluster.everything(PODS):
                self._one(name, cluster, pod)

    def _one(self, name: str, cluster: FakeCluster, pod: Object) -> None:
        meta, spec = pod["metadata"], pod["spec"]
        if "deletionTimestamp" in meta:
            if meta["name"] not in self.lingering:
                cluster.vanish(PODS, meta["namespace"], meta["name"])
        elif self.binding and not spec.get("schedulingGates") and "nodeName" not in spec:
            self._addresses += 1
            pod["spec"]["nodeName"] = f"{name}-node"
            third, fourth = divmod(self._addresses, 250)
            address = f"{NETWORKS[name].removesuffix('.0.0/16')}.{third}.{fourth + 1}"
            pod["status"] = {"phase": "Running", "podIP": address}
            cluster.put(pod)


class World:
    """The clusters, their clock and a controller; ``restart`` replaces the controller."""

    def __init__(self, gpus: int = 4) -> None:
        self.clusters = {name: FakeCluster(name) for name in CENTERS}
        self.hub = self.clusters["dc-central"]
        self.clock = FakeClock()
        self.kubelets = Kubelets(self.clusters)
        self.faults: list[GeotrainError] = []
        self.aliases: dict[str, str] = {}  # kubeconfig without its token → cluster
        for name, cluster in self.clusters.items():
            cluster.put(node_manifest(f"{name}-node", name, gpu=str(gpus), memory="64Gi"))
            cluster.put(manifests.namespace("team-a"))
        self._register()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run a controller for the length of the block."""
        self.start()
        await self.ready()
        try:
            yield
        finally:
            await self.stop()

    def start(self) -> None:
        settings = ControllerSettings(settle_timeout=2.0)
        self.controller = Controller(self.hub, self._open, self.clock, settings, "geotrain-system")
        self._task = asyncio.create_task(self.controller.members.open_hub())

    async def ready(self) -> None:
        await self._task
        await self.controller.members.settle(2.0)
        for name in CENTERS:
            await self.look(Key(DATA_CENTERS, "", name))

    async def stop(self) -> None:
        await self.controller.members.close()

    async def restart(self) -> None:
        """As after a crash: nothing that the controller knew is left."""
        await self.stop()
        self.start()
        await self.ready()

    def submit(self, manifest: Object) -> None:
        """Create or change a resource on the hub as a user would."""
        self.hub.put(manifest)

    async def look(self, key: Key = _KEY) -> float | None:
        """One reconcile. Returns the delay it asks for; faults count as "try again"."""
        try:
            return await self.controller.look(key)
        except GeotrainError as error:
            self.faults.append(error)
            return 1.0
        finally:
            await self.drain()

    async def settle(self, key: Key = _KEY, rounds: int = 12) -> None:
        """Reconcile and let kubelets work until both have nothing more to do at this time."""
        for _ in range(rounds):
            before = self.snapshot()
            await self.look(key)
            self.kubelets.work()
            await self.drain()
            if self.snapshot() == before:
                return
        raise AssertionError(f"not settled after {rounds} rounds")

    async def later(self, seconds: float, key: Key = _KEY) -> None:
        """Let time pass, then settle."""
        self.clock.time += seconds
        await self.settle(key)

    async def drain(self) -> None:
        """Let every watch be told."""
        for _ in range(20):
            await asyncio.sleep(0)

    def snapshot(self) -> list[object]:
        """Equal as long as no object that the controller writes has changed."""
        kinds = (*CHILDREN, TRAINING_JOBS, BANDWIDTH_SCHEDULES)
        return [cluster.versions(*kinds) for cluster in self.clusters.values()]

    def job(self, name: str = "gpt") -> Object:
        return next(o for o in self.hub.everything(TRAINING_JOBS) if o["metadata"]["name"] == name)

    def status(self, name: str = "gpt") -> Object:
        return self.job(name).get("status", {})

    def condition(self, kind: str, name: str = "gpt") -> tuple[str, str, str]:
        """Status, reason and message of a job's condition."""
        found = [c for c in self.status(name).get("conditions", ()) if c["type"] == kind]
        return (found[0]["status"], found[0]["reason"], found[0]["message"]) if found else ("",) * 3

    def pods(self, center: str = "") -> dict[str, Object]:
        wanted = [center] if center else list(CENTERS)
        return {
            pod["metadata"]["name"]: pod
            for each in wanted
            for pod in self.clusters[each].everything(PODS)
        }

    def end_all(self, phase: str = "Succeeded") -> None:
        """Let every pod end."""
        for name in CENTERS:
            for pod in self.clusters[name].everything(PODS):
                self.clusters[name].put({**pod, "status": {**pod["status"], "phase": phase}})

    def end(self, pod: str, phase: str) -> None:
        for name in CENTERS:
            for found in self.clusters[name].everything(PODS):
                if found["metadata"]["name"] == pod:
                    self.clusters[name].put(
                        {**found, "status": {**found["status"], "phase": phase}}
                    )

    async def reserved(self) -> dict[str, str]:
        """What jobs hold of each link, by the links' own statuses; links without are left out."""
        names = [each["metadata"]["name"] for each in self.hub.everything(WAN_LINKS)]
        for name in names:
            await self.look(Key(WAN_LINKS, "", name))
        return {
            f"{each['job']} of {link['metadata']['name']}": each["rate"]
            for link in self.hub.everything(WAN_LINKS)
            for each in link.get("status", {}).get("reserved", ())
        }

    def leftovers(self, center: str) -> list[str]:
        """What geotrain made in a cluster and is still there."""
        return [
            f"{resource}/{each['metadata']['name']}"
            for resource in (*CHILDREN, BANDWIDTH_SCHEDULES)
            for each in self.clusters[center].everything(resource)
            if (each["metadata"].get("labels") or {}).get(labels.MANAGED_BY)
        ]

    def events(self) -> list[str]:
        """Reasons of all events, the oldest first."""
        return [each["reason"] for each in self.hub.everything(EVENTS)]

    async def recover(self, center: str) -> None:
        """Let a cluster answer again, and wait until the controller has seen that."""
        self.clusters[center].down = False
        if self.controller.members.site(center) is None:  # it has never told who it is
            await self.look(Key(DATA_CENTERS, "", center))
        site = self.controller.members.site(center)
        assert site is not None
        async with asyncio.timeout(10):
            while site.mirror.fault is not None:
                await asyncio.sleep(0.02)

    def everywhere_clean(self) -> bool:
        return not any(self.leftovers(name) for name in CENTERS)

    def _register(self) -> None:
        for name in CENTERS:
            network = {"podCIDRs": [NETWORKS[name]]}
            center = manifests.data_center(name, gpuResource=GPU, network=network)
            if name != "dc-central":
                ref = {"namespace": "geotrain-system", "name": name}
                center["spec"]["cluster"] = {"kubeconfigSecretRef": ref}
                self.hub.put(secret(name, name))
            self.hub.put(center)
        for source, target in (
            ("dc-west", "dc-central"),
            ("dc-central", "dc-east"),
            ("dc-west", "dc-east"),
        ):
            ends = {"from": source, "to": target}
            self.hub.put(manifests.wan_link(f"{source}-{target}", **ends))
        self.hub.put(profile())

    def _open(self, kubeconfig: str) -> FakeCluster:
        name = self.aliases.get(tokens.without(kubeconfig), kubeconfig)
        if name not in self.clusters:
            raise CredentialsError("the kubeconfig is incomplete: no current-context")
        return self.clusters[name]


def secret(name: str, kubeconfig: str) -> Object:
    data = {"kubeconfig": base64.b64encode(kubeconfig.encode()).decode()}
    meta = {"name": name, "namespace": "geotrain-system"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data}


def profile(text: str = json.dumps(PROFILE)) -> Object:
    meta = {"name": "profile", "namespace": "team-a"}
    data = {"profile.json": text}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


__all__ = ["SECRETS", "WAN_LINKS", "ApiResource", "World", "job", "profile", "secret"]
