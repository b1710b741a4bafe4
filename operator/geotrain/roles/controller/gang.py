"""One step of a gang: every pod or none, over all its members.

    1. stale    pods of another plan or attempt go first, and all of them
    2. create   every pod, held back by its gate, with its surroundings; it takes no room yet
    3. let go   once all exist and every member says that the whole set fits now
    4. start    all run within reserveTimeout, or all are taken back and the job waits
    5. run      until all ranks succeeded, or one failed

Binding is not atomic, so between 3 and 4 a gang may be half placed, but never for longer than
reserveTimeout. A pod that is lost after 4 counts as a failure of the gang.
"""

from collections import defaultdict
from collections.abc import Iterable

from geotrain.api import convert
from geotrain.api.conditions import FALSE, TRUE, UNKNOWN, format_time
from geotrain.api.reasons import ConditionType, Reason
from geotrain.fitting import Fits, Misfit, PodFacts, fits
from geotrain.model.decision import Reason as Why
from geotrain.roles.controller import carrying, measurement, ownership, removal
from geotrain.roles.controller.children import Gang, pod, surroundings
from geotrain.roles.controller.decision import HUB, Reference
from geotrain.roles.controller.draft import Draft
from geotrain.roles.controller.eligibility import not_planned_with
from geotrain.roles.controller.inputs import Planned
from geotrain.roles.controller.observed import Observed, RankPod
from geotrain.roles.controller.roll import Roll, call
from geotrain.units import Seconds, parse_duration

_PAUSE: Seconds = 15.0  # after a gang was taken back: what kept it from running may pass
_LOOK_AGAIN: tuple[Seconds, Seconds] = (2.0, 30.0)  # shortest and longest wait for room
_HOLD: Seconds = 10.0
_MOST_TOLD = 3  # pods named in a message


def is_let_go(observed: Observed, roll: Roll) -> bool:
    """Whether the gates of the present gang are being lifted or have been.

    The status says so last; after a crash before that, a pod without its gate does.
    """
    same = observed.planned is not None and (
        observed.job.status.revision == observed.planned.revision
    )
    return bool(roll.admitted) or (same and observed.job.status.reserve_time is not None)


def fitting_of(observed: Observed, roll: Roll) -> Fits | Misfit:
    """Whether the whole gang fits now, asked of each cluster with the extender's own arithmetic."""
    by_cluster: dict[str, list[PodFacts]] = defaultdict(list)
    for each in roll.current.values():
        by_cluster[observed.members[each.data_center].cluster].append(each.facts)
    reasons: list[Why] = []
    for member in observed.clusters:
        answer = fits(member.occupancy, by_cluster.get(member.cluster, []))
        reasons += answer.reasons if isinstance(answer, Misfit) else ()
    return Misfit(tuple(reasons)) if reasons else Fits({}, ())


def advance(observed: Observed, planned: Planned, draft: Draft) -> None:
    """Decide the next step and put it into the draft."""
    status = observed.job.status
    attempt = status.attempt or 0
    cidrs = {name: member.networks.cidrs for name, member in observed.members.items()}
    selectors = {n: m.data_center.spec.node_selector for n, m in observed.members.items()}
    gang = Gang(observed.job, planned, attempt, cidrs, observed.sidecar_image, selectors)
    roll = call(observed, planned, attempt)
    draft.fields |= {
        "plan": convert.plan_status(
            planned.plan, not_planned_with(observed.job, observed.members, planned)
        ),
        "revision": planned.revision,
        "attempt": attempt,
    }
    if status.revision not in (None, planned.revision):
        _begin_again(draft, Reason.REPLANNING, "the plan changed; the old gang is being removed")
    _tell_obstacles(observed, gang, draft)
    _surround(observed, gang, roll, draft)
    removal.pods(roll.stale, draft)
    if is_let_go(observed, roll):
        _let_go_step(observed, gang, roll, draft)
    else:
        _reserve(observed, gang, roll, draft)
    measurement.report(observed, planned, roll, draft)


def _begin_again(draft: Draft, reason: Reason, message: str) -> None:
    draft.fields["reserveTime"] = None
    draft.set(ConditionType.RESERVED, FALSE, reason, message)
    draft.set(ConditionType.PODS_READY, FALSE, reason, message)


def _surround(observed: Observed, gang: Gang, roll: Roll, draft: Draft) -> None:
    """Services, endpoints, policies and configurations, and nothing of earlier plans.

    Rates that a gang of an earlier plan may still use are neither changed nor given back.
    """
    made = surroundings(gang, roll.addresses)
    held = removal.outdated_schedules(observed, gang.planned.revision, roll.stale)
    wanted: dict[str, set[removal.Name]] = defaultdict(set)
    for name, manifests in made.items():
        member = observed.members.get(name)
        if name == HUB or (member is not None and member.reachable and not member.obstacle):
            draft.children[name] = tuple(
                each
                for each in manifests
                if observed.may_write(name, each)
                and (each["kind"], each["metadata"]["name"]) not in held
            )
        cluster = HUB if member is None else member.cluster
        wanted[cluster] |= {(m["kind"], m["metadata"]["name"]) for m in manifests}
    wanted[HUB] |= held
    removal.leftovers(observed, draft, wanted, roll.stale)


def _reserve(observed: Observed, gang: Gang, roll: Roll, draft: Draft) -> None:
    """Steps 1 to 3."""
    silent = _silent(observed, gang)
    if silent:
        draft.set(ConditionType.RESERVED, FALSE, Reason.MEMBER_UNREACHABLE, "; ".join(silent))
        draft.again(_HOLD)
    elif shut := _obstacles(observed, gang):
        message = "; ".join(shut)
        draft.set(ConditionType.RESERVED, FALSE, Reason.NAMESPACE_NOT_ENABLED, message)
    elif roll.stale or roll.leaving:
        if not _was_taken_back(draft):
            restarting = draft.reason(ConditionType.RESERVED) == Reason.GANG_RESTARTING
            reason = Reason.GANG_RESTARTING if restarting else Reason.REPLANNING
            draft.set(ConditionType.RESERVED, FALSE, reason, "pods of the old gang are ending")
        draft.again(_HOLD)
    elif (obstacle := carrying.obstacle(observed, gang)) is not None:
        draft.set(ConditionType.RESERVED, FALSE, obstacle.reason, obstacle.message)
        draft.again(_PAUSE)
    elif roll.missing:
        _create(gang, roll, draft)
    else:
        _ask_for_room(observed, roll, draft)


def _was_taken_back(draft: Draft) -> bool:
    return draft.reason(ConditionType.RESERVED) == Reason.RESERVE_TIMEOUT


def _create(gang: Gang, roll: Roll, draft: Draft) -> None:
    if _was_taken_back(draft) and draft.since(ConditionType.RESERVED) < _PAUSE:
        draft.again(_PAUSE - draft.since(ConditionType.RESERVED))
        return
    for rank in roll.missing:
        name = gang.plan.data_center_of(rank)
        draft.children[name] = (*draft.children.get(name, ()), pod(gang, rank))
    message = f"creating {gang.plan.ranks} pods behind their gates"
    draft.set(ConditionType.RESERVED, FALSE, Reason.RESERVING, message)
    draft.set(ConditionType.PODS_READY, FALSE, Reason.PODS_STARTING, "the gang is being reserved")
    draft.again(1.0)


def _ask_for_room(observed: Observed, roll: Roll, draft: Draft) -> None:
    answer = fitting_of(observed, roll)
    if isinstance(answer, Misfit):
        message = "; ".join(why.sentence for why in answer.reasons)
        draft.set(ConditionType.RESERVED, FALSE, Reason.WAITING_FOR_CAPACITY, message)
        shortest, longest = _LOOK_AGAIN
        draft.again(min(longest, max(shortest, draft.since(ConditionType.RESERVED) / 2)))
        return
    _lift(roll.gated, draft)
    draft.fields["reserveTime"] = format_time(draft.time)
    _tell_reserved(observed, roll, draft)
    draft.set(ConditionType.PODS_READY, FALSE, Reason.PODS_STARTING, "pods are being bound")
    draft.again(1.0)


def _lift(gated: Iterable[RankPod], draft: Draft) -> None:
    draft.ungate += [Reference.of(each.data_center, each.manifest) for each in gated]


def _tell_reserved(observed: Observed, roll: Roll, draft: Draft) -> None:
    """A gang that was let go goes on, though others took names of what stands around it."""
    if observed.taken:
        message = ownership.told(observed.taken, "job")
        draft.set(ConditionType.RESERVED, FALSE, Reason.NAME_TAKEN, message)
    else:
        message = f"all {len(roll.current)} pods were let go together"
        draft.set(ConditionType.RESERVED, TRUE, Reason.GANG_RESERVED, message)


def _let_go_step(observed: Observed, gang: Gang, roll: Roll, draft: Draft) -> None:
    """Steps 4 and 5."""
    deadline = _deadline(observed, draft)
    silent = _silent(observed, gang)
    gone = [name for name in gang.data_centers if name not in observed.members]
    if roll.failed:
        _fail(observed, roll, draft)
    elif gone:
        _restart(observed, draft, f"DataCenter {', '.join(gone)} was deleted")
    elif deadline is not None and deadline <= 0:
        limit = observed.job.spec.active_deadline
        _end(draft, ConditionType.FAILED, Reason.DEADLINE_EXCEEDED, f"it ran longer than {limit}")
    elif silent:
        _hold(observed, roll, draft, silent)
    elif roll.complete:
        message = f"all {gang.plan.ranks} ranks ended with success"
        _end(draft, ConditionType.COMPLETE, Reason.ALL_RANKS_SUCCEEDED, message)
    elif roll.missing or roll.leaving:
        _lose(observed, gang, roll, draft)
    elif roll.idle:
        _start(observed, roll, draft)
    else:
        _run(observed, roll, draft)
    if deadline is not None and deadline > 0:
        draft.again(deadline)


def _hold(observed: Observed, roll: Roll, draft: Draft, silent: list[str]) -> None:
    """A member does not answer: its pods may well run, so nothing is torn down for that."""
    message = "; ".join(silent)
    if _has_run(draft):
        draft.set(ConditionType.PODS_READY, UNKNOWN, Reason.MEMBER_UNREACHABLE, message)
        draft.again(_HOLD)
    elif _time_left(observed, draft) > 0:
        draft.set(ConditionType.PODS_READY, FALSE, Reason.PODS_STARTING, message)
        draft.again(min(_HOLD, _time_left(observed, draft)))
    else:
        _take_back(observed, roll, draft, message)


def _lose(observed: Observed, gang: Gang, roll: Roll, draft: Draft) -> None:
    lost = [gang.job.name + f"-r{rank}" for rank in roll.missing]
    lost += [each.name for each in roll.leaving]
    message = f"{_listed(lost)} was deleted"
    if _has_run(draft):
        _restart(observed, draft, message)
    else:
        _take_back(observed, roll, draft, message)


def _start(observed: Observed, roll: Roll, draft: Draft) -> None:
    _lift(roll.gated, draft)
    if observed.job.status.reserve_time is None:
        draft.fields["reserveTime"] = format_time(draft.time)
    _tell_reserved(observed, roll, draft)
    left = _time_left(observed, draft)
    troubles = [f"{each.name}: {each.trouble}" for each in roll.idle if each.trouble]
    if left <= 0:
        running = len(roll.current) - len(roll.idle)
        told = _listed(troubles) if troubles else "the rest did not start"
        _take_back(observed, roll, draft, f"{running} of {len(roll.current)} ran; {told}")
        return
    message = _listed(troubles) if troubles else f"{len(roll.idle)} pods are starting"
    draft.set(ConditionType.PODS_READY, FALSE, Reason.PODS_STARTING, message)
    draft.again(left)


def _run(observed: Observed, roll: Roll, draft: Draft) -> None:
    if observed.job.status.start_time is None:
        draft.fields["startTime"] = format_time(draft.time)
    _tell_reserved(observed, roll, draft)
    message = f"all {len(roll.current)} pods run"
    draft.set(ConditionType.PODS_READY, TRUE, Reason.PODS_RUNNING, message)
    draft.again(measurement.PERIOD)


def _take_back(observed: Observed, roll: Roll, draft: Draft, message: str) -> None:
    draft.ungate.clear()
    removal.pods(roll.current.values(), draft)
    allowed = observed.job.spec.reserve_timeout
    told = f"taken back, because not all pods ran within {allowed}: {message}"
    _begin_again(draft, Reason.RESERVE_TIMEOUT, told)
    draft.again(_PAUSE)


def _fail(observed: Observed, roll: Roll, draft: Draft) -> None:
    first = roll.failed[0]
    message = f"{first.name} in {first.data_center}: {first.end}"
    draft.tell(Reason.POD_FAILED, message)
    _restart(observed, draft, message)


def _restart(observed: Observed, draft: Draft, message: str) -> None:
    """The new attempt is written first; what belongs to the old one is then stale."""
    status = observed.job.status
    before = status.observed.restarts if status.observed else 0
    most = observed.job.spec.failure_policy.max_restarts
    if before >= most:
        told = f"a pod failed after {before} of {most} restarts: {message}"
        _end(draft, ConditionType.FAILED, Reason.MAX_RESTARTS_EXCEEDED, told)
        return
    draft.fields["attempt"] = (status.attempt or 0) + 1
    draft.fields["observed"] = {"restarts": before + 1}
    _begin_again(draft, Reason.GANG_RESTARTING, f"restart {before + 1} of {most}: {message}")
    draft.again(0.0)


def _end(draft: Draft, kind: ConditionType, reason: Reason, message: str) -> None:
    other = {ConditionType.FAILED, ConditionType.COMPLETE} - {kind}
    draft.set(kind, TRUE, reason, message)
    for each in other:
        draft.set(each, FALSE, Reason.NOT_FINISHED)
    draft.set(ConditionType.PODS_READY, FALSE, Reason.PODS_FINISHED, message)
    draft.fields["completionTime"] = format_time(draft.time)
    draft.again(0.0)


def _has_run(draft: Draft) -> bool:
    """Whether all pods of the present gang ran once."""
    starting = draft.reason(ConditionType.PODS_READY) in (Reason.PODS_STARTING, "")
    return not starting


def _time_left(observed: Observed, draft: Draft) -> Seconds:
    """Until the gang is taken back unless all of it runs."""
    begin = observed.job.status.reserve_time
    allowed = parse_duration(observed.job.spec.reserve_timeout)
    return allowed if begin is None else begin.timestamp() + allowed - draft.now


def _deadline(observed: Observed, draft: Draft) -> Seconds | None:
    """Until activeDeadline is over; None without one or before the gang ran."""
    limit, begin = observed.job.spec.active_deadline, observed.job.status.start_time
    if limit is None or begin is None:
        return None
    return begin.timestamp() + parse_duration(limit) - draft.now


def _silent(observed: Observed, gang: Gang) -> list[str]:
    """The members of the gang that cannot be seen, with why."""
    found: list[str] = []
    for name in gang.data_centers:
        member = observed.members.get(name)
        if member is None:
            found.append(f"DataCenter {name} does not exist")
        elif member.fault:
            found.append(f"{name}: {member.fault}")
    return found


def _obstacles(observed: Observed, gang: Gang) -> list[str]:
    """The members of the gang whose namespace is not open to it, with what opens it."""
    used = (observed.members.get(name) for name in gang.data_centers)
    return [f"{each.name}: {each.obstacle}" for each in used if each is not None and each.obstacle]


def _tell_obstacles(observed: Observed, gang: Gang, draft: Draft) -> None:
    """Pods that are there keep running where a namespace was shut; nothing new is made."""
    kind = ConditionType.NAMESPACES_ENABLED
    if shut := _obstacles(observed, gang):
        message = f"nothing new is made: {'; '.join(shut)}"
        draft.set(kind, FALSE, Reason.NAMESPACE_NOT_ENABLED, message)
    elif draft.reason(kind):
        draft.set(kind, TRUE, Reason.NAMESPACES_ENABLED, "all members that are needed are open")


def _listed(texts: list[str]) -> str:
    more = len(texts) - _MOST_TOLD
    shown = "; ".join(texts[:_MOST_TOLD])
    return f"{shown} and {more} more" if more > 0 else shown
