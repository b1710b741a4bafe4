"""A plan as its executors need it, made of the best replay."""

from itertools import pairwise
from math import fsum

from geotrain.model.plan import Interval, Placement, Plan, Proof
from geotrain.planning.placement import trials
from geotrain.planning.placement.contenders import Contenders, Replayed
from geotrain.planning.schedule import bubbles, checks, costs, timeline, windows
from geotrain.planning.schedule.compiled import Engine
from geotrain.planning.schedule.compiled_programs import Fast


def plan(contenders: Contenders, engine: Engine, notes: tuple[str, ...], proof: Proof) -> Plan:
    """The plan of the best contender."""
    best, workload = contenders.best, contenders.workload
    assert best is not None, "a plan is made of the best replay"
    placement, order = best.candidate.placement, trials.order_of(best.trial.ready)
    replay = _timeline(best, engine)
    checks.require_sound(order, best.candidate.room)
    sent = windows.traffic(replay, placement)
    waits = bubbles.bubbles(replay)
    ranks = [(s, r) for s in range(placement.stages) for r in range(placement.data)]
    compute = replay.computes()
    gpu_time = len(ranks) * replay.period
    winner = contenders.describe(best.candidate, best.trial.name, replay.period)
    return Plan(
        placement=placement,
        tensor=workload.tensor,
        micro_batches=best.candidate.micro_batches,
        schedule=best.trial.name,
        order=order,
        iteration=replay.period,
        gpu_use=bubbles.busy_seconds(replay) / gpu_time if gpu_time else 0.0,
        bubble_share=fsum(w.end - w.begin for w in waits) / gpu_time if gpu_time else 0.0,
        connections=_connections(placement, best.candidate.costs),
        wan_bytes=contenders.costing.wan_bytes(placement),
        price_per_iteration=contenders.costing.price(placement, replay.period),
        flows=sent.flows,
        windows=sent.windows,
        bubbles=waits,
        first_action=tuple(actions[0].begin for actions in compute),
        compute=compute,
        steps=tuple(Interval("step", *replay.steps[stage]) for stage, _ in ranks),
        transfers=sent.transfers,
        alternatives=(winner, *contenders.losers()),
        layers=tuple(stage.layers for stage in best.candidate.costs.stages),
        in_flight=checks.peak_in_flight(order),
        sharing=workload.sharing,
        notes=(*workload.notes, *notes),
        error=workload.error,
        proof=proof,
    )


def _timeline(replayed: Replayed, engine: Engine) -> timeline.Timeline:
    """The whole replay, with the time of every action."""
    ready, data = replayed.trial.ready, replayed.candidate.placement.data
    if engine.is_compiled:
        return Fast(engine, ready).replay(replayed.candidate.costs, data)
    return timeline.replay(ready, replayed.candidate.costs, data)


def _connections(placement: Placement, cost: costs.Costs) -> dict[tuple[str, str], int]:
    """TCP connections of one path over each direction of each link."""
    found = {}
    where = [placement.data_center_of(stage) for stage in range(placement.stages)]
    for boundary, (source, target) in enumerate(pairwise(where)):
        if source != target:
            found[source, target] = cost.forward[boundary].connections
            found[target, source] = cost.backward[boundary].connections
    return found
