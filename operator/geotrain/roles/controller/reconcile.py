"""What to do next for a GeoTrainingJob: a pure function of what is observed and of the time.

Rules are tried in order and the first that applies decides:

    managed by somebody else   nothing
    being deleted              remove everything, then let the job go
    finished                   give back the GPUs; after its time to live, delete the job
    suspended                  remove everything
    no plan                    say why; nothing stays in the members
    a name is taken            say by what; nothing stays, and nothing of others is touched
    otherwise                  one step of the gang (``gang``)

Nothing is remembered between two calls but what the status and the members' objects say, so a
controller that dies anywhere goes on where it was.
"""

from datetime import datetime

from geotrain.api import convert, labels
from geotrain.api.conditions import FALSE, TRUE, UNKNOWN
from geotrain.api.pod_template import unknown_centers
from geotrain.api.reasons import ConditionType, Reason
from geotrain.api.v1alpha1.resource import Metadata
from geotrain.api.v1alpha1.training_status import GeoTrainingJobStatus
from geotrain.errors import ClusterError, InputError
from geotrain.fitting import Fits
from geotrain.planning.costs import connections
from geotrain.roles.controller import gang, ownership, refusals, removal
from geotrain.roles.controller.decision import Decision, Manifest
from geotrain.roles.controller.draft import Draft
from geotrain.roles.controller.inputs import Planned, spec_digest
from geotrain.roles.controller.observed import Observed
from geotrain.roles.controller.roll import call
from geotrain.units import Seconds, parse_duration

MANAGER = "geotrain.io/controller"

_RETRY_PLAN: Seconds = 10.0  # a changed topology wakes the job anyway; this catches the rest
_RETRY_REFUSED: Seconds = 15.0
_RETRY_REMOVAL: Seconds = 5.0
_RETRY_NAMES: Seconds = 5.0  # what has no label of ours is not followed, only asked for again


def decide(observed: Observed, now: Seconds) -> Decision:
    """The next step."""
    if observed.job.spec.managed_by != MANAGER:
        return Decision()
    draft = Draft(observed.job.metadata, observed.job.status, now)
    if observed.job.metadata.deletion_timestamp is not None:
        _delete(observed, draft)
    elif _finished_at(observed) is not None:
        return _finished(observed, draft)
    else:
        draft.finalizer = None if observed.has_finalizer else True
        _advance(observed, draft)
        draft.fields["phase"] = phase(draft)
    return draft.decision()


def wants_plan(observed: Observed) -> bool:
    """Whether a new plan is to be made before the next decision.

    A gang that was let go keeps its plan until plan or pods must change; one that waits is planned
    again, because what it waits for may be free elsewhere.
    """
    job = observed.job
    settled = job.metadata.deletion_timestamp is not None or job.spec.suspend
    if settled or job.spec.managed_by != MANAGER or _finished_at(observed) is not None:
        return False
    planned = observed.planned
    if planned is None or planned.inputs.spec != spec_digest(job):
        return True
    roll = call(observed, planned, job.status.attempt or 0)
    if gang.is_let_go(observed, roll):
        return False
    used = [observed.members.get(name) for name, _ in planned.plan.placement.segments]
    asked = job.spec.placement.named
    if any(m is None or not m.reachable or (m.obstacle and not asked) for m in used):
        return True
    waits = not (roll.missing or roll.leaving or roll.stale)
    return waits and not isinstance(gang.fitting_of(observed, roll), Fits)


def refused(observed: Observed, error: ClusterError, now: Seconds) -> Decision:
    """What to say when a member's API server does not take an object of the job."""
    draft = Draft(observed.job.metadata, observed.job.status, now)
    job = observed.job
    has_sidecar = job.spec.network.enforcement == "Sidecar"
    homes = _homes(observed)
    told = refusals.of_job(str(error), job.namespace, homes, has_sidecar=has_sidecar)
    draft.set(ConditionType.RESERVED, FALSE, *told)
    draft.fields["phase"] = phase(draft)
    draft.again(_RETRY_REFUSED)
    return draft.decision()


def _homes(observed: Observed) -> dict[str, str]:
    """The data centres of the plan's pods, by the pods' names."""
    if observed.planned is None:
        return {}
    plan, job = observed.planned.plan, observed.job.name
    return {labels.pod_name(job, rank): plan.data_center_of(rank) for rank in range(plan.ranks)}


def unreadable(manifest: Manifest, error: InputError, now: Seconds) -> Decision:
    """What to say of a job that admission let through and that cannot be read all the same."""
    metadata = Metadata.model_validate(manifest["metadata"])
    draft = Draft(metadata, GeoTrainingJobStatus.model_validate(manifest.get("status") or {}), now)
    draft.set(ConditionType.PLANNED, FALSE, Reason.INVALID_SPEC, str(error))
    draft.fields["phase"] = phase(draft)
    return draft.decision()


def phase(draft: Draft) -> str:
    """The conditions in one word."""
    state = {c.type: c for c in draft.conditions}

    def holds(kind: ConditionType) -> bool:
        return kind in state and state[kind].is_true

    words = {
        ConditionType.FAILED: "Failed",
        ConditionType.COMPLETE: "Complete",
        ConditionType.SUSPENDED: "Suspended",
    }
    for kind, word in words.items():
        if holds(kind):
            return word
    if draft.reason(ConditionType.SUSPENDED) == Reason.SUSPENDING:
        return "Suspending"
    if holds(ConditionType.PODS_READY):
        return "Running"
    if draft.reason(ConditionType.RESERVED) == Reason.GANG_RESTARTING:
        return "Restarting"
    if holds(ConditionType.RESERVED):
        return "Starting"
    return "Waiting" if holds(ConditionType.PLANNED) else "Pending"


def _finished_at(observed: Observed) -> datetime | None:
    return observed.job.status.completion_time


def _delete(observed: Observed, draft: Draft) -> None:
    if not observed.has_finalizer:
        return
    left = removal.everything(observed, draft)
    if draft.deletions:
        draft.again(_RETRY_REMOVAL)
    elif left.silent:
        draft.set(
            ConditionType.RESERVED,
            UNKNOWN,
            Reason.MEMBER_UNREACHABLE,
            f"{'; '.join(left.silent)}: what the job has there is removed when it answers again, or"
            " when its DataCenter is deleted",
        )
        draft.again(_RETRY_PLAN)
    elif not removal.is_clean(observed):
        draft.again(_RETRY_REMOVAL)
    else:
        draft.finalizer = False
        draft.tell(Reason.CLEANED_UP, "everything that the job had in its members was removed")


def _finished(observed: Observed, draft: Draft) -> Decision:
    """Pods that ended stay, for their logs; everything else gives back what it holds."""
    ended = _finished_at(observed)
    assert ended is not None, "only finished jobs come here"
    kept = observed.job.spec.ttl_after_finished
    left = None
    if kept is not None:
        left = ended.timestamp() + parse_duration(kept) - draft.now
        if left <= 0:
            return Decision(remove=True)
        draft.again(left)
    held = removal.all_but_ended_pods(observed, draft)
    if held.silent:
        message = f"{held.sentence}, and so does the job's share of the links"
        draft.set(ConditionType.RESERVED, UNKNOWN, Reason.MEMBER_UNREACHABLE, message)
    elif draft.reason(ConditionType.RESERVED) == Reason.MEMBER_UNREACHABLE:
        draft.set(ConditionType.RESERVED, FALSE, Reason.PODS_FINISHED, "the pods have ended")
    if held:
        draft.again(_RETRY_REMOVAL)
    return draft.decision()


def _advance(observed: Observed, draft: Draft) -> None:
    if observed.job.spec.suspend:
        _suspend(observed, draft)
        return
    if draft.reason(ConditionType.SUSPENDED):
        draft.set(ConditionType.SUSPENDED, FALSE, Reason.RESUMED)
    fault = observed.plan_fault
    if fault is not None:
        draft.set(ConditionType.PLANNED, FALSE, fault.reason, fault.message)
        draft.again(_RETRY_PLAN)
    elif observed.planned is not None:
        message = _advice(observed, observed.planned)
        draft.set(ConditionType.PLANNED, TRUE, Reason.PLAN_READY, message)
    planned = observed.planned
    if planned is None or (fault is not None and not _runs(observed, planned)):
        _clear(observed, draft)
        draft.set(ConditionType.RESERVED, FALSE, Reason.NOT_PLANNED, "there is no plan yet")
    elif observed.taken and not _runs(observed, planned):
        _clear(observed, draft)
        message = ownership.told(observed.taken, "job")
        draft.set(ConditionType.RESERVED, FALSE, Reason.NAME_TAKEN, message)
        draft.again(_RETRY_NAMES)
    else:
        gang.advance(observed, planned, draft)


def _advice(observed: Observed, planned: Planned) -> str:
    """Where it runs, and what of the job or the links has no effect as it stands."""
    plan, inputs = planned.plan, planned.inputs
    said = [f"runs as {convert.segments_text(plan.placement.segments)}"]
    said += connections.cuts(inputs.topology, inputs.workload, plan.placement)
    said += unknown_centers(observed.job, observed.members)
    return "; ".join(said)


def _runs(observed: Observed, planned: Planned) -> bool:
    """Whether a gang of an earlier plan is at work; it is not stopped for a spec without a plan."""
    roll = call(observed, planned, observed.job.status.attempt or 0)
    return gang.is_let_go(observed, roll)


def _suspend(observed: Observed, draft: Draft) -> None:
    """Hold nothing; said to be done when the last pod has gone, wherever it was."""
    left = _clear(observed, draft)
    if left:
        message = f"Suspending: {left.sentence}"
        draft.set(ConditionType.SUSPENDED, FALSE, Reason.SUSPENDING, message)
    else:
        draft.set(ConditionType.SUSPENDED, TRUE, Reason.SUSPENDED, "held by spec.suspend")
    draft.set(ConditionType.RESERVED, FALSE, Reason.SUSPENDED, "held by spec.suspend")


def _clear(observed: Observed, draft: Draft) -> removal.Left:
    """Take everything back: a job that cannot or must not run holds nothing."""
    left = removal.everything(observed, draft)
    if left:
        draft.again(_RETRY_REMOVAL)
    draft.fields["reserveTime"] = None
    if draft.reason(ConditionType.PODS_READY):
        draft.set(ConditionType.PODS_READY, FALSE, Reason.NOT_RUNNING)
        draft.set(ConditionType.WINDOWS_ENFORCED, FALSE, Reason.NOT_RUNNING)
    return left
