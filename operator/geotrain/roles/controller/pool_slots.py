"""Beside which ranks of a job a pool's workers run, and whether there is room for them."""

from collections import defaultdict
from collections.abc import Sequence, Set

from geotrain.api import labels
from geotrain.api.facts import pod_from_manifest
from geotrain.api.v1alpha1 import GeoTrainingJob, PrefillPool
from geotrain.api.v1alpha1.prefill_pool import PrefillPoolSpec
from geotrain.api.v1alpha1.training_status import PlannedSegment
from geotrain.fitting import filter_nodes
from geotrain.roles.controller.decision import Manifest
from geotrain.roles.controller.observed import Member, RankPod
from geotrain.roles.controller.pool_children import Slot


def bound_job(pool: PrefillPool, jobs: Sequence[GeoTrainingJob]) -> GeoTrainingJob | None:
    """Pick the pool's job among those of its namespace: by name, or the first with the labels."""
    reference, selector = pool.spec.training_job_ref, pool.spec.job_selector
    near = sorted((job for job in jobs if job.namespace == pool.namespace), key=lambda j: j.name)
    if reference is not None:
        return next((job for job in near if job.name == reference.name), None)
    wanted = selector.match_labels if selector is not None else {}
    return next((j for j in near if wanted.items() <= j.metadata.labels.items()), None)


def stages_beyond(spec: PrefillPoolSpec, job: GeoTrainingJob) -> list[int]:
    """List stages that the pool names and the job's plan does not have."""
    plan = job.status.plan
    return [] if plan is None else [s for s in spec.placement.stages if s >= plan.pipeline]


def running_ranks(
    job: GeoTrainingJob, ranks: Sequence[RankPod], unseen: Set[str] = frozenset()
) -> dict[int, RankPod]:
    """Find the pods of the whole gang; none unless all of them run.

    A gang that is still starting, or about to be replaced, must not meet prefill in its way. Of
    ``unseen`` data centres nothing is known, so the others' workers do not go for them.
    """
    plan = job.status.plan
    running = {pod.rank: pod for pod in ranks if pod.phase == "Running" and not pod.terminating}
    expected = [
        rank
        for segment in (plan.stages if plan else ())
        if segment.data_center not in unseen
        for rank in _ranks_of(segment, plan.data if plan else 1)
    ]
    return running if expected and all(rank in running for rank in expected) else {}


def slots(
    spec: PrefillPoolSpec,
    job: GeoTrainingJob,
    ranks: Sequence[RankPod],
    unseen: Set[str] = frozenset(),
) -> tuple[Slot, ...]:
    """List the places for workers: ranks first, then a second worker a rank, over all DCs in turn.

    A place keeps its index whatever ``scaling.max`` cuts off.
    """
    plan = job.status.plan
    homes: dict[str, list[int]] = defaultdict(list)
    for rank, pod in sorted(running_ranks(job, ranks, unseen).items()):
        assert plan is not None, "only planned gangs run"
        if not spec.placement.stages or rank // plan.data in spec.placement.stages:
            homes[home_of(pod)].append(rank)
    places = [
        (layer, position, Slot(name, layer * len(shared) + position, rank))
        for name, shared in homes.items()
        for layer in range(spec.placement.max_per_gpu)
        for position, rank in enumerate(shared)
    ]
    places.sort(key=lambda place: (*place[:2], place[2].data_center))
    return tuple(slot for _, _, slot in places)[: spec.scaling.max]


def _ranks_of(segment: PlannedSegment, data: int) -> range:
    first = segment.first_stage * data
    return range(first, first + segment.stages * data)


def home_of(pod: RankPod) -> str:
    """Return the data centre that a training pod is bound to."""
    selector = pod.manifest["spec"].get("nodeSelector") or {}
    return str(selector.get(labels.DATA_CENTER, pod.data_center))


def no_room(member: Member, worker: Manifest) -> str:
    """Say why a worker does not fit beside its rank now, by the extender's arithmetic; '' if so."""
    facts = pod_from_manifest(worker)
    rank = member.occupancy.rank(facts.job_key, facts.beside_rank or 0)
    if rank is None:
        return f"rank {facts.beside_rank} of {facts.job} runs on no node"
    found = filter_nodes(facts, [rank.node], member.occupancy)
    return "" if found.passed else found.failed[rank.node]
