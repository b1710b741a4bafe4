"""What a pool's status and conditions say: workers, requests, and how training fares."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from geotrain.api import labels
from geotrain.api.conditions import FALSE, TRUE, UNKNOWN
from geotrain.api.reasons import ConditionType, Reason
from geotrain.api.v1alpha1 import GeoTrainingJob
from geotrain.api.v1alpha1.prefill_pool import BubbleTime
from geotrain.roles.controller import pool_protection
from geotrain.roles.controller.draft import Draft
from geotrain.roles.controller.pool_children import Slot, endpoint, router_name
from geotrain.roles.controller.pool_observed import PoolObserved, WorkerPod
from geotrain.roles.controller.pool_protection import Protection
from geotrain.units import format_duration, parse_duration


def protection(observed: PoolObserved, job: GeoTrainingJob | None, draft: Draft) -> Protection:
    """Look at training's pace and say in the condition TrainingProtected what was found."""
    status = observed.pool.status
    router = next((m for m in observed.hub if _is_router_config(m, observed)), None)
    before = Protection(pool_protection.baseline_of(router), status.training_stretch)
    if job is None:
        draft.set(
            ConditionType.TRAINING_PROTECTED,
            UNKNOWN,
            Reason.JOB_NOT_RUNNING,
            "no gang runs, so nothing can be compared",
        )
        return replace(before, stretch=None)
    guard = parse_duration(observed.pool.spec.guard)
    found = pool_protection.observe(
        job, before, status.bubble_seconds, bubble_time(observed.stats), guard
    )
    _tell(found, draft)
    draft.fields["trainingStretch"] = _rounded(found.stretch)
    return found


def serving(
    observed: PoolObserved, places: Sequence[Slot], lacking: Sequence[str], draft: Draft
) -> None:
    """Set the condition Serving: the router is ready and enough workers answer."""
    ready = sum(_ready(observed).values())
    least = max(1, observed.pool.spec.scaling.min)
    if not any(pod.ready for pod in observed.routers):
        trouble = next((pod.trouble for pod in observed.routers if pod.trouble), "")
        message = trouble or _refused_router(observed)
        message = message or f"{router_name(observed.pool.name)} has no ready pod"
        draft.set(ConditionType.SERVING, FALSE, Reason.ROUTER_NOT_READY, message)
    elif draft.reason(ConditionType.BOUND) != Reason.JOB_BOUND:
        draft.set(
            ConditionType.SERVING, FALSE, Reason.JOB_NOT_RUNNING, "there is no gang to run beside"
        )
    elif ready < least:
        why = "; ".join(lacking) or _troubles(observed)
        message = f"{ready} of {least} workers are ready{f': {why}' if why else ''}"
        draft.set(ConditionType.SERVING, FALSE, Reason.WORKERS_STARTING, message)
    else:
        message = "; ".join([f"{ready} of {len(places)} workers are ready", *lacking])
        draft.set(ConditionType.SERVING, TRUE, Reason.WORKERS_READY, message)


def report(
    observed: PoolObserved, job: GeoTrainingJob | None, places: Sequence[Slot], draft: Draft
) -> None:
    """Put workers and what the router counted into the status."""
    desired = Counter(slot.data_center for slot in places)
    ready, held = _ready(observed), Counter(worker.home for worker in observed.workers)
    draft.fields |= {
        "job": job.name if job else None,
        "workers": [
            {"dataCenter": name, "desired": desired[name], "ready": ready[name]}
            for name in sorted(desired | held)
        ],
        "readyWorkers": sum(ready.values()),
        "endpoint": endpoint(observed.pool) if observed.routers else None,
    }
    if observed.stats is not None:
        draft.fields |= counted(observed.stats)


def counted(stats: Mapping[str, Any]) -> dict[str, Any]:
    """Read the router's ``/stats`` as fields of the status; what makes no sense is left out."""
    fields: dict[str, Any] = {}
    if (seconds := bubble_time(stats)) is not None:
        fields["bubbleSeconds"] = seconds.model_dump(by_alias=True)
    admitted, refused = _count(stats.get("admitted")), _count(stats.get("refused"))
    if admitted is not None and refused is not None:
        fields["requests"] = {"admitted": admitted, "refused": refused}
    times = stats.get("ttft")
    shares = ("p50", "p90", "p99")
    if isinstance(times, Mapping) and all(_number(times.get(key)) is not None for key in shares):
        fields["timeToFirstToken"] = {key: format_duration(times[key]) for key in shares}
    return fields


def bubble_time(stats: Mapping[str, Any] | None) -> BubbleTime | None:
    """Read the bubble seconds of ``/stats``."""
    seconds = (stats or {}).get("bubbleSeconds")
    if not isinstance(seconds, Mapping):
        return None
    offered, used = _number(seconds.get("offered")), _number(seconds.get("used"))
    if offered is None or used is None:
        return None
    return BubbleTime(offered=round(offered, 3), used=round(used, 3))


def worker_url(worker: WorkerPod) -> str:
    """Where the router finds a worker, which is also the worker's name in its counts."""
    host = f"[{worker.address}]" if ":" in worker.address else worker.address
    return f"http://{host}:{labels.PORT_PREFILL}"


def phase(draft: Draft) -> str:
    """Say the conditions in one word."""
    state = {condition.type: condition for condition in draft.conditions}
    if ConditionType.SERVING in state and state[ConditionType.SERVING].is_true:
        return "Serving"
    bound = ConditionType.BOUND in state and state[ConditionType.BOUND].is_true
    return "Starting" if bound else "Waiting"


def _tell(found: Protection, draft: Draft) -> None:
    kind = ConditionType.TRAINING_PROTECTED
    if found.baseline is None:
        draft.set(
            kind, UNKNOWN, Reason.NO_BASELINE, "no iteration without prefill was measured yet"
        )
    elif found.stretch is None:
        alone = format_duration(found.baseline.seconds)
        draft.set(kind, TRUE, Reason.WITHIN_GUARD, f"without prefill an iteration takes {alone}")
    elif found.is_broken:
        held = "; no request is taken until it has fallen" if found.holds_back else ""
        message = f"iterations are {found.stretch:.1%} longer while prefill runs{held}"
        draft.set(kind, FALSE, Reason.TRAINING_STRETCHED, message)
    else:
        message = f"iterations are at most {found.tolerated:.0%} longer while prefill runs"
        draft.set(kind, TRUE, Reason.WITHIN_GUARD, message)


def _refused_router(observed: PoolObserved) -> str:
    """Why the router's Deployment gets no pod: a quota, a policy, a Pod Security level."""
    for manifest in observed.hub:
        if manifest["kind"] == "Deployment":
            for each in (manifest.get("status") or {}).get("conditions") or ():
                if (each["type"], each["status"]) == ("ReplicaFailure", "True"):
                    return str(each.get("message") or each.get("reason"))
    return ""


def _is_router_config(manifest: Mapping[str, Any], observed: PoolObserved) -> bool:
    wanted = ("ConfigMap", router_name(observed.pool.name))
    return (manifest["kind"], manifest["metadata"]["name"]) == wanted


def _ready(observed: PoolObserved) -> Counter[str]:
    """Count the workers by data centre that are ready and that the router reaches.

    The kubelet takes its time to show a new list to the router. While the router cannot be asked,
    the pods' own word is taken.
    """
    reached = _reached(observed.stats)
    return Counter(
        w.home
        for w in observed.workers
        if w.ready and not w.terminating and (reached is None or worker_url(w) in reached)
    )


def _reached(stats: Mapping[str, Any] | None) -> set[str] | None:
    """Read from ``/stats`` which workers answer."""
    workers = (stats or {}).get("workers")
    if not isinstance(workers, list):
        return None
    return {
        str(each.get("url"))
        for each in workers
        if isinstance(each, Mapping) and each.get("answers") is True
    }


def _troubles(observed: PoolObserved) -> str:
    for worker in observed.workers:
        if worker.trouble and not worker.ready:
            return f"{worker.name}: {worker.trouble}"
    if any(worker.ready for worker in observed.workers):
        return "the router has not reached the others yet"
    return ""


def _number(value: Any) -> float | None:
    good = isinstance(value, int | float) and math.isfinite(value) and value >= 0
    return float(value) if good else None


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
