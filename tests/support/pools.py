"""Pools, their jobs and what members hold of them, for tests of the controller's pool rules."""

import copy
from typing import Any

from geotrain.api import labels
from geotrain.api.facts import pod_from_manifest
from geotrain.api.v1alpha1 import DataCenter, GeoTrainingJob, PrefillPool
from geotrain.fitting import NodeFacts, Occupancy
from geotrain.prefill.profile import LayerTime, PrefillProfile
from geotrain.roles.controller.decision import HUB, Decision, Manifest
from geotrain.roles.controller.observed import Member, RankPod
from geotrain.roles.controller.ownership import Need, Taken
from geotrain.roles.controller.pool_observed import PoolObserved
from support import manifests

PROFILE = PrefillProfile(4, (LayerTime(512, 0.001), LayerTime(2048, 0.004)))
NOW = 1_700_000_000.0
HOMES = {"dc-east": (0, 1), "dc-west": (2, 3)}
"""Two stages, two replicas: ranks by data centre."""


def pool(*, deleted: bool = False, status: Any = None, **spec: Any) -> PrefillPool:
    usual = {"model": {"name": "llama", "layers": 4, "hiddenSize": 64}}
    manifest = manifests.prefill_pool("chat", "team-a", **(usual | spec))
    manifest["metadata"] |= {"uid": "pool-uid", "generation": 1}
    if deleted:
        manifest["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    manifest["status"] = status or {}
    return PrefillPool.from_manifest(manifest)


def job(name: str = "gpt", labelled: Any = None, **status: Any) -> GeoTrainingJob:
    manifest = manifests.training_job(name, "team-a", parallelism={"data": 2, "pipeline": 2})
    manifest["metadata"] |= {"uid": f"{name}-uid", "labels": labelled or {}}
    manifest["status"] = {"plan": PLAN, "revision": "r1"} | status
    return GeoTrainingJob.from_manifest(manifest)


def rank_pod(number: int, phase: str = "Running", **meta: Any) -> RankPod:
    center = next(name for name, ranks in HOMES.items() if number in ranks)
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"gpt-r{number}",
            "namespace": "team-a",
            "uid": f"gpt-r{number}-uid",
            "labels": {
                labels.ROLE: labels.ROLE_TRAINER,
                labels.JOB: "gpt",
                labels.RANK: str(number),
            },
            **meta,
        },
        "spec": {"nodeName": f"{center}-node", "nodeSelector": {labels.DATA_CENTER: center}},
        "status": {"phase": phase},
    }
    return RankPod(center, manifest)


def gang(**phases: str) -> tuple[RankPod, ...]:
    return tuple(rank_pod(n, phases.get(f"r{n}", "Running")) for ns in HOMES.values() for n in ns)


class World:
    """What the rules see, and a pretend cluster that carries out what they decide."""

    def __init__(self, **fields: Any) -> None:
        self.pool = fields.pop("pool", None) or pool()
        self.job = fields.pop("job", job())
        self.ranks = fields.pop("ranks", gang())
        self.profile = fields.pop("profile", PROFILE)
        self.stats = fields.pop("stats", None)
        self.cpu = fields.pop("cpu", 64_000)
        self.one_cluster = False
        self.faults: dict[str, str] = {}
        self.has_finalizer = True
        self.taken: tuple[Taken, ...] = ()
        self.objects: dict[tuple[str, str, str], Manifest] = {}
        assert not fields

    def take(self, center: str, api_version: str, kind: str, name: str) -> None:
        """Let somebody else's object have a name."""
        need = Need(center, api_version, kind, "team-a", name)
        self.taken = (*self.taken, Taken(need, "was not made by geotrain"))

    def observed(self) -> PoolObserved:
        return PoolObserved(
            pool=self.pool,
            members={name: self._member(name) for name in HOMES},
            hub=self._owned(HUB),
            job=self.job,
            ranks=tuple(r for r in self.ranks if r.data_center not in self.faults),
            profile=self.profile,
            stats=self.stats,
            has_finalizer=self.has_finalizer,
            taken=self.taken,
        )

    def carry_out(self, decision: Decision) -> None:
        for reference in decision.deletions:
            del self.objects[reference.data_center, reference.kind, reference.name]
        for center, children in decision.children.items():
            for child in children:
                key = center, child["kind"], child["metadata"]["name"]
                if child["kind"] != "Pod" or key not in self.objects:
                    self._store(key, child)
        for pod, notes in decision.annotate.items():
            meta = self.objects[pod.data_center, "Pod", pod.name]["metadata"]
            meta.setdefault("annotations", {}).update(notes)
        status = self.pool.status.model_dump(mode="json", by_alias=True, exclude_none=True)
        if decision.status is not None:
            status |= decision.status
        self.pool = self.pool.model_copy(
            update={"status": type(self.pool.status).model_validate(status)}
        )

    def start(self, *names: str, **status: Any) -> None:
        """Let pods run; all of them where none is named."""
        for (center, kind, name), found in self.objects.items():
            if kind == "Pod" and center and (not names or name in names):
                found["status"] = {"phase": "Running", "podIP": "10.1.0.7", **status}

    def add_router(self, *, ready: bool = True) -> None:
        """Do what the Deployment's controller does."""
        deployment = self.objects[HUB, "Deployment", "chat-router"]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "chat-router-abc",
                "namespace": "team-a",
                "labels": deployment["spec"]["template"]["metadata"]["labels"],
            },
            "spec": {},
            "status": {
                "phase": "Running",
                "podIP": "10.9.0.9",
                "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            },
        }
        self.objects[HUB, "Pod", "chat-router-abc"] = pod

    def names(self, kind: str, center: str) -> list[str]:
        return sorted(n for c, k, n in self.objects if (c, k) == (center, kind))

    def _store(self, key: tuple[str, str, str], child: Manifest) -> None:
        stored = copy.deepcopy(child)
        stored["metadata"]["uid"] = "/".join(key)
        self.objects[key] = stored

    def _owned(self, center: str) -> tuple[Manifest, ...]:
        return tuple(found for (c, _, _), found in sorted(self.objects.items()) if c == center)

    def _member(self, name: str) -> Member:
        amounts = {"cpu": self.cpu, "pods": 110, "nvidia.com/gpu": 64}
        node = NodeFacts(
            f"{name}-node",
            amounts,
            labels={labels.DATA_CENTER: name},
            data_center=name,
        )
        facts = [pod_from_manifest(r.manifest) for r in self.ranks if r.data_center == name]
        return Member(
            DataCenter.from_manifest(manifests.data_center(name)),
            cluster="one" if self.one_cluster else name,
            fault=self.faults.get(name, ""),
            owned=() if name in self.faults else self._owned(name),
            occupancy=Occupancy([node], facts),
        )


PLAN = {
    "placement": "dc-east:1 dc-west:1",
    "stages": [
        {"dataCenter": "dc-east", "firstStage": 0, "stages": 1, "ranks": 2, "gpus": 2},
        {"dataCenter": "dc-west", "firstStage": 1, "stages": 1, "ranks": 2, "gpus": 2},
    ],
    "data": 2,
    "pipeline": 2,
    "tensor": 1,
    "microBatches": 8,
    "schedule": "Atlas",
    "iterationTime": "1s",
    "samplesPerSecond": 1.0,
    "gpuUse": 0.3,
    "bubbleShare": 0.7,
    "pricePerIteration": 0.0,
}
