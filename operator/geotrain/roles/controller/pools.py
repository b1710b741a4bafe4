"""What to do next for a PrefillPool: a pure function of what is observed and of the time.

    being deleted       remove everything, then let the pool go
    no profile          say why; what runs stays
    a name is taken     say by what; what needs it is not made, and without a router nothing is
    otherwise           router on the hub; one worker beside each rank of the running gang

Workers go as soon as the gang does, and come back when there is room again: a pod that was evicted
stays as it is for a while (its age is the back-off), and none is made where the extender would
turn it away or a waiting gang wants the room.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from geotrain.api import labels
from geotrain.api.conditions import FALSE, TRUE, UNKNOWN
from geotrain.api.reasons import ConditionType, Reason
from geotrain.api.v1alpha1 import GeoTrainingJob
from geotrain.errors import ClusterError
from geotrain.prefill.profile import PrefillProfile
from geotrain.roles.controller import (
    ownership,
    pool_children,
    pool_slots,
    pool_status,
    refusals,
)
from geotrain.roles.controller.decision import HUB, Decision, Manifest, Reference
from geotrain.roles.controller.digests import digest
from geotrain.roles.controller.draft import Draft
from geotrain.roles.controller.observed import PlanFault, RankPod
from geotrain.roles.controller.pool_children import Parts, Slot
from geotrain.roles.controller.pool_observed import PoolObserved, WorkerPod
from geotrain.roles.controller.pool_protection import Protection
from geotrain.units import Seconds

PERIOD: Final[Seconds] = 5.0
"""How often the router is asked, and the status is at most written for what it says."""

_RETRY: Final[Seconds] = 15.0
_RETRY_NAMES: Final[Seconds] = 5.0  # what has no label of ours is not followed, only asked for
_BACK_OFF: Final[Seconds] = 30.0  # before a worker that was evicted is made anew
_AT_ONCE: Final = 4  # a fourth of the workers is replaced at a time
_MOST_TOLD: Final = 3


def decide(observed: PoolObserved, now: Seconds) -> Decision:
    """The next step."""
    draft = Draft(observed.pool.metadata, observed.pool.status, now)
    if observed.pool.metadata.deletion_timestamp is not None:
        _delete(observed, draft)
        return draft.decision()
    draft.finalizer = None if observed.has_finalizer else True
    _advance(observed, draft)
    draft.fields["phase"] = pool_status.phase(draft)
    return draft.decision()


def refused(observed: PoolObserved, error: ClusterError, now: Seconds) -> Decision:
    """What to say when an API server does not take an object of the pool."""
    draft = Draft(observed.pool.metadata, observed.pool.status, now)
    job = _bind(observed, draft)
    slots = places(observed, job)
    homes = {pool_children.worker_name(observed.pool.name, s): s.data_center for s in slots}
    told = refusals.of_pool(str(error), observed.pool.namespace, homes)
    draft.set(ConditionType.SERVING, FALSE, *told)
    draft.fields["phase"] = pool_status.phase(draft)
    draft.again(_RETRY)
    return draft.decision()


def _advance(observed: PoolObserved, draft: Draft) -> None:
    job = _bind(observed, draft)
    slots = places(observed, job)
    if isinstance(observed.profile, PrefillProfile):
        parts = Parts(observed.pool, observed.profile, observed.router_image)
        shield = pool_status.protection(observed, job, draft)
        wanted = {
            pool_children.worker_name(observed.pool.name, slot): (
                slot,
                pool_children.worker(parts, job, slot),
            )
            for slot in slots
            if job is not None
        }
        lacking: list[str] = []
        if _has_no_router(observed):
            _withdraw(observed, draft)
        else:
            _surround(observed, parts, slots, shield, draft)
            lacking = _workers(observed, wanted, draft)
        pool_status.serving(observed, slots, lacking, draft)
    else:
        fault = observed.profile or PlanFault(Reason.PROFILE_MISSING, "there is no profile yet")
        draft.set(ConditionType.SERVING, FALSE, fault.reason, fault.message)
        _let_go([worker for worker in observed.workers if job is None], draft)
    if observed.taken:
        message = ownership.told(observed.taken, "pool")
        draft.set(ConditionType.SERVING, FALSE, Reason.NAME_TAKEN, message)
        draft.again(_RETRY_NAMES)
    pool_status.report(observed, job, slots, draft)
    draft.again(PERIOD if observed.routers else _RETRY)


def places(observed: PoolObserved, job: GeoTrainingJob | None) -> tuple[Slot, ...]:
    """Where workers belong beside a job."""
    if job is None:
        return ()
    return pool_slots.slots(observed.pool.spec, job, observed.ranks, observed.unseen)


def _has_no_router(observed: PoolObserved) -> bool:
    """Whether a taken name on the hub keeps the router from being made; one that runs stays."""
    return not observed.routers and any(not each.need.data_center for each in observed.taken)


def _withdraw(observed: PoolObserved, draft: Draft) -> None:
    """Keep nothing that only a router could use."""
    _let_go(observed.workers, draft)
    draft.deletions += _references(HUB, observed.hub)
    for member in observed.clusters:
        draft.deletions += _references(member.name, _surroundings(member.owned))


def _bind(observed: PoolObserved, draft: Draft) -> GeoTrainingJob | None:
    """Say which job the pool is bound to; None where no worker may run beside it now."""
    job = observed.job
    fields: tuple[Reason, str]
    if job is None:
        fields = Reason.JOB_MISSING, _missing(observed)
    elif job.metadata.deletion_timestamp is not None:
        fields = Reason.JOB_NOT_RUNNING, f"job {job.name} is being deleted"
    elif beyond := pool_slots.stages_beyond(observed.pool.spec, job):
        plan = job.status.plan
        assert plan is not None, "stages are counted by a plan"
        named = ", ".join(map(str, beyond))
        fields = (
            Reason.NO_SUCH_STAGE,
            f"placement.stages names stage {named}; job {job.name} has 0 to {plan.pipeline - 1}",
        )
    elif not pool_slots.running_ranks(job, observed.ranks, observed.unseen):
        fields = Reason.JOB_NOT_RUNNING, f"job {job.name} has no running gang"
    else:
        draft.set(ConditionType.BOUND, TRUE, Reason.JOB_BOUND, f"shares the GPUs of {job.name}")
        return job
    draft.set(ConditionType.BOUND, FALSE, *fields)
    return None


def _missing(observed: PoolObserved) -> str:
    spec, namespace = observed.pool.spec, observed.pool.namespace
    if spec.training_job_ref is not None:
        return f"there is no GeoTrainingJob {spec.training_job_ref.name} in {namespace}"
    wanted = spec.job_selector.match_labels if spec.job_selector else {}
    text = ",".join(f"{key}={value}" for key, value in sorted(wanted.items()))
    return f"no GeoTrainingJob in {namespace} has the labels {text}"


def _surround(
    observed: PoolObserved,
    parts: Parts,
    slots: tuple[Slot, ...],
    shield: Protection,
    draft: Draft,
) -> None:
    """The router on the hub, and in each cluster with workers what they read and who may ask."""
    addresses = [] if shield.holds_back else _addresses(observed)
    baseline = shield.baseline.to_text() if shield.baseline else ""
    router = (
        pool_children.router_config(parts, addresses, baseline),
        pool_children.router_service(parts),
        pool_children.router_deployment(parts),
    )
    draft.children[HUB] = tuple(each for each in router if observed.may_write(HUB, each))
    _refresh(observed.routers, digest(addresses), draft)
    homes = {slot.data_center for slot in slots}
    routers = [pod.address for pod in observed.routers if pod.address]
    clusters: set[str] = set()
    for name in sorted(homes & observed.members.keys()):
        member = observed.members[name]
        if member.reachable and not member.obstacle and member.cluster not in clusters:
            clusters.add(member.cluster)
            around = (
                pool_children.worker_config(parts),
                pool_children.worker_policy(parts, routers),
            )
            draft.children[name] = tuple(each for each in around if observed.may_write(name, each))
    used = {observed.members[name].cluster for name in homes & observed.members.keys()}
    for member in observed.clusters:
        if member.cluster not in used:
            draft.deletions += _references(member.name, _surroundings(member.owned))


def _refresh(routers: Iterable[RankPod], routes: str, draft: Draft) -> None:
    """Have the kubelet mount the list of workers now where it has changed."""
    for pod in routers:
        notes = pod.manifest["metadata"].get("annotations") or {}
        if notes.get(labels.ROUTES) != routes and not pod.terminating:
            draft.annotate[Reference.of(HUB, pod.manifest)] = {labels.ROUTES: routes}


def _workers(
    observed: PoolObserved, wanted: dict[str, tuple[Slot, Manifest]], draft: Draft
) -> list[str]:
    """Make, replace and remove workers; the sentences say where there is no room."""
    present = {worker.name: worker for worker in observed.workers}
    _let_go([worker for name, worker in present.items() if name not in wanted], draft)
    _replace(present, wanted, draft)
    lacking: list[str] = []
    blocked = {each.need.data_center for each in observed.taken if each.need.kind != "Pod"}
    for name, (slot, manifest) in wanted.items():
        member = observed.members.get(slot.data_center)
        if name in present or member is None:
            continue
        why = (
            member.fault
            or member.obstacle
            or (
                "a name is taken"
                if slot.data_center in blocked or not observed.may_write(slot.data_center, manifest)
                else pool_slots.no_room(member, manifest)
            )
        )
        if why:
            lacking.append(f"{name}: {why}")
            draft.again(_RETRY)
        else:
            held = draft.children.get(slot.data_center, ())
            draft.children[slot.data_center] = (*held, manifest)
    return lacking[:_MOST_TOLD]


def _replace(
    present: dict[str, WorkerPod], wanted: dict[str, tuple[Slot, Manifest]], draft: Draft
) -> None:
    """Remove evicted workers after a while, and outdated ones a few at a time."""
    kept = [worker for name, worker in present.items() if name in wanted]
    _let_go([worker for worker in kept if worker.ended and _waited(worker, draft.now)], draft)
    if any(worker.ended for worker in kept):
        draft.again(_RETRY)
    running = [worker for worker in kept if not worker.ended]
    current = [w for w in running if w.revision == _revision(wanted[w.name][1])]
    stale = [worker for worker in running if worker not in current]
    most = max(1, len(wanted) // _AT_ONCE)
    away = len(wanted) - sum(worker.ready for worker in running)
    # What does not work anyway costs nothing to replace.
    broken = [worker for worker in stale if not worker.ready]
    good = [worker for worker in stale if worker.ready]
    _let_go([*broken, *good[: max(0, most - away)]], draft)


def _waited(worker: WorkerPod, now: Seconds) -> bool:
    try:
        ended = datetime.fromisoformat(worker.ended_at)
    except ValueError:
        return True
    return now - ended.timestamp() >= _BACK_OFF


def _revision(manifest: Manifest) -> str:
    return str(manifest["metadata"]["labels"][labels.REVISION])


def _addresses(observed: PoolObserved) -> list[dict[str, object]]:
    """List the workers that can be asked, as the router reads them."""
    return [
        {
            "url": pool_status.worker_url(worker),
            "dataCenter": worker.home,
            "rank": worker.beside,
        }
        for worker in observed.workers
        if worker.phase == "Running" and worker.address and not worker.terminating
    ]


def _delete(observed: PoolObserved, draft: Draft) -> None:
    if not observed.has_finalizer:
        return
    draft.deletions += _references(HUB, (each for each in observed.hub if each["kind"] != "Pod"))
    for member in observed.clusters:
        _let_go([w for w in observed.workers if w.data_center == member.name], draft)
        draft.deletions += _references(member.name, _surroundings(member.owned))
    silent = _silent(observed)
    if draft.deletions or observed.workers:
        draft.again(PERIOD)
    elif silent:
        message = (
            f"{'; '.join(silent)}: what the pool has there is removed when it answers again, or"
            " when its DataCenter is deleted"
        )
        draft.set(ConditionType.SERVING, UNKNOWN, Reason.MEMBER_UNREACHABLE, message)
        draft.again(_RETRY)
    else:
        draft.finalizer = False
        draft.tell(Reason.CLEANED_UP, "everything that the pool had in its members was removed")


def _silent(observed: PoolObserved) -> list[str]:
    homes = [each.data_center for each in observed.pool.status.workers]
    silent = (observed.members[name] for name in homes if name in observed.members)
    return [f"{member.name} {member.fault}" for member in silent if not member.reachable]


def _let_go(workers: Iterable[WorkerPod], draft: Draft) -> None:
    draft.deletions += [
        Reference.of(worker.data_center, worker.manifest)
        for worker in workers
        if not worker.terminating
    ]


def _surroundings(owned: Iterable[Manifest]) -> list[Manifest]:
    """What stands around workers. A member that is the hub shows the router's objects too."""
    kinds = ("ConfigMap", "NetworkPolicy")
    return [
        each
        for each in owned
        if each["kind"] in kinds and "ownerReferences" not in each["metadata"]
    ]


def _references(data_center: str, manifests: Iterable[Manifest]) -> list[Reference]:
    return [
        Reference.of(data_center, each)
        for each in manifests
        if "deletionTimestamp" not in each["metadata"]
    ]
